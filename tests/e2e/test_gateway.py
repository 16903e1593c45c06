"""What the gateway does of its own: purchases together, sold out from memory, shared streams, limits, CORS, files, drain."""

import http.client
import re
import signal
import threading
import time
import unittest

from support.stack import StackTest

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Events:
    """A client of a stream, in a thread of its own; `lines` grows."""

    def __init__(self, stack, path):
        self.connection = http.client.HTTPConnection("127.0.0.1", stack.port["http"], timeout=30)
        self.connection.request("GET", path)
        self.answer = self.connection.getresponse()
        self.lines, self.ended = [], False
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for line in self.answer:
                self.lines.append(line.decode().rstrip("\n"))
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass
        self.ended = True

    def text(self):
        return "\n".join(self.lines)

    def close(self):
        self.connection.sock and self.connection.sock.shutdown(2)
        self.connection.close()


class Gateway(StackTest):
    settings = {"STAMPEDE_SOLD_OUT_SETTLE": "0s", "STAMPEDE_CORS_ORIGINS": "https://shop.example, https://b.example"}

    def metric(self, name):
        text = self.stack.admin("gateway", "/metrics").text
        return float(re.search(r"^%s(?:{[^}]*})? (\S+)" % name, text, re.M).group(1))

    def reserve(self, sale, user, request_id=None, headers=None, quantity=1):
        body = {"userId": user, "quantity": quantity}
        if request_id:
            body["requestId"] = request_id
        return self.stack.http("POST", "/v1/sales/%s/reservations" % sale, body, headers)

    def outcome(self, *arguments, **more):
        answer = self.reserve(*arguments, **more)
        self.assertEqual(answer.status, 200, answer)
        return answer.json["outcome"]

    # purchases

    def test_purchases_at_once_travel_together(self):
        self.stack.create_sale("together", total="1000")
        calls, sent = self.metric("stampede_gateway_batches_total"), self.metric("stampede_gateway_batched_total")
        answers = []

        def buy(buyer):
            for i in range(10):
                answers.append(self.reserve("together", "t%d-%d" % (buyer, i)))

        threads = [threading.Thread(target=buy, args=(buyer,)) for buyer in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        orders = {answer.json["orderId"] for answer in answers}
        self.assertEqual(len(orders), 320)
        self.assertEqual(self.metric("stampede_gateway_batched_total") - sent, 320)
        self.assertLess(self.metric("stampede_gateway_batches_total") - calls, 320)

    def test_a_wrong_reservation_spoils_no_other_of_its_batch(self):
        self.stack.create_sale("mixed", total="1000")
        answers = {}

        def buy(buyer):
            for i in range(5):
                quantity = 0 if buyer % 2 else 1
                answers[buyer, i] = self.reserve("mixed", "m%d-%d" % (buyer, i), quantity=quantity)

        threads = [threading.Thread(target=buy, args=(buyer,)) for buyer in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for (buyer, _), answer in answers.items():
            self.assertEqual(answer.status, 400 if buyer % 2 else 200, answer)

    # sold out

    def test_sold_out_is_answered_from_memory_until_stock_returns(self):
        self.stack.create_sale("gone", total="1")
        first = self.reserve("gone", "ann", "first")
        self.assertEqual(first.json["outcome"], "OUTCOME_RESERVED", first)
        self.assertEqual(self.outcome("gone", "bob"), "OUTCOME_SOLD_OUT")
        before = self.metric("stampede_gateway_sold_out_local_total")
        self.wait_until(lambda: self.outcome("gone", "cyd", "c%f" % time.time()) == "OUTCOME_SOLD_OUT" and
                        self.metric("stampede_gateway_sold_out_local_total") > before, "a local answer")

        # a repeat gets its first answer all the same
        again = self.reserve("gone", "ann", "first")
        self.assertEqual(again.json["orderId"], first.json["orderId"], again)
        self.assertTrue(again.json["repeatedAnswer"])

        # a repeat that says so is never answered from memory; what is malformed is refused by inventory
        local = self.metric("stampede_gateway_sold_out_local_total")
        self.assertEqual(self.outcome("gone", "dan", "d1", {"Stampede-Attempt": "2"}), "OUTCOME_SOLD_OUT")
        self.assertEqual(self.reserve("gone", "dan", quantity=0).status, 400)
        self.assertEqual(self.reserve("gone", "x" * 65).status, 400)
        self.assertEqual(self.metric("stampede_gateway_sold_out_local_total"), local)
        self.assertEqual(self.outcome("gone", "dan", "d2", {"Stampede-Attempt": "1"}), "OUTCOME_SOLD_OUT")
        self.assertEqual(self.metric("stampede_gateway_sold_out_local_total"), local + 1)

        self.stack.http("POST", "/v1/sales/gone/stock:adjust", {"delta": "1"})
        self.wait_until(lambda: self.outcome("gone", "eve%f" % time.time()) == "OUTCOME_RESERVED", "the new unit")

    def test_a_sold_out_sale_that_pauses_says_so(self):
        self.stack.create_sale("pausing", total="0")
        self.assertEqual(self.outcome("pausing", "ann"), "OUTCOME_SOLD_OUT")
        time.sleep(0.2)
        self.stack.http("POST", "/v1/sales/pausing:pause", {})
        self.wait_until(lambda: self.outcome("pausing", "bob%f" % time.time()) == "OUTCOME_PAUSED", "the pause")

    # streams

    def test_watchers_of_one_thing_share_a_stream(self):
        self.stack.create_sale("watched", total="10")
        clients = [Events(self.stack, "/v1/sales/watched/stock:watch") for _ in range(20)]
        self.wait_until(lambda: all('"available":"10"' in client.text() for client in clients), "the first state")
        self.assertGreaterEqual(self.metric("stampede_gateway_event_streams"), 20)
        self.assertLess(self.metric("stampede_gateway_watches"), 20)
        self.reserve("watched", "ann")
        self.wait_until(lambda: all('"available":"9"' in client.text() for client in clients), "the change")
        late = Events(self.stack, "/v1/sales/watched/stock:watch")
        self.wait_until(lambda: '"available":"9"' in late.text(), "the state for who comes later")
        for client in clients + [late]:
            client.close()
        self.wait_until(lambda: self.metric("stampede_gateway_event_streams") == 0, "the streams' end")

    def test_an_order_is_watched_from_its_reservation_to_its_end(self):
        self.stack.create_sale("ordered", total="1")
        order = self.reserve("ordered", "ann").json["orderId"]
        client = Events(self.stack, "/v1/orders/%s:watch" % order)
        self.wait_until(lambda: "ORDER_STATUS_PENDING" in client.text(), "the order")
        self.stack.http("POST", "/v1/orders/%s:cancel" % order, {})
        self.wait_until(lambda: "ORDER_STATUS_CANCELLED" in client.text(), "the cancellation")
        self.wait_until(lambda: client.ended, "the stream's end")
        self.assertIn("event: end", client.lines)

    def test_a_stream_that_fails_at_once_is_an_error_like_any_other(self):
        answer = self.stack.http("GET", "/v1/sales/nowhere/stock:watch")
        self.assertEqual(answer.status, 404, answer)
        self.assertEqual(answer.json["code"], 5)

    # requests

    def test_a_trace_goes_in_and_comes_out(self):
        answer = self.stack.http("GET", "/v1/sales", headers={"traceparent": TRACE})
        self.assertIn(TRACE[3:35], answer.headers["traceparent"])
        self.assertNotIn("traceparent", self.stack.http("GET", "/v1/sales").headers)
        self.assertIn("traceparent", self.stack.http("GET", "/v1/sales/nowhere").headers)

    def test_queries_name_fields_exactly(self):
        self.assertEqual(self.stack.http("GET", "/v1/sales?page_size=1").status, 200)
        self.assertEqual(self.stack.http("GET", "/v1/sales?pageSize=1&pageToken=").status, 200)
        for query in ("pageSize=x", "nobody=1", "pageSize=1&page_size=2", "pageToken=%ff"):
            answer = self.stack.http("GET", "/v1/sales?" + query)
            self.assertEqual(answer.status, 400, answer)
            self.assertTrue(answer.json["details"][0]["fieldViolations"], answer)

    def test_deadlines(self):
        for name, value, status in (("Grpc-Timeout", "5S", 200), ("X-Request-Timeout", "2.5", 200),
                                    ("X-Request-Timeout", "500ms", 200), ("Grpc-Timeout", "5x", 400),
                                    ("X-Request-Timeout", "-1", 400), ("X-Request-Timeout", "0", 504)):
            answer = self.stack.http("GET", "/v1/sales", headers={name: value})
            self.assertEqual(answer.status, status, (name, value, answer))
        self.stack.http("POST", "/v1/locks/held:acquire", {"owner": "a", "requestId": "1"})
        begun = time.monotonic()
        answer = self.stack.http("POST", "/v1/locks/held:acquire", {"owner": "b", "requestId": "2"},
                                 {"X-Request-Timeout": "0.3"})
        self.assertEqual(answer.status, 504, answer)
        self.assertLess(time.monotonic() - begun, 3)

    def test_a_path_with_other_methods_says_which(self):
        answer = self.stack.http("DELETE", "/v1/sales/x")
        self.assertEqual(answer.status, 405)
        self.assertEqual(set(answer.headers["Allow"].split(", ")), {"GET", "PATCH"})

    def test_allowed_origins_may_call(self):
        origin = {"Origin": "https://shop.example"}
        answer = self.stack.http("GET", "/v1/sales", headers=origin)
        self.assertEqual(answer.headers["Access-Control-Allow-Origin"], origin["Origin"])
        asked = {**origin, "Access-Control-Request-Method": "POST"}
        answer = self.stack.http("OPTIONS", "/v1/sales", headers=asked)
        self.assertEqual(answer.status, 204)
        self.assertIn("Idempotency-Key", answer.headers["Access-Control-Allow-Headers"])
        answer = self.stack.http("GET", "/v1/sales", headers={"Origin": "https://evil.example"})
        self.assertNotIn("Access-Control-Allow-Origin", answer.headers)

    def test_files_have_etags_and_may_be_kept(self):
        page = self.stack.http("GET", "/")
        self.assertEqual(page.status, 200)
        self.assertIn("text/html", page.headers["Content-Type"])
        self.assertEqual(self.stack.http("GET", "/", headers={"If-None-Match": page.headers["ETag"]}).status, 304)
        names = re.findall(r'(?:src|href)="/?([\w.-]+\?v=\w+)"', page.text)
        self.assertTrue(names, page.text)
        for name in names:
            self.assertIn("immutable", self.stack.http("GET", "/" + name).headers["Cache-Control"])
        self.assertEqual(self.stack.http("GET", "/../etc/passwd").status, 404)


class Drain(StackTest):
    def test_a_stopped_gateway_tells_those_who_watch_and_finishes(self):
        self.stack.create_sale("last", total="10")
        client = Events(self.stack, "/v1/sales/last/stock:watch")
        self.wait_until(lambda: '"stock"' in client.text(), "the state")
        self.stack.kill("gateway", signal.SIGTERM)
        self.wait_until(lambda: client.ended, "the stream's end")
        self.assertIn("event: error", client.lines)
        self.assertIn('"code":14', client.text())
        self.assertIn('"event":"stopped"', self.stack.logs(50))


if __name__ == "__main__":
    unittest.main()
