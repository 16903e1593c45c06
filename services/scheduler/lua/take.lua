-- Puts back what lost its lease, then hands out due jobs, the oldest due first.
--
-- ARGV 1 target (t c p; '-': hand out nothing)  2 jobs at most  3 lease, ms
--      4 bytes at most (one job is always handed out)  5 lost leases to put back at most
--      6 the notice for other instances: one may have callers who wait for what came back
-- Returns the answer's six numbers, then when the leases end (ms), then for each job: id, record,
-- tries, delivery number, due (ms).
local target, jobs_max, lease_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local bytes_max, lost_max = tonumber(ARGV[4]), tonumber(ARGV[5])

-- A job of a topic is never given up: that its bus was down is not its fault.
local lost = redis.call('ZRANGE', LEASES, '-inf', now, 'BYSCORE', 'LIMIT', 0, lost_max)
for _, id in ipairs(lost) do
	local run = redis.call('HGET', RUNS, id)
	redis.call('ZREM', LEASES, id)
	if run then
		local tries, _, due, kind, tries_max = run_read(run)
		if kind ~= 't' and tries >= tries_max then
			redis.call('ZADD', DEAD, text(now), id)
		else
			local before = head(DUE[kind])
			redis.call('ZADD', DUE[kind], text(due), id)
			if kind == 'p' then
				tell_if_earlier(before, due, ARGV[6])
			end
		end
	end
end

local jobs = {}
if DUE[target] and jobs_max > 0 then
	local found = redis.call('ZRANGE', DUE[target], '-inf', now, 'BYSCORE', 'LIMIT', 0, jobs_max,
		'WITHSCORES')
	if #found > 0 then
		local ids, dues = {}, {}
		for i = 1, #found, 2 do
			ids[#ids + 1], dues[#dues + 1] = found[i], tonumber(found[i + 1])
		end
		local records = redis.call('HMGET', JOBS, unpack(ids))
		local runs = redis.call('HMGET', RUNS, unpack(ids))
		local delivery = tonumber(redis.call('INCRBY', SEQUENCE, #ids)) - #ids
		local taken, leased, ran, bytes = {}, {}, {}, 0

		for i, id in ipairs(ids) do
			local record = records[i]
			if not record then -- never so, unless somebody deleted it by hand
				taken[#taken + 1] = id
			else
				bytes = bytes + #record
				if bytes > bytes_max and #jobs > 0 then
					break
				end
				local tries = (runs[i] and run_read(runs[i]) or 0) + 1
				local tries_max = string.match(record, '^%a (%d+) ')
				delivery = delivery + 1
				taken[#taken + 1] = id
				leased[#leased + 1] = text(now + lease_ms)
				leased[#leased + 1] = id
				ran[#ran + 1] = id
				ran[#ran + 1] = run_text(tries, delivery, dues[i], target, tries_max)
				for _, part in ipairs({id, record, tries, delivery, dues[i]}) do
					jobs[#jobs + 1] = part
				end
			end
		end
		redis.call('ZREM', DUE[target], unpack(taken))
		if #leased > 0 then
			redis.call('ZADD', LEASES, unpack(leased))
			redis.call('HSET', RUNS, unpack(ran))
		end
	end
end

local result = answer()
result[7] = now + lease_ms
for i, part in ipairs(jobs) do
	result[7 + i] = part
end
return result
