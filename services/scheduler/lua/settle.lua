-- Says what became of deliveries. One whose lease is lost has no effect.
--
-- ARGV 1 the notice for other instances
--      then for each delivery: id, delivery number, verdict, delay (ms)
--      verdict done: the job is over
--              fail: again after the delay, or dead when it has had its tries
--              back: it was not tried at all: again after the delay (0: with the due time it had)
-- Returns the answer's six numbers, then for each delivery 0 (lease lost), 1 (settled), 2 (dead now).
local ids = {}
for at = 2, #ARGV, 4 do
	ids[#ids + 1] = ARGV[at]
end
local runs = redis.call('HMGET', RUNS, unpack(ids))
local leases = redis.call('ZMSCORE', LEASES, unpack(ids))
local over, ended, verdicts, seen = {}, {}, {}, {}
local before = {t = head(DUE.t), c = head(DUE.c), p = head(DUE.p)}
local told = false

for i, id in ipairs(ids) do
	local at = 2 + (i - 1) * 4
	local number, verdict, delay = tonumber(ARGV[at + 1]), ARGV[at + 2], tonumber(ARGV[at + 3])
	local tries, delivery, due, target, tries_max
	if runs[i] then
		tries, delivery, due, target, tries_max = run_read(runs[i])
	end

	if not leases[i] or delivery ~= number or seen[id] then
		verdicts[i] = 0
	else
		verdicts[i] = 1
		seen[id] = true
		ended[#ended + 1] = id
		if verdict == 'done' then
			over[#over + 1] = id
		elseif verdict == 'fail' and tries >= tries_max then
			verdicts[i] = 2
			redis.call('ZADD', DEAD, text(now), id)
		else
			if verdict == 'back' then
				tries = tries - 1
			end
			if delay > 0 then
				due = now + delay
			end
			redis.call('HSET', RUNS, id, run_text(tries, delivery, due, target, tries_max))
			redis.call('ZADD', DUE[target], text(due), id)
			-- Only a pull job may be for somebody else: what this instance pushes it tries again itself.
			if target == 'p' and not told then
				told = tell_if_earlier(before.p, due, ARGV[1])
			end
		end
	end
end
if #ended > 0 then
	redis.call('ZREM', LEASES, unpack(ended))
end
if #over > 0 then
	redis.call('HDEL', JOBS, unpack(over))
	redis.call('HDEL', RUNS, unpack(over))
end

local result = answer()
for i, verdict in ipairs(verdicts) do
	result[6 + i] = verdict
end
return result
