"""./stampede as a user types it: what it refuses, and what it says."""

import subprocess
import unittest

from support.stack import COMMAND, ROOT, SERVICES, Stack, StackTest


class Command(StackTest):
    def test_status_shows_every_process_ready(self):
        self.stack.create_sale("shown", total="7")
        done = self.stack.command("status")
        self.assertEqual(done.returncode, 0, done.stdout)
        for name in ("redis", *SERVICES):
            row = next(line for line in done.stdout.splitlines() if line.startswith(name))
            self.assertIn(" yes ", row)
        self.assertIn("sale shown: open, total 7 available 7 reserved 0 sold 0", done.stdout)

    def test_a_second_up_is_refused(self):
        done = self.stack.command("up", "--free")
        self.assertEqual(done.returncode, 1)
        self.assertIn("up already", done.stderr)

    def test_a_port_in_use_is_named_with_its_holder(self):
        other = dict(self.stack.env, STAMPEDE_HOME=self.stack.home + "-other")
        done = subprocess.run([COMMAND, "up", "--base", str(self.stack.port["gateway"]), "--http-port",
                               str(self.stack.port["http"])], env=other, text=True, capture_output=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("port %d (lock): held by pid %d" % (self.stack.port["lock"], self.stack.pid("lock")),
                      done.stderr)

    def test_logs_are_json_lines(self):
        done = self.stack.command("logs", "inventory", timeout=10)
        self.assertTrue(done.stdout.splitlines()[-1].startswith("{"), done.stdout)
        self.assertEqual(self.stack.command("logs", "nobody").returncode, 2)

    def test_wrong_usage_says_what_is_right(self):
        for words in (["fly"], ["up", "--base", "x"], ["up", "--sideways"], ["status", "x"], ["setup", "--x"],
                      ["restart"], ["restart", "nobody"], ["demo", "--units", "many"]):
            with self.subTest(words=words):
                done = self.stack.command(*words)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("./stampede help", done.stderr)
        for name in ("setup", "demo", "up", "down", "restart", "status", "logs", "test", "load"):
            self.assertEqual(self.stack.command("help", name).returncode, 0, name)

    def test_metrics_and_settings_are_served(self):
        for name in SERVICES:
            with self.subTest(service=name):
                self.assertIn("stampede_", self.stack.admin(name, "/metrics").text)
                self.assertIsNotNone(self.stack.admin(name, "/debug/config").json)


class Down(unittest.TestCase):
    def test_down_also_when_some_have_died(self):
        stack = Stack()
        stack.create_sale("kept", total="3")
        stack.kill("order")
        stack.kill("redis")
        self.assertEqual(stack.command("status").returncode, 1)
        done = stack.command("down")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(stack.command("up", "--free").returncode, 0)
        stack.read_ports()
        self.assertEqual(stack.http("GET", "/v1/sales/kept").json["sale"]["total"], "3")
        self.assertEqual(stack.down().returncode, 0)

    def test_the_tree_names_no_registry(self):
        done = subprocess.run(["git", "grep", "-nIE", r"pypi\.(org|python)|registry\.npmjs|deb\.debian|repo1?\.maven"],
                              cwd=ROOT, text=True, capture_output=True, check=False)
        lines = [line for line in done.stdout.splitlines() if "test_command.py" not in line]
        self.assertEqual(lines, [])


if __name__ == "__main__":
    unittest.main()
