"""What is measured: one function a scenario, each on a fresh system, each returning a Sample.

Every sample: warm up, wait until the backlog is empty, then read the clocks, load, read the clocks again.
"""

import json
import os
import re
import tempfile
import time

from processes import BenchError, run
from systems import HERE, Echo, Kafka, Nginx, Peer, Stampede

CONNECTIONS, STREAMS = 16, 16  # gRPC
HTTP_CONNECTIONS = 64
HTTP_RATE_MAX = 150_000  # a second: how many requests wrk prepares
UNITS = 1_000_000_000  # never sold out
BUYERS = 64  # in one ReserveMany
STORE_ORDERS = 250_000  # for each second of load
DRAIN_MAX_S = 60
WARM_UP_S = 0.5
KAFKA_WARM_UP_S = 4  # a cold JVM compiles while it works


class Sample:
    """One measurement: units per second, CPU µs per unit of each process, memory in MB."""

    def __init__(self, rate, units, cpu_us, load_us, idle, busy, **more):
        self.rate = rate
        self.cpu_us = {name: used / units for name, used in cpu_us.items()}
        self.load_us = load_us / units
        self.idle_mb = {name: now for name, (now, _) in idle.items()}
        self.busy_mb = {name: most for name, (_, most) in busy.items()}
        self.more = more

    def total_us(self):
        return sum(self.cpu_us.values())


def grpc_load(system, method, seconds, first, sale="bench"):
    command = [system.build + "/bin/bench_load", method, "--target", f"127.0.0.1:{system.grpc}", "--sale", sale,
               "--connections", str(CONNECTIONS), "--streams", str(STREAMS), "--seconds", str(seconds),
               "--buyers", str(BUYERS), "--first", str(first)]
    text, cpu = run(command, seconds + 20)
    return json.loads(text.strip().splitlines()[-1]), cpu


def http_load(system, seconds, first, sale="bench"):
    command = ["wrk", "-t1", f"-c{HTTP_CONNECTIONS}", f"-d{max(1, round(seconds))}s", "-s", HERE + "/purchase.lua",
               f"http://127.0.0.1:{system.http}", "--", sale, str(first), str(round(seconds * HTTP_RATE_MAX))]
    text, cpu = run(command, seconds + 20)
    result = json.loads(text.strip().splitlines()[-1])
    if result["errors"] * 1000 > result["calls"] or not result["calls"]:
        raise BenchError(f"{result['errors']} of {result['calls']} HTTP requests failed")
    return result, cpu - result["prepared_us"]


def measure(system, load, units_per_call=1):
    """`load` runs the load once: its result and its CPU time."""
    before = system.cpu_us()
    result, load_us = load()
    used = {name: after - before[name] for name, after in system.cpu_us().items()}
    system.check()
    units = result["calls"] * units_per_call
    return result, units, used, load_us


def grpc_sample(system, method, outcome, seconds, units_per_call=1):
    idle = system.memory_mb()
    if method != "echo":
        system.create_sale("bench", UNITS)
    grpc_load(system, method, WARM_UP_S, 1)
    result, units, used, load_us = measure(
        system, lambda: grpc_load(system, method, seconds, 1 << 40), units_per_call)
    # What was under way when the time was over has no answer; everything else has the expected one.
    if result["outcomes"][outcome] != units:
        raise BenchError(f"{method}: {units - result['outcomes'][outcome]} of {units} answers were not outcome {outcome}")
    return Sample(units / result["seconds"], units, used, load_us, idle, system.memory_mb(),
                  p50_us=result["p50_us"], p99_us=result["p99_us"])


def http_sample(system, seconds):
    idle = system.memory_mb()
    http_load(system, 1, 0)
    result, units, used, load_us = measure(system, lambda: http_load(system, seconds, 1))
    return Sample(units / result["seconds"], units, used, load_us, idle, system.memory_mb(),
                  p50_us=result["p50_us"], p99_us=result["p99_us"])


def wait_orders(system, wanted):
    until = time.monotonic() + DRAIN_MAX_S
    while True:
        asked = time.monotonic()
        if (orders := system.orders()) >= wanted:
            return orders
        if asked > until:
            raise BenchError(f"{wanted - orders} of {wanted} orders did not reach the database in {DRAIN_MAX_S} s")
        system.check()
        time.sleep(max(0.01, 4 * (time.monotonic() - asked)))  # counting takes CPU too


def purchase_sample(system, seconds):
    """Purchases from HTTP to the database: the rate counts orders persisted, until the last one is."""
    idle = system.memory_mb()
    system.create_sale("bench", UNITS)
    http_load(system, KAFKA_WARM_UP_S if system.bus else 1, 0)
    orders = wait_orders(system, system.reserved("bench"))
    before = system.cpu_us()
    result, load_us = http_load(system, seconds, 1)
    answered = time.monotonic()
    reserved = system.reserved("bench")
    if reserved - orders < result["calls"]:
        raise BenchError(f"{result['calls']} purchases were answered, but only {reserved - orders} units reserved")
    units = wait_orders(system, reserved) - orders
    drained = time.monotonic() - answered
    used = {name: after - before[name] for name, after in system.cpu_us().items()}
    return Sample(units / (result["seconds"] + drained), units, used, load_us, idle, system.memory_mb(),
                  p50_us=result["p50_us"], p99_us=result["p99_us"],
                  answers=result["calls"] / result["seconds"], drain_s=drained)


def orders_sample(system, seconds):
    """Reservations as fast as they come, to the database: the rate counts orders persisted."""
    idle = system.memory_mb()
    system.create_sale("bench", UNITS)
    wait_orders(system, grpc_load(system, "reserve-many", WARM_UP_S, 1)[0]["outcomes"][1])
    before, orders = system.cpu_us(), system.orders()
    result, load_us = grpc_load(system, "reserve-many", seconds, 1 << 40)
    answered = time.monotonic()
    units = wait_orders(system, orders + result["outcomes"][1]) - orders
    drained = time.monotonic() - answered
    used = {name: after - before[name] for name, after in system.cpu_us().items()}
    return Sample(units / (result["seconds"] + drained), units, used, load_us, idle, system.memory_mb(),
                  answers=result["outcomes"][1] / result["seconds"], drain_s=drained)


def sold_out_sample(system, seconds):
    system.create_sale("gone", 0)
    idle = system.memory_mb()
    http_load(system, 1, 0, "gone")
    result, units, used, load_us = measure(system, lambda: http_load(system, seconds, 1, "gone"))
    if system.reserved("gone"):
        raise BenchError("a sold-out sale sold something")
    return Sample(units / result["seconds"], units, used, load_us, idle, system.memory_mb(),
                  p50_us=result["p50_us"], p99_us=result["p99_us"])


# --- the scenarios ---------------------------------------------------------------------------------


def echo(build, seconds):
    with Echo(build) as system:
        return grpc_sample(system, "echo", 1, seconds)


def echo_h2load(build, seconds):
    """The same echo by h2load: shows that our generator neither helps nor hinders."""
    with Echo(build) as system:
        body = os.path.join(system.folder, "body")
        with open(body, "wb") as file:
            file.write(b"\0\0\0\0\x41" + bytes(0x41))  # as large as bench_load's
        command = ["h2load", "-c", str(CONNECTIONS), "-m", str(STREAMS), "-t", "1", "-d", body,
                   "-H", "te: trailers", "-H", "content-type: application/grpc"]
        target = f"http://127.0.0.1:{system.grpc}/stampede.bench.v1.EchoService/Echo"
        before = system.cpu_us()
        text, load_us = run([*command, "-D", str(max(1, round(seconds))), target], seconds + 20)
        used = {name: after - before[name] for name, after in system.cpu_us().items()}
        rate = float(re.search(r"finished in .*?, ([\d.]+) req/s", text)[1])
        units = int(re.search(r"(\d+) succeeded", text)[1])
        memory = system.memory_mb()
        return Sample(rate, units, used, load_us, memory, memory)


def reserve(build, seconds):
    with Stampede(build, ["inventory"]) as system:
        return grpc_sample(system, "reserve", 1, seconds)


def reserve_many(build, seconds):
    with Stampede(build, ["inventory"]) as system:
        return grpc_sample(system, "reserve-many", 1, seconds, BUYERS)


def orders(build, seconds):
    with Stampede(build, ["scheduler", "inventory", "order"]) as system:
        return orders_sample(system, seconds)


def go_reserve(build, seconds):
    with Peer(build, ["inventory"]) as system:
        return grpc_sample(system, "reserve", 1, seconds)


SERVICES = ["lock", "scheduler", "inventory", "order", "gateway"]
PEERS = ["inventory", "order", "gateway"]


def purchase(build, seconds):
    with Stampede(build, SERVICES) as system:
        return purchase_sample(system, seconds)


def purchase_kafka(build, seconds):
    with Kafka() as bus, Stampede(build, SERVICES, bus) as system:
        return purchase_sample(system, seconds)


def go_purchase(build, seconds):
    with Peer(build, PEERS) as system:
        return purchase_sample(system, seconds)


def go_purchase_kafka(build, seconds):
    with Kafka() as bus, Peer(build, PEERS, bus) as system:
        return purchase_sample(system, seconds)


def sold_out(build, seconds):
    # A gateway asks inventory for its first ten seconds, since it may know less than the one before it. That is over.
    with Stampede(build, SERVICES, STAMPEDE_SOLD_OUT_SETTLE="0s") as system:
        return sold_out_sample(system, seconds)


def go_sold_out(build, seconds):
    with Peer(build, PEERS) as system:
        return sold_out_sample(system, seconds)


def nginx(build, seconds):
    with Nginx(build) as system:
        return http_sample(system, seconds)


def store(build, seconds):
    """The order service's own store against bare batch inserts, by its own program."""
    program = os.path.join(build, "bin", "store_bench")
    if not os.path.exists(program):
        raise BenchError("store_bench is not built")
    with tempfile.TemporaryDirectory(prefix="stampede-bench.") as folder:
        text, _ = run([program, str(round(seconds * STORE_ORDERS))], seconds * 20 + 60, folder)
    result = json.loads(text.strip().splitlines()[-1])
    return {name: Sample(result[prefix + "rows_per_s"], 1, {part: result[prefix + "cpu_us_per_row"]}, 0, {}, {})
            for name, prefix, part in (("store", "", "store"), ("store_bare", "bare_", "SQLite"))}
