-- Starts the lease anew.
--
-- ARGV 3 token  4 lease (ms)
-- Returns the answer; 0: this token does not hold it.
local holder = holder_now()

if not holder or not holder.claimed or text(holder.token) ~= ARGV[3] then
	return answer(0, holder)
end
local before = holder.expires
holder.expires = now + tonumber(ARGV[4])
holder_write(holder.asker, holder.token, holder.expires, holder.by, true)
if holder.expires < before then
	tell_watchers(holder.token, holder.expires)
end
return answer(1, holder)
