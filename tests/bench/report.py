"""The table at the end: every figure, every ratio with its target, and the same as JSON.

A ratio is taken within each round and its median shown, so that a machine that gets slower or faster during the
run moves both sides of it. Figures are medians too.
"""

import os
import platform
import statistics

# name, ours, theirs, what is compared, "at least" or "at most", target
RATIOS = [
    ("Reserve : echo", "reserve", "echo", "rate", ">=", 0.75),
    ("Reserve : echo, CPU", "reserve", "echo", "cpu", "<=", 1.6),
    ("Reserve : Go", "reserve", "go_reserve", "rate", ">=", 2.0),
    ("Reserve : Go, CPU", "reserve", "go_reserve", "cpu", "<=", 0.5),
    ("ReserveMany(64) : Reserve", "reserve_many", "reserve", "rate", ">=", 4.0),
    ("HTTP purchase : Go, on Redis Streams", "purchase", "go_purchase", "rate", ">=", 5.0),
    ("HTTP purchase : Go, on Kafka", "purchase_kafka", "go_purchase_kafka", "rate", ">=", 5.0),
    ("HTTP purchase : nginx", "purchase", "nginx", "answers", ">=", 0.3),
    ("Sold out : nginx", "sold_out", "nginx", "rate", ">=", 0.6),
    ("Sold out : Go", "sold_out", "go_sold_out", "rate", "", None),
    ("Orders stored : bare SQLite", "store", "store_bare", "rate", ">=", 0.5),
]
IDLE_MAX_MB, BUSY_MAX_MB = 30, 120
SERVICES = ["inventory", "order", "lock", "scheduler", "gateway"]
OURS = ["reserve", "reserve_many", "orders", "purchase", "purchase_kafka", "sold_out"]
# The one process that stands for a system when CPU is compared.
SERVER = {"reserve": "inventory", "go_reserve": "inventory", "echo": "echo", "echo_h2load": "echo"}

TITLES = {
    "echo": "raw C-core echo", "echo_h2load": "raw C-core echo, by h2load", "reserve": "Reserve",
    "reserve_many": "ReserveMany(64), reservations",
    "orders": "ReserveMany(64) to orders stored", "go_reserve": "Go: Reserve",
    "purchase": "HTTP purchase, Redis Streams", "go_purchase": "Go: HTTP purchase, Redis Streams",
    "purchase_kafka": "HTTP purchase, Kafka", "go_purchase_kafka": "Go: HTTP purchase, Kafka",
    "sold_out": "HTTP sold out", "go_sold_out": "Go: HTTP sold out", "nginx": "nginx return 200, one worker",
    "store": "orders stored by the order service's store", "store_bare": "bare SQLite batch insert",
}


def _value(name, sample, kind):
    if kind == "cpu":
        return sample.cpu_us[SERVER[name]]
    if kind == "answers":
        return sample.more.get("answers", sample.rate)
    return sample.rate


def _ratio(ours, theirs, kind, rounds):
    """The median over the rounds that have both, or None."""
    values = [(_value(ours, r[ours], kind), _value(theirs, r[theirs], kind))
              for r in rounds if ours in r and theirs in r]
    values = [(a, b) for a, b in values if b]
    if not values:
        return None
    return (statistics.median(a / b for a, b in values), statistics.median(a for a, _ in values),
            statistics.median(b for _, b in values))


def _median_by_name(dicts):
    names = {name: None for one in dicts for name in one}
    return {name: round(statistics.median(one[name] for one in dicts if name in one), 2) for name in names}


def figures(rounds):
    result = {}
    for name, title in TITLES.items():
        samples = [r[name] for r in rounds if name in r]
        if not samples:
            continue
        figure = {"title": title, "rate": round(statistics.median(s.rate for s in samples)),
                  "rates": [round(s.rate) for s in samples],
                  "cpu_us": _median_by_name([s.cpu_us for s in samples]),
                  "load_cpu_us": round(statistics.median(s.load_us for s in samples), 2),
                  "idle_mb": _median_by_name([s.idle_mb for s in samples]),
                  "busy_mb": _median_by_name([s.busy_mb for s in samples])}
        for key in samples[0].more:
            figure[key] = round(statistics.median(s.more[key] for s in samples), 2)
        result[name] = figure
    return result


def targets(rounds):
    rows = []
    for name, ours, theirs, kind, sign, target in RATIOS:
        found = _ratio(ours, theirs, kind, rounds)
        row = {"name": name, "ratio": None, "ours": None, "theirs": None, "sign": sign, "target": target,
               "met": None, "unit": "us" if kind == "cpu" else "/s"}
        if found:
            row |= {"ratio": round(found[0], 3), "ours": round(found[1], 1), "theirs": round(found[2], 1)}
            if target is not None:
                row["met"] = found[0] >= target if sign == ">=" else found[0] <= target
        rows.append(row)
    for kind, attribute, most in (("idle", "idle_mb", IDLE_MAX_MB), ("under load", "busy_mb", BUSY_MAX_MB)):
        for service in SERVICES:
            seen = [getattr(r[name], attribute)[service] for r in rounds for name in OURS
                    if name in r and service in getattr(r[name], attribute)]
            largest = max(seen, default=None)
            rows.append({"name": f"Memory {kind}: {service}", "ratio": None,
                         "ours": largest and round(largest, 1), "theirs": None, "sign": "<=", "target": most,
                         "met": None if largest is None else largest <= most, "unit": "MB"})
    return rows


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"processor": model, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release()}


def _number(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.1f}"


def print_figures(found):
    print(f"\n{'':44}{'a second':>11}{'p50 ms':>8}{'p99 ms':>8}   CPU µs for each one")
    for figure in found.values():
        times = [f"{figure[key] / 1000:.2f}" if key in figure else "-" for key in ("p50_us", "p99_us")]
        shares = [f"{name} {used:.1f}" for name, used in figure["cpu_us"].items()]
        if figure["load_cpu_us"]:
            shares.append(f"(load {figure['load_cpu_us']:.1f})")
        print(f"{figure['title']:44}{figure['rate']:>11,}{times[0]:>8}{times[1]:>8}   {', '.join(shares)}")
        if "answers" in figure:
            print(f"{'  answered, before the orders were stored':44}{round(figure['answers']):>11,}"
                  f"{'':16}   last order {figure['drain_s']:.2f} s after the last answer")


def print_targets(rows):
    print(f"\n{'':40}{'ours':>11}{'theirs':>11}{'ratio':>8}{'target':>9}   ")
    for row in rows:
        met = {True: "met", False: "MISSED", None: "not measured" if row["ours"] is None else ""}[row["met"]]
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        target = "" if row["target"] is None else f"{row['sign']} {row['target']:g}"
        unit = {"us": " µs", "MB": " MB"}.get(row["unit"], "")
        theirs = "" if row["theirs"] is None else _number(row["theirs"]) + unit
        ours = _number(row["ours"]) + (unit if row["ours"] is not None else "")
        print(f"{row['name']:40}{ours:>11}{theirs:>11}{ratio:>8}{target:>9}   {met}")
