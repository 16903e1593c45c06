-- wrk's requests: a purchase each, by a buyer of its own.
--     wrk -s purchase.lua URL -- SALE FIRST COUNT
-- FIRST numbers the first buyer (0 to 65,535, times 2³²). COUNT requests are made before the load starts, since making
-- one costs more than sending it; those after them are made as they go. The last line of output is JSON.

local head, middle, tail, block
local ready, count, sent = {}, 0, 0
local thread -- the only one

function setup(it)
	thread = it
end

local function make(number)
	local id = block .. string.format("%08x", number)
	return head .. id .. middle .. id .. tail
end

function init(args)
	local sale = args[1]
	block = string.format("%04x", tonumber(args[2]))
	local body = '{"userId":"user-@@@@@@@@@@@@","quantity":1,"requestId":"req-@@@@@@@@@@@@"}'
	local text = wrk.format("POST", "/v1/sales/" .. sale .. "/reservations",
		{["Content-Type"] = "application/json"}, body)
	head, middle, tail = string.match(text, "^(.-)@@@@@@@@@@@@(.-)@@@@@@@@@@@@(.*)$")
	count = tonumber(args[3])
	for number = 1, count do
		ready[number] = make(number)
	end
	collectgarbage()
	collectgarbage("stop") -- nothing is made from here on, so nothing need be looked for
	prepared_us = os.clock() * 1e6 -- CPU time that is not the load's
end

function request()
	sent = sent + 1
	if sent > count then
		if sent == count + 1 then
			collectgarbage("restart")
		end
		return make(sent)
	end
	return ready[sent]
end

function done(summary, latency)
	local errors = summary.errors
	io.write(string.format(
		'{"calls": %d, "seconds": %.3f, "errors": %d, "p50_us": %d, "p99_us": %d, "prepared_us": %d}\n',
		summary.requests, summary.duration / 1e6,
		errors.connect + errors.read + errors.write + errors.status + errors.timeout,
		latency:percentile(50), latency:percentile(99), thread:get("prepared_us")))
end
