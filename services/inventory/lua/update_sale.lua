-- Changes settings or the status of a sale.
-- KEYS: sale
-- ARGV: etag ('' for any), statuses in which this is allowed (digits), then field, value, …
-- Returns {1 changed | 0 it was so already | -1 stale etag | -2 not in this status; sale}, or nil.
local sale = redis.call('HMGET', KEYS[1], 'status', 'version')
if not sale[1] then return false end
if ARGV[1] ~= '' and ARGV[1] ~= sale[2] then return {-1, sale_read(KEYS[1])} end
local changes = false
for i = 3, #ARGV, 2 do
	changes = changes or redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[i + 1]
end
if not changes then return {0, sale_read(KEYS[1])} end
if not string.find(ARGV[2], sale[1], 1, true) then return {-2, sale_read(KEYS[1])} end
for i = 3, #ARGV, 2 do
	redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
redis.call('HINCRBY', KEYS[1], 'version', 1)
return {1, sale_read(KEYS[1])}
