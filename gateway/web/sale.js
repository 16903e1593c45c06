// The sale page: countdown, stock, buying, and the order's fate, all pushed by server-sent events.
//
//     /              the list of sales
//     /sales/<id>    one sale
//
// A purchase that got no answer is asked again with the same request id, so it is never made twice.
'use strict';

const $ = (id) => document.getElementById(id);
const saleId = decodeURIComponent((location.pathname.match(/^\/sales\/([^/]+)/) || [])[1] || '');
const user = remember('stampede-user', () => 'web-' + randomId().slice(0, 12));
let stock = null;
let clockSkew = 0; // the server's clock minus ours, ms: the window is judged by the server's
let order = JSON.parse(sessionStorage.getItem('order-' + saleId) || 'null');
let orderEvents = null;
let buying = false;

function randomId() {
	const bytes = crypto.getRandomValues(new Uint8Array(16));
	return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
}

function remember(key, make) {
	let value = localStorage.getItem(key);
	if (!value) localStorage.setItem(key, value = make());
	return value;
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const now = () => Date.now() + clockSkew;

// One request; the parsed answer, or an Error with the service's message. What may have been lost on the way is
// sent again, alike.
async function call(method, path, body) {
	for (let attempt = 1; ; attempt++) {
		let response;
		try {
			response = await fetch(path, {
				method,
				headers: {'Content-Type': 'application/json', 'Stampede-Attempt': String(attempt)},
				body: body && JSON.stringify(body),
			});
		} catch (error) {
			if (attempt === 6) throw new Error('The shop cannot be reached.');
		}
		if (response && ![429, 503, 504].includes(response.status) || attempt === 6) {
			const answer = await response.json().catch(() => ({}));
			if (response.ok) return answer;
			throw new Error(answer.message || 'HTTP ' + response.status);
		}
		await pause(Math.min(200 * 2 ** attempt, 3000) * (0.5 + Math.random() / 2));
	}
}

function watch(path, onMessage) {
	const events = new EventSource(path);
	events.onmessage = (event) => onMessage(JSON.parse(event.data));
	events.onopen = () => { $('link').textContent = 'live'; };
	events.onerror = () => { $('link').textContent = 'reconnecting'; };
	return events;
}

function say(text, mood) {
	$('result').textContent = text;
	$('result').className = mood || '';
}

function span(ms) {
	const seconds = Math.max(0, Math.ceil(ms / 1000));
	const parts = [Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, seconds % 60];
	const days = Math.floor(seconds / 86400);
	return (days ? days + ' d ' : '') + parts.map((part) => String(part).padStart(2, '0')).join(':');
}

// --- the sale -------------------------------------------------------------------------------------

function phase() {
	if (!stock) return 'loading';
	if (stock.status === 'SALE_STATUS_DRAFT') return 'draft';
	if (stock.status === 'SALE_STATUS_PAUSED') return 'paused';
	if (stock.status === 'SALE_STATUS_CLOSED' || stock.endsAt && now() >= Date.parse(stock.endsAt)) return 'ended';
	if (stock.startsAt && now() < Date.parse(stock.startsAt)) return 'before';
	return Number(stock.available) > 0 ? 'open' : 'sold-out';
}

function show() {
	const is = phase();
	const total = Number(stock ? stock.total : 0), available = Number(stock ? stock.available : 0);
	$('clock').textContent = {
		loading: '…',
		draft: 'Opens soon',
		paused: 'Paused',
		ended: 'This sale is over',
		before: stock && 'Starts in ' + span(Date.parse(stock.startsAt) - now()),
		open: stock && stock.endsAt ? 'Ends in ' + span(Date.parse(stock.endsAt) - now()) : 'On sale now',
		'sold-out': 'Sold out',
	}[is];
	$('stock').textContent = is === 'loading' ? '' : `${available.toLocaleString()} of ${total.toLocaleString()} left`;
	$('left').style.width = total ? 100 * available / total + '%' : '0';
	$('bar').setAttribute('aria-valuemax', total);
	$('bar').setAttribute('aria-valuenow', available);
	$('buy').disabled = is !== 'open' || buying || order !== null;
	$('buy').textContent = {before: 'Not yet', 'sold-out': 'Sold out', ended: 'Over'}[is] || 'Buy';
	$('paying').hidden = !(order && order.status === 'ORDER_STATUS_PENDING');
	if (order && order.payBy) $('pay-by').textContent = 'Pay within ' + span(Date.parse(order.payBy) - now());
}

function takeStock(news) {
	stock = news.stock;
	clockSkew = Date.parse(stock.asOf) - Date.now();
	show();
}

const refusals = {
	OUTCOME_SOLD_OUT: 'Sold out. Units return when an order is not paid.',
	OUTCOME_LIMIT_REACHED: 'You already have as many as one buyer may.',
	OUTCOME_NOT_OPEN: 'The sale has not begun.',
	OUTCOME_PAUSED: 'The sale is paused.',
	OUTCOME_ENDED: 'The sale is over.',
};

async function buy() {
	buying = true;
	say('One moment…');
	show();
	try {
		const answer = await call('POST', `/v1/sales/${encodeURIComponent(saleId)}/reservations`,
			{userId: user, quantity: 1, requestId: randomId()});
		if (answer.outcome === 'OUTCOME_RESERVED') {
			keepOrder({orderId: answer.orderId, payBy: answer.payBy, status: ''});
			say('Yours! Writing your order…', 'good');
			watchOrder();
		} else {
			say(refusals[answer.outcome] || answer.outcome, 'bad');
		}
	} catch (error) {
		say(error.message, 'bad');
	}
	buying = false;
	show();
}

// --- the order ------------------------------------------------------------------------------------

function keepOrder(value) {
	order = value;
	if (order) sessionStorage.setItem('order-' + saleId, JSON.stringify(order));
	else sessionStorage.removeItem('order-' + saleId);
}

function takeOrder(news) {
	keepOrder(news.order);
	const id = order.orderId;
	if (order.status === 'ORDER_STATUS_PENDING') {
		say(`Yours! Order ${id} waits for payment.`, 'good');
	} else {
		orderEvents.close();
		if (order.status === 'ORDER_STATUS_PAID') {
			say(`Paid. Order ${id} is on its way.`, 'good');
		} else {
			say(order.cancelReason === 'CANCEL_REASON_UNPAID'
				? `Order ${id} was not paid in time and has been cancelled.`
				: `Order ${id} has been cancelled.`, 'bad');
			keepOrder(null);
		}
	}
	show();
}

function watchOrder() {
	if (orderEvents) orderEvents.close();
	orderEvents = watch(`/v1/orders/${order.orderId}:watch`, takeOrder);
}

async function change(verb, body) {
	$('pay').disabled = $('cancel').disabled = true;
	try {
		takeOrder(await call('POST', `/v1/orders/${order.orderId}:${verb}`, body));
	} catch (error) {
		say(error.message, 'bad');
	}
	$('pay').disabled = $('cancel').disabled = false;
}

// --- start ----------------------------------------------------------------------------------------

async function listSales() {
	$('title').textContent = 'Sales';
	$('sales').hidden = false;
	const {sales = []} = await call('GET', '/v1/sales');
	$('link').textContent = ['no sales yet', 'one sale'][sales.length] || sales.length + ' sales';
	for (const sale of sales) {
		const link = document.createElement('a'), small = document.createElement('small');
		link.href = '/sales/' + encodeURIComponent(sale.saleId);
		link.textContent = sale.title || sale.saleId;
		small.textContent = ` ${Number(sale.available || 0).toLocaleString()} of ${Number(sale.total || 0).toLocaleString()} left`;
		link.append(small);
		$('sales').append(link);
	}
}

async function startSale() {
	const path = `/v1/sales/${encodeURIComponent(saleId)}`;
	const {sale} = await call('GET', path);
	$('title').textContent = document.title = sale.title || sale.saleId;
	if (sale.unitPrice && sale.unitPrice.currency) {
		const {amountMinor = 0, currency} = sale.unitPrice;
		const format = new Intl.NumberFormat(undefined, {style: 'currency', currency});
		$('price').textContent = format.format(Number(amountMinor) / 10 ** format.resolvedOptions().maximumFractionDigits);
	}
	$('sale').hidden = false;
	$('buy').onclick = buy;
	$('pay').onclick = () => change('pay', {paymentReference: 'web-' + randomId().slice(0, 8)});
	$('cancel').onclick = () => change('cancel', {});
	watch(path + '/stock:watch', takeStock);
	if (order) watchOrder();
	setInterval(show, 250);
}

$('user').textContent = user;
(saleId ? startSale() : listSales()).catch((error) => {
	$('title').textContent = 'Sorry';
	$('sale').hidden = false;
	say(error.message, 'bad');
});
