-- Decides a batch of reservations of one sale, in order: the request id first (a repeat gets the first answer,
-- even when nothing is left), then the sale's state, the user's limit, the stock. What is taken is recorded with its
-- user and put into the outbox in the same step.
--
-- KEYS: sale,
--       users: user -> units held \n, then for each reservation
--              R reserved_ms \n O order \n Q quantity \n I request \n   (R reserved, C confirmed, X released)
--       outbox: entries of price, currency, pay_ms and orders, which is for each
--              user \n and the four lines above
-- ARGV: the most entries the outbox may hold, the most bytes of one user's value, then for each reservation
--       user, quantity, and the end of its lines, from the order on: "order \n Q quantity \n I request \n"
-- Returns nil (no such sale), or {now_ms, available, outbox entry or '', price, currency, pay_ms,
--         durability, replicas, answer…}; an answer is 1 RESERVED … 6 ENDED (Outcome), 7 the outbox is
--         full, or for a repeat the user's value, in which the request is found.
local sale = redis.call('HMGET', KEYS[1], 'status', 'available', 'limit', 'starts_ms', 'ends_ms',
	'price', 'currency', 'pay_ms', 'durability', 'replicas', 'reserved')
if not sale[1] then return false end
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local available, limit = tonumber(sale[2]), tonumber(sale[3])
local ends = tonumber(sale[5])

local closed = nil -- the answer to all that are not repeats
if sale[1] == '1' or (sale[1] == '2' and tonumber(now) < tonumber(sale[4])) then
	closed = 4
elseif sale[1] == '3' then
	closed = 5
elseif sale[1] == '4' or (ends > 0 and tonumber(now) >= ends) then
	closed = 6
elseif available > 0 and redis.call('XLEN', KEYS[3]) >= tonumber(ARGV[1]) then
	closed = 7
end

local users, count = {}, 0
for i = 3, #ARGV, 3 do
	count = count + 1
	users[count] = ARGV[i]
end
local held = redis.call('HMGET', KEYS[2], unpack(users))

-- This loop is most of what a purchase costs Redis: no number is turned into text in it, and no length asked for.
local answers = {tonumber(now), 0, '', sale[6], sale[7], sale[8], sale[9], sale[10]}
local first = #answers
local value_max, head = tonumber(ARGV[2]), 'R' .. now .. '\nO'
local fresh = {}                     -- user -> where in `set` its new value is
local set, sets, entry, entries = {}, 0, {}, 0
local left = available
for i = 1, count do
	local user, quantity, tail = users[i], ARGV[i * 3 + 1], ARGV[i * 3 + 2]
	local at = fresh[user]
	local value = at and set[at] or held[i]
	local units, answer = tonumber(quantity), nil
	if value and string.find(value, string.match(tail, '\nI.*$'), 1, true) then
		answer = value
	elseif closed then
		answer = closed
	elseif left == 0 then
		answer = 2
	else
		local has, holds, before = 0, quantity, '\n'
		if value then
			local line = string.find(value, '\n', 1, true)
			has, before = tonumber(string.sub(value, 1, line - 1)), string.sub(value, line)
			holds = has + units
		end
		if has + units > limit or #before > value_max then
			answer = 3
		elseif units > left then
			answer = 2
		else
			local lines = head .. tail
			if not at then
				at = sets + 2
				fresh[user], set[sets + 1], sets = at, user, at
			end
			set[at] = holds .. before .. lines
			entry[entries + 1], entry[entries + 2], entry[entries + 3] = user, '\n', lines
			entries = entries + 3
			left = left - units
			answer = 1
		end
	end
	answers[first + i] = answer
end

answers[2] = left
if left < available then
	redis.call('HSET', KEYS[2], unpack(set))
	redis.call('HSET', KEYS[1], 'available', left, 'reserved', sale[11] + available - left)
	answers[3] = redis.call('XADD', KEYS[3], '*', 'price', sale[6], 'currency', sale[7],
		'pay_ms', sale[8], 'orders', table.concat(entry))
end
return answers
