"""A whole stack for one test class, started by the same command that users have, on free ports, in a folder of its own.

STAMPEDE_PRESET chooses the build (tests/run sets asan). Logs of a stack whose test failed stay in build/test/.
"""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
COMMAND = os.path.join(ROOT, "stampede")
SERVICES = ("inventory", "order", "lock", "scheduler", "gateway")
PRESET = os.environ.get("STAMPEDE_PRESET", "release")
BIN = os.path.join(ROOT, "build", PRESET, "bin")
GRPCURL = shutil.which("grpcurl") or os.path.join(ROOT, ".deps", "bin", "grpcurl")


class Answer:
    """An HTTP answer: status, headers, text, and json when it is JSON."""

    def __init__(self, status, headers, text):
        self.status, self.headers, self.text = status, headers, text
        try:
            self.json = json.loads(text)
        except ValueError:
            self.json = None

    def __repr__(self):
        return "HTTP %d %s" % (self.status, self.text[:400])


class Stack:
    def __init__(self, *options, **settings):
        self.home = tempfile.mkdtemp(prefix="stampede-")
        self.env = dict(os.environ, STAMPEDE_HOME=self.home, STAMPEDE_SETUP="no", **settings)
        done = self.command("up", "--free", *options)
        if done.returncode:
            logs = self.logs()
            self.down()
            raise RuntimeError("up failed: %s\n%s" % (done.stderr, logs))
        self.read_ports()

    def read_ports(self):
        with open(os.path.join(self.home, "stack"), encoding="utf-8") as file:
            self.port = {name: int(number) for name, number in re.findall(r'\[(\w+)\]="(\d+)"', file.read())}

    def command(self, *arguments, timeout=180):
        return subprocess.run([COMMAND, *arguments], env=self.env, text=True, capture_output=True,
                              timeout=timeout, check=False)

    def down(self, keep_logs=False):
        done = self.command("down")
        complaint = self.sanitizer_complaint()
        if keep_logs or complaint:
            kept = os.path.join(ROOT, "build", "test", os.path.basename(self.home))
            shutil.copytree(os.path.join(self.home, "log"), kept, dirs_exist_ok=True)
            print("logs are kept in", kept)
        shutil.rmtree(self.home, ignore_errors=True)
        if complaint:
            raise AssertionError("a sanitizer complained, or an assertion failed:\n" + complaint)
        return done

    def sanitizer_complaint(self):
        """What the processes of this stack said at their end, if it was not a farewell."""
        folder, pattern = os.path.join(self.home, "log"), r"ERROR: \w+Sanitizer|runtime error:|: Assertion `"
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                text = file.read()
            found = re.search(pattern, text)
            if found:
                return "%s: %s" % (name, text[found.start():found.start() + 3000])
        return None

    def logs(self, lines=8):
        folder, text = os.path.join(self.home, "log"), ""
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                text += "--- %s\n%s" % (name, "".join(file.readlines()[-lines:]))
        return text

    # processes

    def pid(self, name):
        with open(os.path.join(self.home, "run", name + ".pid"), encoding="utf-8") as file:
            return int(file.read().split()[0])

    def kill(self, name, number=signal.SIGKILL):
        pid = self.pid(name)
        os.kill(pid, number)
        while os.path.exists("/proc/%d" % pid):
            with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    break
            time.sleep(0.01)

    def restart(self, name):
        done = self.command("restart", name)
        if done.returncode:
            raise RuntimeError("restart %s: %s\n%s" % (name, done.stderr, self.logs()))

    def kafka(self, what):
        folder = os.path.join(self.home, "data", "kafka")
        port = [str(self.port["kafka"])] if what == "start" else []
        subprocess.run([os.path.join(ROOT, "tests", "support", "kafka"), what, folder, *port], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)

    def admin(self, name, path):
        return self.http("GET", path, port=self.port[name] + 1000)

    # requests

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.port["http"]

    def http(self, method, path, body=None, headers=None, port=None, timeout=15):
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port["http"], timeout=timeout)
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
        connection.close()
        return Answer(answer.status, dict(answer.getheaders()), text)

    def grpcurl(self, service, *arguments, data=None, timeout=20):
        """service: whose port. What is answered is (exit code, stdout, stderr)."""
        words = [GRPCURL, "-plaintext"]
        if data is not None:
            words += ["-d", "@"]
        options = [word for word in arguments if word.startswith("-") or re.fullmatch(r"[\d.]+", word)]
        rest = [word for word in arguments if word not in options]
        words += options + ["127.0.0.1:%d" % self.port[service]] + rest
        done = subprocess.run(words, text=True, capture_output=True, timeout=timeout, check=False,
                              input=None if data is None else json.dumps(data))
        return done.returncode, done.stdout, done.stderr

    def call(self, service, method, data):
        code, out, err = self.grpcurl(service, method, data=data)
        if code:
            raise RuntimeError("%s %s: %s" % (method, data, err))
        return json.loads(out)

    def create_sale(self, sale_id, **fields):
        body = {"saleId": sale_id, "title": sale_id, "total": "100", "perUserLimit": 1, "open": True, **fields}
        answer = self.http("POST", "/v1/sales", body)
        if answer.status != 200:
            raise RuntimeError("sale %s: %r" % (sale_id, answer))
        return answer.json["sale"]

    def load(self, *options, **more):
        """stampede-load, started; its JSON is the last line."""
        return subprocess.Popen([os.path.join(ROOT, "build", "release", "bin", "stampede-load"), "--url",
                                 self.url, "--json", *options], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, **more)


class StackTest(unittest.TestCase):
    """Tests that share one stack."""

    options = ()
    settings = {}

    @classmethod
    def setUpClass(cls):
        cls.failed = False
        cls.stack = Stack(*cls.options, **cls.settings)
        cls.addClassCleanup(lambda: cls.stack.down(keep_logs=cls.failed))

    def tearDown(self):
        outcome = getattr(self, "_outcome", None)
        result = getattr(outcome, "result", None)
        wrong = (result.failures + result.errors) if result else []
        if any(test is self for test, _ in wrong) or any(error for _, error in getattr(outcome, "errors", [])):
            type(self).failed = True

    def wait_until(self, check, what, seconds=20):
        give_up = time.monotonic() + seconds
        while True:
            value = check()
            if value:
                return value
            self.assertLess(time.monotonic(), give_up, "%s did not happen within %d s" % (what, seconds))
            time.sleep(0.05)
