-- Tells how the lock stands; changes nothing.
--
-- Returns the answer; 1: somebody holds it.
local holder = holder_read()

if holder and holder.expires <= now then
	holder = nil
end
return answer(holder and 1 or 0, holder)
