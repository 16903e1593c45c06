-- Stands before every script here but reserve.lua: how a sale is read.
-- sale_read(key) returns {now_ms, field…} in the order of `fields` (store.c decodes the same order), or
-- nothing when there is no such sale.
local fields = {'status', 'total', 'available', 'reserved', 'sold', 'limit', 'starts_ms', 'ends_ms',
	'price', 'currency', 'pay_ms', 'durability', 'replicas', 'version', 'created_ms', 'title'}

local function now_ms()
	local time = redis.call('TIME')
	return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function sale_read(key)
	local sale = redis.call('HMGET', key, unpack(fields))
	if not sale[1] then return nil end
	table.insert(sale, 1, now_ms())
	return sale
end
