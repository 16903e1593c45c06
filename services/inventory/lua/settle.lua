-- Confirms or releases reservations of one sale, each once.
-- KEYS: sale, users (reserve.lua tells how they are kept)
-- ARGV: user, order, 'C' (confirm) or 'X' (release), for each
-- Returns nil (no such sale), or for each {1 changed | 0 it was so already | -1 no such reservation |
--         -2 it was settled otherwise; the user's value or ''}.
local sale = redis.call('HMGET', KEYS[1], 'available', 'reserved', 'sold')
if not sale[1] then return false end
local available, reserved, sold = tonumber(sale[1]), tonumber(sale[2]), tonumber(sale[3])
local users = {}
for i = 1, #ARGV, 3 do
	users[#users + 1] = ARGV[i]
end
local held = redis.call('HMGET', KEYS[2], unpack(users))
local values, answers = {}, {}       -- values: user -> value, of those changed
for i = 1, #users do
	local user, order, to = users[i], ARGV[i * 3 - 1], ARGV[i * 3]
	local value = values[user] or held[i]
	local from = value and string.find(value, '\nO' .. order .. '\n', 1, true)
	if not from then
		answers[i] = {-1, ''}
	else
		-- The state stands at the beginning of the line before.
		local at = from - 1
		while string.byte(value, at) ~= 10 do at = at - 1 end
		local state = string.sub(value, at + 1, at + 1)
		if state ~= 'R' then
			answers[i] = {state == to and 0 or -2, value}
		else
			local quantity = tonumber(string.match(value, '^[^\n]*\nQ(%d+)\n', from + 1))
			local line = string.find(value, '\n', 1, true)
			local has = tonumber(string.sub(value, 1, line - 1))
			reserved = reserved - quantity
			if to == 'C' then
				sold = sold + quantity
			else
				available = available + quantity
				has = has - quantity
			end
			value = has .. string.sub(value, line, at) .. to .. string.sub(value, at + 2)
			values[user] = value
			answers[i] = {1, value}
		end
	end
end
local set = {}
for user, value in pairs(values) do
	set[#set + 1] = user
	set[#set + 1] = value
end
if #set > 0 then
	redis.call('HSET', KEYS[2], unpack(set))
	redis.call('HSET', KEYS[1], 'available', available, 'reserved', reserved, 'sold', sold)
end
return answers
