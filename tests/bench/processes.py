"""Processes of the bench: started in a folder of their own, measured by /proc, and always ended.

A child dies with the bench even when that is killed (PR_SET_PDEATHSIG), so nothing is left behind.
"""

import contextlib
import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

START_MAX_S = 30
STOP_MAX_S = 15
TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")
_libc = ctypes.CDLL(None, use_errno=True)


class BenchError(Exception):
    """What keeps the bench, or one of its scenarios, from going on; said as it stands."""


def _die_with_parent():
    _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def free_port():
    """A port nobody listens on, below those of outgoing connections; + 1000 (admin) is free too."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as first, socket.socket() as second, contextlib.suppress(OSError):
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 1000))
            return port


def http_get(url, timeout=2):
    """Status and body; status 0 when nobody answered."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


def tcp_ready(port):
    def ready():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    return ready


def http_ready(port):
    return lambda: http_get(f"http://127.0.0.1:{port}/readyz")[0] == 200


class Measured:
    """A process that somebody else starts and stops: its CPU time, its memory."""

    def __init__(self, name, pid):
        self.name, self.pid = name, pid

    def pids(self):
        """The process and its direct children (nginx's worker)."""
        path = f"/proc/{self.pid}/task/{self.pid}/children"
        with contextlib.suppress(OSError), open(path, encoding="ascii") as children:
            return [self.pid, *map(int, children.read().split())]
        return [self.pid]

    def cpu_us(self):
        total = 0
        for pid in self.pids():
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                fields = stat.read().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total * TICK_US

    def memory_mb(self):
        """Resident now, and at most so far."""
        now = most = 0.0
        for pid in self.pids():
            with open(f"/proc/{pid}/status", encoding="utf-8") as status:
                lines = dict(line.split(":", 1) for line in status if ":" in line)
            now += int(lines["VmRSS"].split()[0]) / 1024
            most += int(lines["VmHWM"].split()[0]) / 1024
        return now, most

    def running(self):
        return os.path.exists(f"/proc/{self.pid}")

    def last_lines(self):
        return "it has no log here"

    def stop(self):
        pass


class Process(Measured):
    """A child of ours, with its log."""

    def __init__(self, name, command, folder, ready, environment=None):
        self.log = os.path.join(folder, name + ".log")
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                env={**os.environ, **(environment or {})}, preexec_fn=_die_with_parent,
                start_new_session=True)
        super().__init__(name, self.child.pid)
        try:
            self._wait_ready(ready)
        except BaseException:
            self.stop()
            raise

    def _wait_ready(self, ready):
        until = time.monotonic() + START_MAX_S
        while not ready():
            if self.child.poll() is not None:
                raise BenchError(f"{self.name} ended while starting: {self.last_lines()}")
            if time.monotonic() > until:
                raise BenchError(f"{self.name} is not ready after {START_MAX_S} s: {self.last_lines()}")
            time.sleep(0.02)

    def last_lines(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return " / ".join(log.read().strip().splitlines()[-4:]) or "it said nothing"

    def running(self):
        return self.child.poll() is None

    def stop(self):
        if self.running():
            self.child.terminate()
            try:
                self.child.wait(STOP_MAX_S)
            except subprocess.TimeoutExpired:
                self.child.kill()
        self.child.wait()


class Group:
    """The processes of one measured system and their folder; a context manager."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="stampede-bench.")
        self.processes = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes.values()):
            process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name, command, ready, environment=None):
        process = Process(name, command, self.folder, ready, environment)
        self.processes[name] = process
        return process

    def check(self):
        for process in self.processes.values():
            if not process.running():
                raise BenchError(f"{process.name} ended: {process.last_lines()}")

    def cpu_us(self):
        return {name: process.cpu_us() for name, process in self.processes.items()}

    def memory_mb(self):
        return {name: process.memory_mb() for name, process in self.processes.items()}


def run(command, timeout, folder=None):
    """Runs a load; its output, and the CPU time it took in µs."""
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, cwd=folder,
                                 stderr=subprocess.STDOUT, preexec_fn=_die_with_parent)
        watch = time.monotonic() + timeout
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > watch:
                child.kill()
            time.sleep(0.005)
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if child.returncode:
        last = " / ".join(text.strip().splitlines()[-3:])
        raise BenchError(f"{os.path.basename(command[0])} ended with {child.returncode}: {last}")
    return text, (usage.ru_utime + usage.ru_stime) * 1e6
