"""The sale page in a real browser: a headless Chromium, driven by chromedriver over plain WebDriver."""

import base64
import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

from support.stack import ROOT, StackTest

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage"]


class Browser:
    """One session of WebDriver: what these tests need of it."""

    def __init__(self, width=390, height=844):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder = tempfile.mkdtemp(prefix="stampede-browser-")
        environment = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
        self.driver = subprocess.Popen([shutil.which("chromedriver"), "--port=%d" % self.port],
                                       env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        give_up = time.monotonic() + 20
        while True:
            try:
                if self.ask("GET", "/status")["ready"]:
                    break
            except OSError:
                pass
            if time.monotonic() > give_up:
                raise RuntimeError("chromedriver does not answer")
            time.sleep(0.05)
        arguments = FLAGS + ["--user-data-dir=" + self.folder, "--window-size=%d,%d" % (width, height)]
        options = {"args": arguments}
        if shutil.which("chromium"):
            options["binary"] = shutil.which("chromium")
        self.session = "/session/" + self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"}}}})["sessionId"]

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {"Content-Type": "application/json"})
        value = json.loads(connection.getresponse().read())["value"]
        connection.close()
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError("%s: %s" % (value["error"], value["message"]))
        return value

    def open(self, url):
        self.ask("POST", self.session + "/url", {"url": url})

    def run(self, script):
        return self.ask("POST", self.session + "/execute/sync", {"script": script, "args": []})

    def text(self, element):
        return self.run("return document.getElementById('%s').textContent" % element)

    def click(self, element):
        found = self.ask("POST", self.session + "/element", {"using": "css selector", "value": "#" + element})
        self.ask("POST", self.session + "/element/%s/click" % next(iter(found.values())), {})

    def complaints(self):
        return [entry["message"] for entry in self.ask("POST", self.session + "/se/log", {"type": "browser"})
                if entry["level"] == "SEVERE"]

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("GET", self.session + "/screenshot")))

    def close(self):
        try:
            self.ask("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait()
            shutil.rmtree(self.folder, ignore_errors=True)


@unittest.skipUnless(shutil.which("chromedriver"), "chromedriver is missing")
class Page(StackTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.complaints()  # those of the test before are forgotten

    def visit(self, sale):
        self.browser.open("%s/sales/%s" % (self.stack.url, sale))

    def sees(self, element, words, seconds=10):
        def look():
            return words in self.browser.text(element)
        try:
            self.wait_until(look, "'%s' in #%s" % (words, element), seconds)
        except AssertionError:
            folder = os.path.join(ROOT, "build", "test")
            os.makedirs(folder, exist_ok=True)
            self.browser.picture(os.path.join(folder, self.id() + ".png"))
            raise AssertionError("'%s' is not in #%s: '%s'; console: %s" % (
                words, element, self.browser.text(element), self.browser.complaints())) from None

    def test_lists_the_sales(self):
        self.stack.create_sale("listed", title="Listed in the window")
        self.browser.open(self.stack.url + "/")
        self.sees("sales", "Listed in the window")
        self.assertEqual(self.browser.complaints(), [])

    def test_a_buyer_buys_and_pays_and_sees_it_pushed(self):
        self.stack.create_sale("bought", total="3", unitPrice={"amountMinor": "1999", "currency": "EUR"})
        self.visit("bought")
        self.sees("stock", "3 of 3 left")
        self.sees("price", "19.99")
        self.sees("clock", "On sale now")
        self.browser.click("buy")
        self.sees("result", "waits for payment")
        self.sees("stock", "2 of 3 left")
        self.browser.click("pay")
        self.sees("result", "Paid")
        sale = self.stack.http("GET", "/v1/sales/bought").json["sale"]
        self.wait_until(lambda: self.stack.http("GET", "/v1/sales/bought").json["sale"]["sold"] == "1", sale)
        self.assertEqual(self.browser.complaints(), [])

    def test_an_order_that_is_given_back_returns_to_the_stock(self):
        self.stack.create_sale("returned", total="1", perUserLimit=1)
        self.visit("returned")
        self.sees("stock", "1 of 1 left")
        self.browser.click("buy")
        self.sees("result", "waits for payment")
        self.browser.click("cancel")
        self.sees("result", "has been cancelled")
        self.sees("stock", "1 of 1 left")

    def test_an_unpaid_order_is_cancelled_before_the_buyers_eyes(self):
        self.stack.create_sale("unpaid", total="1", paymentTimeout="2s")
        self.visit("unpaid")
        self.sees("stock", "1 of 1 left")
        self.browser.click("buy")
        self.sees("pay-by", "Pay within")
        self.sees("result", "not paid in time", 15)
        self.sees("stock", "1 of 1 left")

    def test_what_others_buy_is_pushed(self):
        self.stack.create_sale("pushed", total="2")
        self.visit("pushed")
        self.sees("stock", "2 of 2 left")
        for i in range(2):
            self.stack.http("POST", "/v1/sales/pushed/reservations",
                            {"userId": "other%d" % i, "quantity": 1, "requestId": "o%d" % i})
        self.sees("stock", "0 of 2 left")
        self.sees("clock", "Sold out")
        self.assertTrue(self.browser.run("return document.getElementById('buy').disabled"))

    def test_counts_down_and_opens_by_itself(self):
        start = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 4))
        self.stack.create_sale("soon", total="1", startsAt=start)
        self.visit("soon")
        self.sees("clock", "Starts in 00:00:0")
        self.assertTrue(self.browser.run("return document.getElementById('buy').disabled"))
        self.sees("clock", "On sale now")
        self.assertFalse(self.browser.run("return document.getElementById('buy').disabled"))

    def test_an_unknown_sale_says_so(self):
        self.visit("nowhere")
        self.sees("result", "nowhere")

    def test_fits_a_phone(self):
        self.stack.create_sale("phone", title="A rather long title for such a small screen, is it not")
        self.visit("phone")
        self.sees("stock", "100 of 100 left")
        self.assertTrue(self.browser.run(
            "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"))
        self.assertGreaterEqual(self.browser.run(
            "return document.getElementById('buy').getBoundingClientRect().height"), 40)


if __name__ == "__main__":
    unittest.main()
