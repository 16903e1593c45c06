-- Decides a batch of reservations of one sale, in order: the request id first (a repeat gets the first answer,
-- even when nothing is left), then the sale's state, the user's limit, the stock. What is taken is recorded and
-- put into the outbox in the same step.
--
-- KEYS: sale, users (user -> units held), requests (request -> order),
--       orders (order -> 'R' reserved_ms \n user \n quantity \n request), outbox
-- ARGV: the most entries the outbox may hold, then request, user, quantity, order for each reservation
-- Returns nil (no such sale), or {now_ms, available, outbox entry or '', price, currency, pay_ms,
--         durability, replicas, answer…}; an answer is 1 RESERVED … 6 ENDED (Outcome), 7 the outbox is
--         full, or for a repeat "order \n" and its entry in orders.
local sale = redis.call('HMGET', KEYS[1], 'status', 'available', 'limit', 'starts_ms', 'ends_ms',
	'price', 'currency', 'pay_ms', 'durability', 'replicas')
if not sale[1] then return false end
-- Redis writes a Lua number with "%.17g", which takes longer than to store it.
local digits = {}
local function integer(number)
	local text = digits[number]
	if not text then
		text = string.format('%d', number)
		digits[number] = text
	end
	return text
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local available, limit = tonumber(sale[2]), tonumber(sale[3])
local starts, ends = tonumber(sale[4]), tonumber(sale[5])

local closed = nil -- the answer to all that are not repeats
if sale[1] == '1' or (sale[1] == '2' and now < starts) then
	closed = 4
elseif sale[1] == '3' then
	closed = 5
elseif sale[1] == '4' or (ends > 0 and now >= ends) then
	closed = 6
elseif available > 0 and redis.call('XLEN', KEYS[5]) >= tonumber(ARGV[1]) then
	closed = 7
end

local requests, users = {}, {}
local count = 0
for i = 2, #ARGV, 4 do
	count = count + 1
	requests[count], users[count] = ARGV[i], ARGV[i + 1]
end
local known = redis.call('HMGET', KEYS[3], unpack(requests))
local held = {}
if available > 0 and not closed then
	held = redis.call('HMGET', KEYS[2], unpack(users))
end

local answers = {now, 0, '', sale[6], sale[7], sale[8], sale[9], sale[10]}
local first = #answers
local mine = {}                      -- request -> where what it took in this batch stands in set_orders
local holds = {}                     -- user -> units, likewise
local set_requests, set_orders, taken = {}, {}, 0
local head = 'R' .. now .. '\n'
local left = available
for i = 1, count do
	local request, user = requests[i], users[i]
	local quantity = ARGV[i * 4]
	local order, at = known[i], mine[request]
	local answer
	if at then
		answer = set_orders[at] .. '\n' .. set_orders[at + 1]
	elseif order then
		answer = order .. '\n' .. redis.call('HGET', KEYS[4], order)
	elseif closed then
		answer = closed
	else
		local units = tonumber(quantity)
		local has = holds[user] or tonumber(held[i] or 0)
		if has + units > limit then
			answer = 3
		elseif units > left then
			answer = 2
		else
			order = ARGV[i * 4 + 1]
			left = left - units
			holds[user] = has + units
			mine[request] = taken + 1
			set_requests[taken + 1], set_requests[taken + 2] = request, order
			set_orders[taken + 1] = order
			set_orders[taken + 2] = head .. user .. '\n' .. quantity .. '\n' .. request
			taken = taken + 2
			answer = 1
		end
	end
	answers[first + i] = answer
end

answers[2] = left
if left < available then
	local set_users = {}
	count = 0
	for user, units in pairs(holds) do
		count = count + 2
		set_users[count - 1], set_users[count] = user, integer(units)
	end
	redis.call('HSET', KEYS[3], unpack(set_requests))
	redis.call('HSET', KEYS[2], unpack(set_users))
	redis.call('HSET', KEYS[4], unpack(set_orders))
	redis.call('HINCRBY', KEYS[1], 'available', left - available)
	redis.call('HINCRBY', KEYS[1], 'reserved', available - left)
	answers[3] = redis.call('XADD', KEYS[5], '*', 'price', sale[6], 'currency', sale[7],
		'pay_ms', sale[8], 'orders', table.concat(set_orders, '\n'))
end
return answers
