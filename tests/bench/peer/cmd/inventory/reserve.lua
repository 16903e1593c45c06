-- Takes units of a sale for one buyer, once for each request id.
-- KEYS  sale, requests, buyers, reservations, outbox
-- ARGV  request id, user id, quantity, order id, now ms, pay-by ms, event
-- Returns {outcome, order id, quantity, pay-by ms, repeated}; outcomes as in inventory.proto.
local first = redis.call('HGET', KEYS[2], ARGV[1])
if first then
	local id, quantity, pay_by = string.match(first, '([^|]*)|([^|]*)|([^|]*)')
	return {1, id, tonumber(quantity), tonumber(pay_by), 1}
end
local sale = redis.call('HMGET', KEYS[1], 'status', 'available', 'limit')
if not sale[1] then
	return {-1, '', 0, 0, 0}
end
if sale[1] ~= 'open' then
	return {4, '', 0, 0, 0}
end
local quantity = tonumber(ARGV[3])
local held = tonumber(redis.call('HGET', KEYS[3], ARGV[2]) or '0')
if held + quantity > tonumber(sale[3]) then
	return {3, '', 0, 0, 0}
end
if tonumber(sale[2]) < quantity then
	return {2, '', 0, 0, 0}
end
redis.call('HINCRBY', KEYS[1], 'available', -quantity)
redis.call('HINCRBY', KEYS[1], 'reserved', quantity)
redis.call('HSET', KEYS[3], ARGV[2], held + quantity)
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4] .. '|' .. ARGV[3] .. '|' .. ARGV[6])
redis.call('HSET', KEYS[4], ARGV[4], ARGV[2] .. '|' .. ARGV[3] .. '|' .. ARGV[1] .. '|reserved|' .. ARGV[5])
local entry = redis.call('XADD', KEYS[5], '*', 'event', ARGV[7])
return {1, ARGV[4], quantity, tonumber(ARGV[6]), 0, entry}
