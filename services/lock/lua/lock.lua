-- What every script of a lock begins with (store.c puts this text in front of it).
--
-- KEYS 1 holder     HASH owner, request, token, expires (ms), by ("<instance> <waiter>"), claimed (0 or 1)
--      2 token      the last fencing token; it only grows and is never deleted
--      3 queue      ZSET asker -> place in line
--      4 askers     HASH asker -> "<waiter> <lease, ms> <instance>"
--      5 instances  HASH instance -> how many of its calls wait
-- ARGV 1 the lock's name  2 how long a hand-over waits to be claimed (ms); others: see each script
--
-- An asker is "<owner>\n<request id>": whoever asks again takes his own place, not a second one.
--
-- A lock that is handed over is not held until the waiter's instance has claimed it. If that does not
-- happen in time the instance is taken for dead and all its waiters leave the line, so a dead one costs
-- the others one such wait; if it lives after all it is told, and asks again.
local HOLDER, TOKEN, QUEUE, ASKERS, INSTANCES = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local NAME, CLAIM_MS = ARGV[1], tonumber(ARGV[2])
local KEEP_MS = 60000 -- an expired holder nobody asks about is forgotten after that

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function text(number)
	return string.format('%.0f', number)
end

local function tell(instance, message)
	redis.call('PUBLISH', 'lock:instance:' .. instance, message)
end

-- Whoever waits sets a timer for the end of the lease: one for each instance, not for each waiter.
local function tell_watchers(token, expires)
	for _, instance in ipairs(redis.call('HKEYS', INSTANCES)) do
		tell(instance, 'watch ' .. text(token) .. ' ' .. text(expires - now) .. ' ' .. NAME)
	end
end

-- The holder, expired or not; nil: none.
local function holder_read()
	local fields = redis.call('HMGET', HOLDER, 'owner', 'request', 'token', 'expires', 'by', 'claimed')
	return fields[1] and {owner = fields[1], asker = fields[1] .. '\n' .. fields[2],
		token = tonumber(fields[3]), expires = tonumber(fields[4]), by = fields[5],
		claimed = fields[6] == '1'}
end

local function holder_write(asker, token, expires, by, claimed)
	local owner, request = string.match(asker, '^(.-)\n(.*)$')
	redis.call('HSET', HOLDER, 'owner', owner, 'request', request, 'token', text(token),
		'expires', text(expires), 'by', by, 'claimed', claimed and 1 or 0)
	redis.call('PEXPIREAT', HOLDER, text(expires + KEEP_MS))
end

-- Not a plain counter: a Redis that lost its last writes (failover, no fsync) would grant a number
-- twice. The clock, in microseconds, is past anything granted before.
local function token_next()
	local last = tonumber(redis.call('GET', TOKEN) or 0)
	local token = math.max(last + 1, time[1] * 1000000 + time[2])
	redis.call('SET', TOKEN, text(token))
	return token
end

local function asker_read(asker)
	local kept = redis.call('HGET', ASKERS, asker)
	if kept then
		local waiter, lease, instance = string.match(kept, '^(%d+) (%d+) (.*)$')
		return waiter, tonumber(lease), instance
	end
end

local function instance_count(instance, change)
	if redis.call('HINCRBY', INSTANCES, instance, change) <= 0 then
		redis.call('HDEL', INSTANCES, instance)
	end
end

local function asker_remove(asker, instance)
	redis.call('ZREM', QUEUE, asker)
	redis.call('HDEL', ASKERS, asker)
	instance_count(instance, -1)
end

-- Gives the lock, which is free now, to the first in line.
local function pass_on()
	local asker = redis.call('ZRANGE', QUEUE, 0, 0)[1]
	if not asker then
		redis.call('DEL', HOLDER)
		return
	end
	local waiter, _, instance = asker_read(asker)
	local token, expires = token_next(), now + CLAIM_MS

	asker_remove(asker, instance)
	holder_write(asker, token, expires, instance .. ' ' .. waiter, false)
	tell(instance, 'granted ' .. waiter .. ' ' .. text(token) .. ' ' .. NAME)
	tell_watchers(token, expires)
end

-- The instance did not claim what it was given: none of its waiters counts any more.
local function drop_instance(dead)
	local askers = redis.call('HGETALL', ASKERS)
	for i = 1, #askers, 2 do
		local instance = string.match(askers[i + 1], '^%d+ %d+ (.*)$')
		if instance == dead then
			redis.call('ZREM', QUEUE, askers[i])
			redis.call('HDEL', ASKERS, askers[i])
		end
	end
	redis.call('HDEL', INSTANCES, dead)
	tell(dead, 'dropped ' .. NAME)
end

-- The present holder, after a lease that has run out was passed on; nil: the lock is free.
local function holder_now()
	local holder = holder_read()
	if not holder or holder.expires > now then
		return holder
	end
	if not holder.claimed then
		drop_instance(string.match(holder.by, '^(.*) %d+$'))
	end
	pass_on()
	return holder_read()
end

-- How each answer looks: now, 1 or 0, then the holder's token, expiry and owner (0, 0, '': free), then how
-- many wait.
local function answer(yes, holder)
	local waiting = redis.call('ZCARD', QUEUE)
	if holder then
		return {now, yes, holder.token, holder.expires, holder.owner, waiting}
	end
	return {now, yes, 0, 0, '', waiting}
end
