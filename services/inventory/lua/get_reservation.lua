-- KEYS: sale, requests, orders. ARGV: 'order' or 'request', its id.
-- Returns nil (no such sale), {} (no such reservation), or {order, its entry in orders}.
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local order = ARGV[2]
if ARGV[1] == 'request' then
	order = redis.call('HGET', KEYS[2], order)
	if not order then return {} end
end
local value = redis.call('HGET', KEYS[3], order)
if not value then return {} end
return {order, value}
