"""Each service and the gateway as grpcurl sees them: list, describe, call, stream, error, health."""

import json

from support.stack import SERVICES, StackTest

OWN = {
    "inventory": ("stampede.inventory.v1.InventoryService", "Reserve", "ReserveRequest"),
    "order": ("stampede.order.v1.OrderService", "PayOrder", "PayOrderRequest"),
    "lock": ("stampede.lock.v1.LockService", "TryAcquire", "TryAcquireRequest"),
    "scheduler": ("stampede.scheduler.v1.SchedulerService", "Publish", "PublishRequest"),
}


class Grpcurl(StackTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stack.call("inventory", "stampede.inventory.v1.InventoryService/CreateSale",
                       {"sale_id": "grpc", "total": 20, "per_user_limit": 5, "open": True})

    @staticmethod
    def each():
        """(port of, service, method, request) directly, and the same through the gateway."""
        return [(port, *own) for name, own in OWN.items() for port in (name, "gateway")]

    def ok(self, *arguments, **more):
        code, out, err = self.stack.grpcurl(*arguments, **more)
        self.assertEqual(code, 0, err)
        return out

    def error(self, code, *arguments, **more):
        exit_code, out, err = self.stack.grpcurl(*arguments, **more)
        self.assertNotEqual(exit_code, 0, out)
        self.assertIn("Code: " + code, err)
        return err

    def test_lists_its_services(self):
        for port, service, method, _ in self.each():
            with self.subTest(service=service, through=port):
                listed = self.ok(port, "list").split()
                self.assertIn(service, listed)
                self.assertIn("grpc.health.v1.Health", listed)
                self.assertIn("grpc.reflection.v1.ServerReflection", listed)
                self.assertIn("grpc.reflection.v1alpha.ServerReflection", listed)
                self.assertIn("%s.%s" % (service, method), self.ok(port, "list", service))

    def test_the_gateway_lists_every_service(self):
        listed = self.ok("gateway", "list").split()
        for service, _, _ in OWN.values():
            self.assertIn(service, listed)

    def test_describes_services_methods_and_messages(self):
        for port, service, method, request in self.each():
            with self.subTest(service=service, through=port):
                self.assertIn("rpc " + method, self.ok(port, "describe", service))
                self.assertIn("google.api.http", self.ok(port, "describe", "%s.%s" % (service, method)))
                package = service.rsplit(".", 1)[0]
                self.assertIn("message " + request, self.ok(port, "describe", "%s.%s" % (package, request)))

    def test_health(self):
        for name in SERVICES:
            with self.subTest(service=name):
                for service in ("", "liveness", "readiness"):
                    out = self.ok(name, "grpc.health.v1.Health/Check", data={"service": service})
                    self.assertEqual(json.loads(out)["status"], "SERVING")
                self.error("NotFound", name, "grpc.health.v1.Health/Check", data={"service": "nobody"})
        for name, (service, _, _) in OWN.items():
            out = self.ok(name, "grpc.health.v1.Health/Check", data={"service": service})
            self.assertEqual(json.loads(out)["status"], "SERVING")

    def test_health_watch_answers_at_once_and_stays_open(self):
        for name in SERVICES:
            with self.subTest(service=name):
                _, out, err = self.stack.grpcurl(name, "-max-time", "1", "grpc.health.v1.Health/Watch",
                                                 data={"service": "nobody"})
                self.assertIn("SERVICE_UNKNOWN", out)
                self.assertIn("DeadlineExceeded", err)

    def test_calls(self):
        for port in ("inventory", "gateway"):
            answer = self.stack.call(port, "stampede.inventory.v1.InventoryService/Reserve",
                                     {"sale_id": "grpc", "user_id": "ann-" + port, "quantity": 1, "request_id": port})
            self.assertEqual(answer["outcome"], "OUTCOME_RESERVED")
            order = answer["orderId"]
            self.wait_until(lambda: self.stack.grpcurl(
                "order", "stampede.order.v1.OrderService/GetOrder", data={"order_id": order})[0] == 0, "the order")
            paid = self.stack.call(port.replace("inventory", "order"), "stampede.order.v1.OrderService/PayOrder",
                                   {"order_id": order})
            self.assertEqual(paid["order"]["status"], "ORDER_STATUS_PAID")
        for port in ("lock", "gateway"):
            grant = self.stack.call(port, "stampede.lock.v1.LockService/TryAcquire",
                                    {"name": "door-" + port, "owner": "ann", "request_id": "1"})
            self.assertTrue(grant["acquired"])
            self.stack.call(port, "stampede.lock.v1.LockService/Release",
                            {"name": "door-" + port, "token": grant["grant"]["token"]})
        for port in ("scheduler", "gateway"):
            job = self.stack.call(port, "stampede.scheduler.v1.SchedulerService/Publish",
                                  {"queue": "q-" + port, "job": {"job_id": "1", "target": {"pull": {}}}})
            self.assertEqual(job["jobId"], "1")
            leased = self.stack.call(port, "stampede.scheduler.v1.SchedulerService/Lease",
                                     {"queue": "q-" + port, "max_wait": "2s"})
            self.assertEqual(leased["jobs"][0]["job"]["jobId"], "1")
            done = self.stack.call(port, "stampede.scheduler.v1.SchedulerService/Acknowledge",
                                   {"queue": "q-" + port, "receipts": [leased["jobs"][0]["receipt"]]})
            self.assertEqual(done["acknowledged"], [True])

    def test_streams(self):
        for port in ("inventory", "gateway"):
            with self.subTest(through=port):
                _, out, err = self.stack.grpcurl(port, "-max-time", "1",
                                                 "stampede.inventory.v1.InventoryService/WatchStock",
                                                 data={"sale_id": "grpc"})
                self.assertIn('"total": "20"', out)
                self.assertIn("DeadlineExceeded", err)

    def test_errors_carry_code_field_and_reason(self):
        for port in ("inventory", "gateway"):
            err = self.error("InvalidArgument", port, "stampede.inventory.v1.InventoryService/Reserve",
                             data={"sale_id": "grpc", "user_id": "ann", "request_id": "z", "quantity": 0})
            self.assertIn("google.rpc.BadRequest", err)
            self.assertIn("quantity", err)
            self.error("NotFound", port, "stampede.inventory.v1.InventoryService/GetSale", data={"sale_id": "no"})
        for port in ("order", "gateway"):
            self.error("NotFound", port, "stampede.order.v1.OrderService/GetOrder", data={"order_id": "1"})
            self.error("InvalidArgument", port, "stampede.order.v1.OrderService/ListOrders", data={})
        for port in ("lock", "gateway"):
            self.error("FailedPrecondition", port, "stampede.lock.v1.LockService/Renew",
                       data={"name": "nobody", "token": 7})
        for port in ("scheduler", "gateway"):
            self.error("InvalidArgument", port, "stampede.scheduler.v1.SchedulerService/Lease",
                       data={"queue": "no spaces"})

    def test_unknown_methods_are_unimplemented(self):
        # grpcurl asks reflection first, so the method comes from a proto the server does not have.
        import os
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "x.proto"), "w", encoding="utf-8") as file:
                file.write('syntax = "proto3"; package stampede.inventory.v1; message M {}'
                           ' service InventoryService { rpc Conjure(M) returns (M); }')
            for port in SERVICES:
                with self.subTest(service=port):
                    self.error("Unimplemented", port, "-import-path=" + folder, "-proto=x.proto",
                               "stampede.inventory.v1.InventoryService/Conjure", data={})

    def test_deadlines(self):
        for port in ("lock", "gateway"):
            holder = self.stack.call("lock", "stampede.lock.v1.LockService/TryAcquire",
                                     {"name": "busy-" + port, "owner": "ann", "request_id": "1"})
            self.assertTrue(holder["acquired"])
            self.error("DeadlineExceeded", port, "-max-time", "0.3", "stampede.lock.v1.LockService/Acquire",
                       data={"name": "busy-" + port, "owner": "bob", "request_id": "2"})

    def test_oversized_messages_are_refused(self):
        for port in ("inventory", "gateway"):
            err = self.error("ResourceExhausted", port, "stampede.inventory.v1.InventoryService/CreateSale",
                             data={"sale_id": "big", "title": "x" * 2000000})
            self.assertIn("message", err.lower())
