-- Moves a group's position, if the lease is still the owner's, and drops what every group has behind it.
--
-- KEYS  1 stream   2 lease
-- ARGV  1 owner   2 group   3 id of the last record handled   4 records handled so far   5 "1": trim
-- Returns 1, or 0 when the lease is another's
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
	return 0
end
redis.call('XGROUP', 'SETID', KEYS[1], ARGV[2], ARGV[3], 'ENTRIESREAD', ARGV[4])
if ARGV[5] ~= '1' then
	return 1
end

local function before(a, b)
	local a_ms, a_sequence = a:match('(%d+)-(%d+)')
	local b_ms, b_sequence = b:match('(%d+)-(%d+)')
	if a_ms ~= b_ms then
		return tonumber(a_ms) < tonumber(b_ms)
	end
	return tonumber(a_sequence) < tonumber(b_sequence)
end

local least = ARGV[3]
for _, fields in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
	for i = 1, #fields, 2 do
		if fields[i] == 'last-delivered-id' and before(fields[i + 1], least) then
			least = fields[i + 1]
		end
	end
end
-- Whole nodes only: cheap, and never a record that somebody has not read.
redis.call('XTRIM', KEYS[1], 'MINID', '~', least, 'LIMIT', 0)
return 1
