-- Tells how a job stands.
--
-- ARGV 1 id
-- Returns the answer's six numbers, then, when there is such a job: record, status (1 scheduled, 2
-- leased, 3 dead), tries, due (ms).
local id = ARGV[1]
local record = redis.call('HGET', JOBS, id)
local result = answer()

if record then
	local run = redis.call('HGET', RUNS, id)
	local due = redis.call('ZSCORE', DUE[string.sub(record, 1, 1)], id)
	local status = due and 1 or redis.call('ZSCORE', DEAD, id) and 3 or 2
	local tries, _, run_due = 0, nil, now

	if run then
		tries, _, run_due = run_read(run)
	end
	result[7], result[8], result[9], result[10] = record, status, tries, tonumber(due or run_due)
end
return result
