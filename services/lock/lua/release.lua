-- Gives the lock up.
--
-- ARGV 3 token
-- Returns the answer; 0: this token does not hold it.
local holder = holder_now()

if not holder or not holder.claimed or text(holder.token) ~= ARGV[3] then
	return answer(0, holder)
end
pass_on()
return answer(1, holder)
