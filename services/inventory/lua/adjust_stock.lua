-- Adds units to a sale or takes unreserved ones away, once per request.
-- KEYS: sale, adjustments (request id -> delta)
-- ARGV: request id, delta
-- Returns {1 done | 0 done before | -1 too few available | -2 the request id had another delta; sale}, or nil.
local available = redis.call('HGET', KEYS[1], 'available')
if not available then return false end
local before = redis.call('HGET', KEYS[2], ARGV[1])
if before then
	return {before == ARGV[2] and 0 or -2, sale_read(KEYS[1])}
end
local delta = tonumber(ARGV[2])
if available + delta < 0 then return {-1, sale_read(KEYS[1])} end
redis.call('HINCRBY', KEYS[1], 'available', delta)
redis.call('HINCRBY', KEYS[1], 'total', delta)
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return {1, sale_read(KEYS[1])}
