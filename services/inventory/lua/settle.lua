-- Confirms or releases reservations of one sale, each once.
-- KEYS: sale, users, orders
-- ARGV: order, 'C' (confirm) or 'X' (release), for each
-- Returns nil (no such sale), or for each {1 changed | 0 it was so already | -1 no such reservation |
--         -2 it was settled otherwise; its entry in orders or ''}.
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local answers = {}
for i = 1, #ARGV, 2 do
	local order, to = ARGV[i], ARGV[i + 1]
	local value = redis.call('HGET', KEYS[3], order)
	if not value then
		answers[#answers + 1] = {-1, ''}
	elseif string.sub(value, 1, 1) ~= 'R' then
		answers[#answers + 1] = {string.sub(value, 1, 1) == to and 0 or -2, value}
	else
		local user, quantity = string.match(value, '^[^\n]*\n([^\n]*)\n([^\n]*)\n')
		quantity = tonumber(quantity)
		value = to .. string.sub(value, 2)
		redis.call('HSET', KEYS[3], order, value)
		redis.call('HINCRBY', KEYS[1], 'reserved', -quantity)
		if to == 'C' then
			redis.call('HINCRBY', KEYS[1], 'sold', quantity)
		else
			redis.call('HINCRBY', KEYS[1], 'available', quantity)
			if redis.call('HINCRBY', KEYS[2], user, -quantity) <= 0 then
				redis.call('HDEL', KEYS[2], user)
			end
		end
		answers[#answers + 1] = {1, value}
	end
end
return answers
