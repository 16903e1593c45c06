-- A caller has gone: he leaves the line, or gives back what he was just given.
--
-- ARGV 3 asker ('': unknown)  5 instance  6 waiter
-- Returns the answer; 1: there was something to leave.
local asker, instance, waiter = ARGV[3], ARGV[5], ARGV[6]
local holder = holder_now()
local place, _, place_instance = asker_read(asker)

if place == waiter and place_instance == instance then
	asker_remove(asker, instance)
	return answer(1, holder)
end
if holder and holder.by == instance .. ' ' .. waiter then
	pass_on()
	return answer(1, holder_read())
end
return answer(0, holder)
