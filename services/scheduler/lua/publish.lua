-- Keeps jobs until they are due; all or none.
--
-- ARGV 1 the notice for other instances
--      then for each job: id, target (t c p), asked (ms; below zero: -1 - the delay), record
-- Returns the answer's six numbers, then the first job's due time (ms), then the index of the first
-- job whose id another job has (-1: none, and all are kept).
local ids, asked = {}, {}
for at = 2, #ARGV, 4 do
	ids[#ids + 1] = ARGV[at]
end

local kept = redis.call('HMGET', JOBS, unpack(ids))
local records, first_due = {}, nil
local added, earliest, seen = {t = {}, c = {}, p = {}}, {}, {}

for i, id in ipairs(ids) do
	local at = 2 + (i - 1) * 4
	local target, due, record = ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3]
	local before = kept[i] or seen[id]

	if before then
		if before ~= record then
			local result = answer()
			result[7], result[8] = -1, i - 1
			return result
		end
	else
		due = due < 0 and now - 1 - due or math.max(due, now)
		seen[id] = record
		records[#records + 1] = id
		records[#records + 1] = record
		local set = added[target]
		set[#set + 1] = text(due)
		set[#set + 1] = id
		earliest[target] = math.min(earliest[target] or due, due)
		if i == 1 then
			first_due = due
		end
	end
end

local told = false
for target, set in pairs(added) do
	if #set > 0 then
		local before = head(DUE[target])
		redis.call('ZADD', DUE[target], unpack(set))
		told = told or tell_if_earlier(before, earliest[target], ARGV[1])
	end
end
if #records > 0 then
	redis.call('HSET', JOBS, unpack(records))
end

if not first_due then -- a repeat: as it stands now
	local run = redis.call('HGET', RUNS, ids[1])
	first_due = tonumber(redis.call('ZSCORE', DUE[ARGV[3]], ids[1]) or
		run and select(3, run_read(run)) or now)
end
local result = answer()
result[7], result[8] = first_due, -1
return result
