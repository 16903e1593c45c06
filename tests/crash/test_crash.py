"""kill -9 each process in the middle of a sale, start it again: nothing is lost, doubled or stuck.

The buyers are stampede-load: they repeat a request without an answer under its own request id, as every client should,
and afterwards every answer they hold is compared with every order and with the stock.
"""

import json
import time

from support.stack import StackTest


class Crash(StackTest):
    settings = {"STAMPEDE_LOG_LEVEL": "info"}

    def crash(self, name, down_s=0.4):
        sale = "crash-" + name
        load = self.stack.load("--sale", sale, "--units", "600", "--buyers", "6000", "--seconds", "4",
                               "--pay-within", "3", "--connections", "32", "--patience", "60")
        self.addCleanup(load.stdout.close)
        self.addCleanup(load.kill)
        # Twice: while units are still there, and while orders are being paid and cancelled.
        for pause in (0.35, 1.5):
            time.sleep(pause)
            self.assertIsNone(load.poll(), "the sale was over before %s was killed" % name)
            self.stack.kill(name)
            time.sleep(down_s)
            self.stack.restart(name)
        out, _ = load.communicate(timeout=170)
        self.assertEqual(load.returncode, 0, out[-3000:] + self.stack.logs())
        books = json.loads(out.splitlines()[-1])
        self.assertTrue(books["conserved"] and books["balanced"], books)
        self.assertEqual((books["oversold"], books["lost"], books["doubled"]), (0, 0, 0), books)
        self.assertEqual(books["sold"] + books["available"], 600, books)

    def test_inventory(self):
        self.crash("inventory")

    def test_order(self):
        self.crash("order")

    def test_gateway(self):
        self.crash("gateway")

    def test_scheduler(self):
        self.crash("scheduler")

    def test_lock(self):
        self.crash("lock")

    def test_redis(self):
        self.crash("redis")


class CrashOnKafka(Crash):
    """The same with the bus on Kafka: there Redis and the bus do not die together."""

    options = ("--kafka",)
    # What differs by bus.
    test_lock = test_gateway = None
