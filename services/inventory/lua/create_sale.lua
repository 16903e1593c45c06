-- Creates a sale once.
-- KEYS: sale
-- ARGV: definition (what was asked for, as one string), then field, value, …
-- Returns {1 created | 0 it was there, alike | -1 it was there, otherwise; sale}.
local definition = redis.call('HGET', KEYS[1], 'definition')
if definition then
	return {definition == ARGV[1] and 0 or -1, sale_read(KEYS[1])}
end
redis.call('HSET', KEYS[1], 'definition', unpack(ARGV))
redis.call('HSET', KEYS[1], 'created_ms', now_ms(), 'version', 1, 'reserved', 0, 'sold', 0)
return {1, sale_read(KEYS[1])}
