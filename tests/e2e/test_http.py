"""The gateway's HTTP/JSON as a buyer's program meets it: a purchase, and every kind of bad input."""

import threading
import time
import unittest

from support.stack import StackTest


class Http(StackTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stack.create_sale("http", total="50", perUserLimit=2)

    def reserve(self, sale="http", headers=None, **body):
        return self.stack.http("POST", "/v1/sales/%s/reservations" % sale,
                               {"userId": "ann", "quantity": 1, "requestId": "r1", **body}, headers)

    def refused(self, answer, status, code, field=None):
        """The error is google.rpc.Status as JSON: code, message, and the field when one is at fault."""
        self.assertEqual(answer.status, status, answer)
        self.assertIsNotNone(answer.json, answer)
        self.assertEqual(answer.json.get("code"), code, answer)
        self.assertTrue(answer.json.get("message"), answer)
        if field:
            self.assertIn(field, answer.text, answer)

    # good input

    def test_a_purchase_from_reservation_to_payment(self):
        answer = self.reserve(userId="bob", requestId="b1")
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(answer.json["outcome"], "OUTCOME_RESERVED")
        order = answer.json["orderId"]
        self.wait_until(lambda: self.stack.http("GET", "/v1/orders/" + order).status == 200, "the order")
        paid = self.stack.http("POST", "/v1/orders/%s:pay" % order, {"paymentReference": "card"})
        self.assertEqual(paid.json["order"]["status"], "ORDER_STATUS_PAID", paid)
        self.assertTrue(paid.json["changed"])
        again = self.stack.http("POST", "/v1/orders/%s:pay" % order, {"paymentReference": "card"})
        self.assertEqual(again.status, 200)
        self.assertFalse(again.json.get("changed"))
        cancel = self.stack.http("POST", "/v1/orders/%s:cancel" % order, {})
        self.refused(cancel, 400, 9)

    def test_a_repeat_gets_the_first_answer(self):
        first = self.reserve(userId="cyd", requestId="c1")
        again = self.reserve(userId="cyd", requestId="c1")
        self.assertEqual(first.json["orderId"], again.json["orderId"])
        self.assertTrue(again.json.get("repeatedAnswer"), again)

    def test_the_idempotency_key_is_the_request_id(self):
        path, body = "/v1/sales/http/reservations", {"userId": "ida", "quantity": 1}
        first = self.stack.http("POST", path, body, {"Idempotency-Key": "key-1"})
        again = self.stack.http("POST", path, body, {"Idempotency-Key": "key-1"})
        self.assertEqual(first.status, 200, first)
        self.assertEqual(first.json["orderId"], again.json["orderId"])

    def test_beyond_the_limit_is_an_answer(self):
        self.reserve(userId="dan", requestId="d1", quantity=2)
        self.assertEqual(self.reserve(userId="dan", requestId="d2").json["outcome"], "OUTCOME_LIMIT_REACHED")

    def test_sold_out_is_an_answer_and_stock_that_returns_is_sold_again(self):
        self.stack.create_sale("tiny", total="1")
        first = self.reserve("tiny", requestId="t1")
        self.assertEqual(first.json["outcome"], "OUTCOME_RESERVED", first)
        for i in range(5):
            answer = self.reserve("tiny", userId="eve%d" % i, requestId="e%d" % i)
            self.assertEqual(answer.json["outcome"], "OUTCOME_SOLD_OUT", answer)
        order = first.json["orderId"]
        self.wait_until(lambda: self.stack.http("POST", "/v1/orders/%s:cancel" % order, {}).status == 200,
                        "the cancellation")
        self.wait_until(lambda: self.reserve("tiny", userId="eve9", requestId="e9").json["outcome"] ==
                        "OUTCOME_RESERVED", "the returned unit's sale")

    def test_both_spellings_of_a_field_and_numbers_as_strings(self):
        answer = self.stack.http("POST", "/v1/sales/http/reservations",
                                 '{"user_id":"fay","quantity":"1","request_id":"f1"}')
        self.assertEqual(answer.status, 200, answer)

    def test_a_stock_stream_by_sse(self):
        import http.client
        connection = http.client.HTTPConnection("127.0.0.1", self.stack.port["http"], timeout=10)
        connection.request("GET", "/v1/sales/http/stock:watch", headers={"Accept": "text/event-stream"})
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        self.assertIn("text/event-stream", answer.getheader("Content-Type"))
        line = b""
        while not line.startswith(b"data:"):
            line = answer.fp.readline()
        self.assertIn(b'"stock"', line)
        timer = threading.Timer(0.2, lambda: self.reserve(userId="gus", requestId="g1"))
        timer.start()
        seen = b""
        while b'"stock"' not in seen:
            seen = answer.fp.readline()
        timer.join()
        connection.close()

    # bad input

    def test_unknown_sale(self):
        self.refused(self.reserve("nowhere"), 404, 5)
        self.refused(self.stack.http("GET", "/v1/sales/nowhere"), 404, 5)

    def test_unknown_order(self):
        self.refused(self.stack.http("GET", "/v1/orders/123456789"), 404, 5)

    def test_closed_and_paused_and_unopened_sale(self):
        self.stack.create_sale("draft", open=False)
        self.assertEqual(self.reserve("draft").json["outcome"], "OUTCOME_NOT_OPEN")
        self.stack.http("POST", "/v1/sales/draft:open", {})
        self.stack.http("POST", "/v1/sales/draft:pause", {})
        self.assertEqual(self.reserve("draft").json["outcome"], "OUTCOME_PAUSED")
        self.stack.http("POST", "/v1/sales/draft:close", {})
        self.assertEqual(self.reserve("draft").json["outcome"], "OUTCOME_ENDED")

    def test_quantities(self):
        for quantity in (0, -1, 1001, 2147483647):
            self.refused(self.reserve(quantity=quantity), 400, 3, "quantity")
        for quantity in (2147483648, 1.5, "many", True, [1]):
            self.refused(self.reserve(quantity=quantity), 400, 3, "quantity")

    def test_ids(self):
        for field in ("userId", "requestId"):
            snake = "user_id" if field == "userId" else "request_id"
            for value in ("x" * 65, "a\u0000b", "a\nb"):
                self.refused(self.reserve(**{field: value}), 400, 3, snake)
            self.refused(self.reserve(**{field: 17}), 400, 3)
        self.refused(self.reserve(userId=""), 400, 3, "user_id")
        self.refused(self.reserve("x" * 65), 400, 3, "sale_id")

    def test_invalid_utf8(self):
        body = b'{"userId":"\xff\xfe","quantity":1,"requestId":"u1"}'
        self.refused(self.stack.http("POST", "/v1/sales/http/reservations", body), 400, 3)

    def test_invalid_utf8_in_the_path(self):
        self.refused(self.stack.http("GET", "/v1/sales/%ff%fe"), 400, 3)

    def test_malformed_json(self):
        for body in ("{", "[]", "null", "1", '{"userId":}', '{"userId":"a"', '{"a":1}}', "\x00", "{'userId':'a'}"):
            self.refused(self.stack.http("POST", "/v1/sales/http/reservations", body), 400, 3)
        self.refused(self.stack.http("POST", "/v1/sales/http/reservations", '{"userId":' + "[" * 5000), 400, 3)

    def test_unknown_field(self):
        self.refused(self.reserve(colour="red"), 400, 3, "colour")

    def test_wrong_types(self):
        self.refused(self.stack.http("POST", "/v1/sales", {"saleId": "w", "total": {"n": 1}}), 400, 3, "total")
        self.refused(self.stack.http("POST", "/v1/sales", {"saleId": "w", "total": "1", "startsAt": "noon"}), 400, 3,
                     "starts")
        self.refused(self.stack.http("POST", "/v1/sales", {"saleId": "w", "total": "1", "paymentTimeout": 5}), 400, 3,
                     "payment")

    def test_bad_sales(self):
        for fields, field in (({"total": "-1"}, "total"), ({"total": "1000000001"}, "total"),
                              ({"title": "x" * 201}, "title"), ({"perUserLimit": -1}, "per_user_limit"),
                              ({"paymentTimeout": "0.5s"}, "payment_timeout"),
                              ({"unitPrice": {"amountMinor": "1", "currency": "euro"}}, "currency"),
                              ({"startsAt": "2030-01-02T00:00:00Z", "endsAt": "2030-01-01T00:00:00Z"}, "ends_at"),
                              ({"minReplicas": 2}, "min_replicas")):
            body = {"saleId": "bad", "total": "1", **fields}
            self.refused(self.stack.http("POST", "/v1/sales", body), 400, 3, field)

    def test_a_stale_etag(self):
        self.stack.create_sale("etag")
        answer = self.stack.http("PATCH", "/v1/sales/etag", {"title": "new", "etag": "stale"})
        self.refused(answer, 409, 10)

    def test_an_existing_sale_with_other_content(self):
        self.stack.create_sale("twice", total="5")
        self.stack.create_sale("twice", total="5")
        answer = self.stack.http("POST", "/v1/sales", {"saleId": "twice", "total": "6"})
        self.refused(answer, 409, 6)

    def test_oversized_body(self):
        answer = self.reserve(userId="x" * 200000)
        self.assertIn(answer.status, (400, 413), answer)
        self.assertTrue(answer.text, "an error without words")

    def test_unknown_path_and_method(self):
        self.assertEqual(self.stack.http("GET", "/v1/nothing").status, 404)
        self.assertIn(self.stack.http("DELETE", "/v1/sales/http").status, (404, 405))
        self.assertIn(self.stack.http("GET", "/v1/sales/http/reservations").status, (404, 405))

    def test_a_deadline_that_has_passed(self):
        answer = self.reserve(userId="late", requestId="late1", headers={"Grpc-Timeout": "1n"})
        self.refused(answer, 504, 4)

    def test_a_rate_beyond_the_limit_is_refused_with_a_hint(self):
        statuses = set()
        for i in range(200):
            answer = self.reserve("nowhere", userId="fast", requestId="q%d" % i)
            statuses.add(answer.status)
            if answer.status == 429:
                self.assertIn("Retry-After", answer.headers)
                break
        self.assertIn(429, statuses)

    def test_everything_still_lives(self):
        for name in ("inventory", "order", "lock", "scheduler", "gateway"):
            self.assertEqual(self.stack.admin(name, "/readyz").status, 200)


if __name__ == "__main__":
    unittest.main()
