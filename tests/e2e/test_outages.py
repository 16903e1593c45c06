"""Dependencies that are down at start and later: precise errors, no hang, no lost unit, recovery by itself."""

import json
import os
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from support.stack import BIN, SERVICES, StackTest


class Outages(StackTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stack.create_sale("outage", total="50", perUserLimit=5)

    def reserve(self, user, request):
        return self.stack.http("POST", "/v1/sales/outage/reservations",
                               {"userId": user, "quantity": 1, "requestId": request})

    def test_redis_goes_and_comes_back(self):
        self.assertEqual(self.reserve("ann", "a1").json["outcome"], "OUTCOME_RESERVED")
        self.stack.kill("redis")
        since = time.monotonic()
        answer = self.reserve("ann", "a2")
        self.assertEqual(answer.status, 503, answer)
        self.assertEqual(answer.json["code"], 14, answer)
        self.assertIn("google.rpc.RetryInfo", answer.text)
        self.assertLess(time.monotonic() - since, 10)
        # What cannot have been decided is told what is missing.
        read = self.stack.http("GET", "/v1/sales/outage")
        self.assertEqual(read.status, 503, read)
        self.assertIn("Redis", read.text)
        code, _, err = self.stack.grpcurl("inventory", "stampede.inventory.v1.InventoryService/Reserve",
                                          data={"sale_id": "outage", "user_id": "ann", "quantity": 1,
                                                "request_id": "a3"})
        self.assertNotEqual(code, 0)
        self.assertIn("Unavailable", err)
        self.assertIn("RetryInfo", err)
        for name in ("inventory", "lock", "scheduler"):
            ready = self.wait_until(lambda n=name: self.not_ready(n), name + " saying it is not ready")
            self.assertIn("redis", ready.text)
        for name in SERVICES:
            self.assertEqual(self.stack.admin(name, "/healthz").status, 200)
        self.stack.restart("redis")
        self.wait_until(lambda: self.reserve("ann", "a2").status == 200, "a reservation after the outage")
        self.books_balance()

    def not_ready(self, name):
        answer = self.stack.admin(name, "/readyz")
        return answer if answer.status == 503 else None

    def test_a_service_goes_and_comes_back(self):
        self.stack.kill("inventory")
        answer = self.reserve("bob", "b1")
        self.assertEqual(answer.status, 503, answer)
        self.stack.restart("inventory")
        self.wait_until(lambda: self.reserve("bob", "b1").status == 200, "a reservation")
        self.stack.kill("order")
        answer = self.reserve("bob", "b2")
        self.assertEqual(answer.status, 200, answer)
        order = answer.json["orderId"]
        self.assertEqual(self.stack.http("GET", "/v1/orders/" + order).status, 503)
        self.stack.restart("order")
        self.wait_until(lambda: self.stack.http("GET", "/v1/orders/" + order).status == 200, "the order")
        self.books_balance()

    def books_balance(self):
        def agree():
            sale = self.stack.http("GET", "/v1/sales/outage").json["sale"]
            summary = self.stack.http("GET", "/v1/sales/outage/orders:summary").json
            units = {c["status"]: int(c.get("units", 0)) for c in summary.get("counts", [])}
            parts = [int(sale.get(part, 0)) for part in ("available", "reserved", "sold")]
            return sum(parts) == 50 and parts[1] == units.get("ORDER_STATUS_PENDING", 0)
        self.wait_until(agree, "balanced books")


class KafkaOutage(StackTest):
    options = ("--kafka",)

    def test_kafka_goes_and_comes_back(self):
        self.stack.create_sale("kafka", total="10")
        self.stack.kafka("stop")
        answer = self.stack.http("POST", "/v1/sales/kafka/reservations",
                                 {"userId": "ann", "quantity": 1, "requestId": "k1"})
        self.assertEqual(answer.status, 200, answer)
        self.stack.kafka("start")
        self.wait_until(lambda: self.stack.http("GET", "/v1/orders/" + answer.json["orderId"]).status == 200,
                        "the order, when Kafka is back", 60)


class Start(unittest.TestCase):
    """One process alone, before anything it needs is there."""

    def run_alone(self, name, **settings):
        folder = tempfile.mkdtemp()
        environment = dict({k: v for k, v in os.environ.items() if not k.startswith("STAMPEDE_")},
                           STAMPEDE_GRPC_ADDRESS="127.0.0.1:0", STAMPEDE_ADMIN_ADDRESS="127.0.0.1:0",
                           STAMPEDE_HTTP_ADDRESS="127.0.0.1:0", STAMPEDE_DATA=folder,
                           STAMPEDE_REDIS="redis://127.0.0.1:1", STAMPEDE_BUS="redis://127.0.0.1:1")
        environment.update(settings)
        process = subprocess.Popen([os.path.join(BIN, "stampede-" + name)], env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_starts_before_its_dependencies_and_drains_on_sigterm(self):
        for name in SERVICES:
            with self.subTest(service=name):
                process = self.run_alone(name)
                time.sleep(1)
                self.assertIsNone(process.poll(), "%s did not wait for Redis" % name)
                process.terminate()
                out, _ = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 0, out[-2000:])

    def test_order_waits_for_its_database_and_recovers(self):
        folder = tempfile.mkdtemp()
        in_the_way = os.path.join(folder, "data")
        with open(in_the_way, "w", encoding="utf-8"):
            pass
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.run_alone("order", STAMPEDE_DATA=os.path.join(in_the_way, "orders"),
                       STAMPEDE_ADMIN_ADDRESS="127.0.0.1:%d" % port)

        def database():
            try:
                with urllib.request.urlopen("http://127.0.0.1:%d/readyz" % port) as answer:
                    return json.load(answer)["parts"]["database"]
            except urllib.error.HTTPError as answer:
                return json.load(answer)["parts"]["database"]
            except OSError:
                return {}
        self.wait_for(lambda: "open" in database().get("reason", ""))
        os.remove(in_the_way)
        self.wait_for(lambda: database().get("up"))

    def wait_for(self, check, seconds=15):
        give_up = time.monotonic() + seconds
        while not check():
            self.assertLess(time.monotonic(), give_up)
            time.sleep(0.05)

    def test_names_wrong_settings_and_what_is_allowed(self):
        for name, value, word in (("STAMPEDE_REDIS", "carrier-pigeon://home", "redis://"),
                                  ("STAMPEDE_LOG_LEVEL", "loud", "debug"),
                                  ("STAMPEDE_GRPC_ADDRESS", "nonsense", "STAMPEDE_GRPC_ADDRESS")):
            for service in SERVICES:
                if service in ("gateway",) and name == "STAMPEDE_REDIS":
                    continue
                with self.subTest(service=service, setting=name):
                    process = self.run_alone(service, **{name: value})
                    out, _ = process.communicate(timeout=20)
                    self.assertNotEqual(process.returncode, 0)
                    self.assertGreaterEqual(process.returncode, 0, "ended by a signal")
                    self.assertIn(name, out)
                    self.assertIn(word, out)


if __name__ == "__main__":
    unittest.main()
