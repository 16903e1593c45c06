-- Takes or keeps a node number for order ids.
-- KEYS: node. ARGV: instance, lease in ms. Returns 1 when it is the instance's now.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
