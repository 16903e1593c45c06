-- A lease may have run out: if so the lock is passed on.
--
-- Returns the answer; 1: somebody holds it.
local holder = holder_now()
return answer(holder and 1 or 0, holder)
