-- The instance that was handed the lock has a caller for it: the lease begins.
--
-- ARGV 3 asker  4 lease (ms)  5 instance  6 waiter
-- Returns the answer; 0: it came too late.
local holder = holder_now()

if not holder or holder.by ~= ARGV[5] .. ' ' .. ARGV[6] then
	return answer(0, holder)
end
if not holder.claimed then
	local before = holder.expires
	holder.expires = now + tonumber(ARGV[4])
	holder_write(holder.asker, holder.token, holder.expires, holder.by, true)
	if holder.expires < before then
		tell_watchers(holder.token, holder.expires)
	end
end
return answer(1, holder)
