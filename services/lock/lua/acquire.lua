-- Takes the lock, or a place in line.
--
-- ARGV 3 asker  4 lease (ms)  5 instance  6 waiter  7 'wait', or 'try': no place in line
-- Returns the answer; 1: the asker holds it.
local asker, lease, instance, waiter = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local holder = holder_now()
local mine = instance .. ' ' .. waiter

if holder and holder.asker == asker then -- asked again: the same grant
	if not holder.claimed then
		holder.expires = now + lease
	end
	holder_write(asker, holder.token, holder.expires, mine, true)
	return answer(1, holder)
end

if not holder then
	local token = token_next()
	holder_write(asker, token, now + lease, mine, true)
	return answer(1, holder_read())
end

if ARGV[7] == 'wait' then
	local before, _, before_instance = asker_read(asker)
	if not before then
		local last = redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')[2]
		redis.call('ZADD', QUEUE, text(tonumber(last or 0) + 1), asker)
		instance_count(instance, 1)
	elseif before ~= waiter or before_instance ~= instance then
		tell(before_instance, 'replaced ' .. before .. ' 0 ' .. NAME)
		instance_count(before_instance, -1)
		instance_count(instance, 1)
	end
	redis.call('HSET', ASKERS, asker, waiter .. ' ' .. text(lease) .. ' ' .. instance)
end
return answer(0, holder)
