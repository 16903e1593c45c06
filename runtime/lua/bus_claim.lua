-- Takes or keeps the lease of one partition for one group, and tells where the group stands.
--
-- KEYS  1 stream   2 lease
-- ARGV  1 owner   2 lease in ms; 0: only tell   3 group
-- Returns {1 if the lease is the owner's, last committed id, records committed, records not committed or -1}
local mine = 0
if tonumber(ARGV[2]) > 0 then
	local owner = redis.call('GET', KEYS[2])
	if not owner or owner == ARGV[1] then
		redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
		mine = 1
	end
end

local function find()
	local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
	if groups.err then
		return nil
	end
	for _, fields in ipairs(groups) do
		local group = {}
		for i = 1, #fields, 2 do
			group[fields[i]] = fields[i + 1]
		end
		if group['name'] == ARGV[3] then
			return group
		end
	end
end

local group = find()
if not group then
	-- A new group begins with the oldest record there is.
	local trimmed = 0
	local info = redis.pcall('XINFO', 'STREAM', KEYS[1])
	if not info.err then
		local stream = {}
		for i = 1, #info, 2 do
			stream[info[i]] = info[i + 1]
		end
		trimmed = stream['entries-added'] - stream['length']
	end
	redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[3], '0', 'MKSTREAM', 'ENTRIESREAD', trimmed)
	group = find()
end
return {mine, group['last-delivered-id'], group['entries-read'] or -1, group['lag'] or -1}
