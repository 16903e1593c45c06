-- What every script of a queue begins with (store.c puts this text in front of it).
--
-- A job's record never changes; where the job stands is said by the set that holds its id:
--   due:topic, due:callback, due:pull   score: when it is due, ms
--   leases                              score: when the lease ends, ms
--   dead                                score: when it was given up, ms
--
-- KEYS 1 jobs      HASH id -> "<target> <tries_max> <asked>\n" and the bytes of a Job
--      2 runs      HASH id -> "<tries> <delivery> <due> <target> <tries_max>", once it was handed out
--      3 leases    4 dead
--      5 sequence  the last delivery number; it only grows
--      6 due:topic 7 due:callback 8 due:pull
local JOBS, RUNS, LEASES, DEAD, SEQUENCE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local DUE = {t = KEYS[6], c = KEYS[7], p = KEYS[8]}

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function text(number)
	return string.format('%.0f', number)
end

-- The lowest score of a set; -1 when it is empty.
local function head(key)
	local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
	return first[2] and tonumber(first[2]) or -1
end

-- How each answer begins: now, the three heads, the end of the first lease, the number of the dead.
local function answer()
	return {now, head(DUE.t), head(DUE.c), head(DUE.p), head(LEASES), redis.call('ZCARD', DEAD)}
end

-- Other instances sleep until the head they know: they hear of an earlier one.
local function tell_if_earlier(before, due, notice)
	if before < 0 or due < before then
		redis.call('PUBLISH', 'scheduler:due', notice)
		return true
	end
end

-- A run's parts: tries, delivery, due, target, tries_max.
local function run_read(run)
	local tries, delivery, due, target, tries_max =
		string.match(run, '^(%d+) (%d+) (%d+) (%a) (%d+)$')
	return tonumber(tries), tonumber(delivery), tonumber(due), target, tonumber(tries_max)
end

local function run_text(tries, delivery, due, target, tries_max)
	return string.format('%d %.0f %.0f %s %d', tries, delivery, due, target, tries_max)
end
