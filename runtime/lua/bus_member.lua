-- One sign of life of a member of a group; members silent for longer than the lease are dropped.
--
-- KEYS  1 the group's members: a sorted set by the time at which each expires
-- ARGV  1 member   2 lease in ms; 0: the member leaves
-- Returns the living members, in the order of their names
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
if tonumber(ARGV[2]) > 0 then
	redis.call('ZADD', KEYS[1], now_ms + ARGV[2], ARGV[1])
else
	redis.call('ZREM', KEYS[1], ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms)
local members = redis.call('ZRANGE', KEYS[1], 0, -1)
table.sort(members)
return members
