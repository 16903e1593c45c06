"""The systems that are measured: echo, nginx, Stampede and the Go peer.

    Stampede   redis ◄── inventory ◄── gateway        peer   redis ◄── inventory ◄── gateway
                 │  bus ──► order ──► scheduler                │  bus ──► order

Both run on a Redis of their own with the settings of the embedded one (unix socket, AOF, appendfsync
always), and on Redis Streams or the same Kafka.
"""

import glob
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile

from processes import (BenchError, Group, Measured, free_port, http_get, http_ready, tcp_ready)

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


class System(Group):
    """A group that takes reservations: gRPC at `grpc`, HTTP at `http`."""

    def __init__(self, build, bus):
        super().__init__()
        self.build = build
        self.bus = bus.url if bus else None  # None: its own Redis
        if bus:
            self.processes["kafka"] = bus.measured()
        self.grpc = self.http = None

    def program(self, name):
        path = os.path.join(self.build, "bin", name)
        if not os.path.exists(path):
            raise BenchError(f"{name} is not built")
        return path

    def start_redis(self):
        socket = os.path.join(self.folder, "redis.sock")
        command = ["redis-server", "--port", "0", "--unixsocket", socket, "--dir", self.folder,
                   "--appendonly", "yes", "--appendfsync", "always", "--save", "",
                   "--maxmemory-policy", "noeviction", "--daemonize", "no",
                   # A rewrite of the log would fall into some measurements and not into others.
                   "--auto-aof-rewrite-percentage", "0"]
        self.start("redis", command, lambda: subprocess.run(
            ["redis-cli", "-s", socket, "ping"], capture_output=True, check=False).stdout == b"PONG\n")
        self.redis = "unix://" + socket

    def create_sale(self, sale, units):
        load = os.path.join(self.build, "bin", "bench_load")
        result = subprocess.run([load, "create-sale", "--target", f"127.0.0.1:{self.grpc}", "--sale", sale,
                                 "--units", str(units)], capture_output=True, text=True, check=False)
        if result.returncode:
            raise BenchError(f"the sale was not created: {result.stderr.strip()}")

    def reserved(self, sale):
        code, body = http_get(f"http://127.0.0.1:{self.http}/v1/sales/{sale}/stock")
        if code != 200:
            raise BenchError(f"the stock cannot be read: {code} {body[:200]!r}")
        return int(json.loads(body)["stock"].get("reserved", 0))

    def orders(self):
        """How many orders the database has."""
        count = 0
        for path in glob.glob(os.path.join(self.folder, "data", "**", "*.db"), recursive=True):
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5) as database:
                tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
                if "orders" in tables:
                    count += database.execute("SELECT count(*) FROM orders").fetchone()[0]
        return count


# As the peer's client has it: answers do not wait for the bus, so larger batches cost nobody anything.
KAFKA_PROPERTIES = "?linger.ms=10&fetch.min.bytes=16384&fetch.wait.max.ms=50"


class Stampede(System):
    def __init__(self, build, services, bus=None, **settings):
        super().__init__(build, bus)
        self.settings = settings
        if bus:
            self.bus += KAFKA_PROPERTIES
        try:
            self.start_redis()
            ports = {name: free_port() for name in ("inventory", "order", "lock", "scheduler", "gateway")}
            self.grpc, self.http = ports["inventory"], free_port()
            for name in services:
                self._start_service(name, ports)
        except BaseException:
            self.__exit__()
            raise

    def _start_service(self, name, ports):
        data = os.path.join(self.folder, "data", name)
        os.makedirs(data)
        environment = {
            "STAMPEDE_REDIS": self.redis, "STAMPEDE_BUS": self.bus or self.redis, "STAMPEDE_DATA": data,
            "STAMPEDE_GRPC_ADDRESS": f"127.0.0.1:{ports[name]}",
            "STAMPEDE_ADMIN_ADDRESS": f"127.0.0.1:{ports[name] + 1000}",
            "STAMPEDE_HTTP_ADDRESS": f"127.0.0.1:{self.http}", "STAMPEDE_LOG_LEVEL": "warn",
            **{"STAMPEDE_" + other.upper(): f"127.0.0.1:{port}"
               for other, port in ports.items() if other != "gateway"}, **self.settings}
        self.start(name, [self.program("stampede-" + name)], http_ready(ports[name] + 1000), environment)


class Peer(System):
    def __init__(self, build, services, bus=None):
        super().__init__(build, bus)
        try:
            self.start_redis()
            os.makedirs(os.path.join(self.folder, "data"))
            self.grpc, self.http = free_port(), free_port()
            bus = self.bus or self.redis
            database = os.path.join(self.folder, "data", "orders.db")
            commands = {
                "inventory": (["-listen", f"127.0.0.1:{self.grpc}", "-redis", self.redis, "-bus", bus],
                              tcp_ready(self.grpc)),
                "order": (["-bus", bus, "-database", database], lambda: os.path.exists(database)),
                "gateway": (["-listen", f"127.0.0.1:{self.http}", "-inventory", f"127.0.0.1:{self.grpc}"],
                            tcp_ready(self.http)),
            }
            for name in services:
                options, ready = commands[name]
                # Fewer collections for more memory: what one does to a Go service that is short of CPU.
                self.start(name, [self.program("peer-" + name), *options], ready, {"GOGC": "400"})
        except BaseException:
            self.__exit__()
            raise

    def program(self, name):
        path = os.path.join(os.path.dirname(self.build), "bench", "peer", "bin", name)
        if not os.path.exists(path):
            raise BenchError(f"{name} is not built (is Go there?)")
        return path


class Echo(System):
    def __init__(self, build):
        super().__init__(build, None)
        self.grpc = free_port()
        try:
            self.start("echo", [self.program("bench_echo"), f"127.0.0.1:{self.grpc}"], tcp_ready(self.grpc))
        except BaseException:
            self.__exit__()
            raise


class Nginx(System):
    def __init__(self, build):
        super().__init__(build, None)
        self.http = free_port()
        nginx = shutil.which("nginx") or "/usr/sbin/nginx"
        configuration = os.path.join(self.folder, "nginx.conf")
        with open(os.path.join(HERE, "nginx.conf"), encoding="utf-8") as template:
            text = template.read().replace("@folder@", self.folder).replace("@port@", str(self.http))
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            self.start("nginx", [nginx, "-c", configuration, "-e", self.folder + "/nginx-error.log"],
                       tcp_ready(self.http))
        except BaseException:
            self.__exit__()
            raise


class Kafka:
    """A fresh single-node broker, started and stopped by tests/support/kafka."""

    TOOL = os.path.join(ROOT, "tests", "support", "kafka")
    CACHE = os.path.join(ROOT, ".deps", "kafka")

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="stampede-bench-kafka.")
        self.port = free_port()

    @classmethod
    def missing(cls):
        """Why there is none, or an empty string."""
        if not os.path.exists(cls.TOOL):
            return "tests/support/kafka is not there"
        if not shutil.which("java"):
            return "Java is not installed (./stampede setup --kafka)"
        if not os.path.exists(os.path.join(cls.CACHE, "libs")) and not shutil.which("mvn"):
            return "Kafka is not fetched and Maven is not installed (./stampede setup --kafka)"
        return ""

    def __enter__(self):
        result = subprocess.run([self.TOOL, "start", self.folder, str(self.port), self.CACHE], check=False,
                                text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)
        if result.returncode:
            self.__exit__()
            raise BenchError(f"Kafka did not start: {(result.stdout + result.stderr).strip()[-300:]}")
        return self

    @property
    def url(self):
        return f"kafka://127.0.0.1:{self.port}"

    def measured(self):
        with open(os.path.join(self.folder, "kafka.pid"), encoding="ascii") as file:
            return Measured("kafka", int(file.read()))

    def __exit__(self, *_):
        subprocess.run([self.TOOL, "stop", self.folder], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
