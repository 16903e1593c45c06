-- Takes a job back, or moves it to another time. A dead job may be either: moved, it starts anew.
--
-- ARGV 1 the notice for other instances  2 id  3 the new due time (ms); '': take it back
-- Returns the answer's six numbers, then the verdict (1 done, 2 unknown or fired, 3 in flight), then
-- when the lease ends (ms; 0 unless in flight).
local id, asked = ARGV[2], ARGV[3]
local record = redis.call('HGET', JOBS, id)
local lease = tonumber(redis.call('ZSCORE', LEASES, id) or 0)
local verdict = 1

if not record then
	verdict = 2
elseif lease > now then
	verdict = 3
else
	local target = string.sub(record, 1, 1)
	local was_dead = redis.call('ZREM', DEAD, id) == 1

	redis.call('ZREM', LEASES, id)
	redis.call('ZREM', DUE[target], id)
	if asked == '' or was_dead then
		redis.call('HDEL', RUNS, id)
	end
	if asked == '' then
		redis.call('HDEL', JOBS, id)
	else
		local due, before = math.max(tonumber(asked), now), head(DUE[target])

		redis.call('ZADD', DUE[target], text(due), id)
		tell_if_earlier(before, due, ARGV[1])
	end
end

local result = answer()
result[7], result[8] = verdict, verdict == 3 and lease or 0
return result
