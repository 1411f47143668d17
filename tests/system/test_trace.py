# SPDX-License-Identifier: Apache-2.0
"""thunkctl trace: JSON as Perfetto and chrome://tracing take it, with a row for each stream that tells the program's
thunks, on the host device and on the stand-in CUDA driver."""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from daemon_fixture import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tests/conformance"))
from hlo_types import write_safetensors

GOLDEN = ROOT / "tests/golden/executables/h100_sxm/v6"
DIGITS = ROOT / "samples/store/digits/1"
SLACK_US = 0.2  # GPUs tell times as floats


class Trace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="thunkd-trace-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 8, 8)
        (cls.dir / "in.st").write_bytes(write_safetensors([image]))

    def command(self, artifact, *options, inputs=None):
        command = [BUILD / "thunkctl", "trace", artifact, *options]
        for f in inputs if inputs is not None else [GOLDEN / artifact.parent.name / "inputs.safetensors"]:
            command += ["--inputs", f]
        env = dict(os.environ, FAKECUDA_ARTIFACT=str(artifact))
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)

    def trace(self, artifact, *options, **more):
        out = self.dir / "trace.json"
        out.unlink(missing_ok=True)
        r = self.command(artifact, "--out", out, *options, **more)
        self.assertEqual((r.returncode, r.stdout), (0, ""), r.stderr)
        return json.loads(out.read_text())

    def check_form(self, trace):
        """What the format asks for; the rows by number, each with its name and events."""
        rows = collections.defaultdict(lambda: {"name": None, "events": []})
        for e in trace["traceEvents"]:
            self.assertIn(e["ph"], "XM")
            self.assertIsInstance(e["pid"], int)
            self.assertIsInstance(e["tid"], int)
            if e["ph"] == "M":
                self.assertIn(e["name"], ("process_name", "thread_name", "thread_sort_index"))
                if e["name"] == "thread_name":
                    rows[e["tid"]]["name"] = e["args"]["name"]
                continue
            self.assertTrue(e["name"] and e["cat"])
            self.assertGreaterEqual(e["ts"], 0)
            self.assertGreaterEqual(e["dur"], 0)
            rows[e["tid"]]["events"].append(e)
        self.assertEqual(trace["otherData"]["events"], sum(len(r["events"]) for r in rows.values()))
        for number, row in rows.items():
            self.assertTrue(row["name"].startswith(f"stream {number}: "))
            stack = []  # on a row, events follow each other or lie in each other
            for e in row["events"]:
                while stack and stack[-1]["args"]["depth"] >= e["args"]["depth"]:
                    self.assertGreaterEqual(e["ts"] + SLACK_US, stack[-1]["ts"] + stack[-1]["dur"])
                    stack.pop()
                if stack:
                    end = stack[-1]["ts"] + stack[-1]["dur"]
                    self.assertLessEqual(e["ts"] + e["dur"], end + SLACK_US)
                stack.append(e)
        return rows

    def test_sample(self):
        weights = DIGITS / "weights.safetensors"
        trace = self.trace(DIGITS / "h100_sxm.aot", "--weights", weights, inputs=[self.dir / "in.st"])
        rows = self.check_form(trace)
        self.assertEqual([r["name"] for r in rows.values()], ["stream 0: main"])
        names = [e["name"] for e in rows[0]["events"]]
        self.assertEqual((names[0], names[-1]), ("inputs", "outputs"))
        self.assertEqual(trace["otherData"]["left_out"], 0)
        self.assertEqual(trace["otherData"]["device"], "host")

    def devices(self):
        yield "host"
        yield "host:delay=2"
        driver = BUILD / "fakecuda/libcuda.so.1"
        if driver.exists():
            yield f"cuda:driver={driver}"

    def test_streams(self):
        for device in self.devices():
            for case in ("streams", "control"):
                if case == "streams" and device.startswith("cuda"):
                    continue  # takes cuBLASLt
                artifact = GOLDEN / case / "executable.aot"
                rows = self.check_form(self.trace(artifact, "--device", device))
                command = [BUILD / "thunkctl", "inspect", "--streams", "--json", artifact]
                if device.startswith("host"):  # the plan of that device; a GPU has no rules of its own
                    command += ["--device", device]
                plan = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
                self.assertEqual(len(rows), len(plan["lanes"]))
                for number, row in rows.items():
                    lane = plan["lanes"][number]
                    name = lane["use"] if lane["stream"] < 0 else f"{lane['use']} {lane['stream']}"
                    self.assertEqual(row["name"], f"stream {number}: {name}")
                    told = {(e["cat"], e["name"]) for e in row["events"]} - {("copy", "inputs"), ("copy", "outputs")}
                    has = {(s["kind"], s["name"]) for s in plan["steps"] if s["lane"] == number}
                    self.assertLessEqual(told, has)
                    if case == "streams":  # no branches: all of it runs
                        self.assertEqual(told, has)

    def test_left_out(self):
        artifact = GOLDEN / "control/executable.aot"
        r = self.command(artifact, "--out", "-", "--events", "5")
        self.assertEqual(r.returncode, 0)
        other = json.loads(r.stdout)["otherData"]
        self.assertEqual(other["events"], 5)
        self.assertGreater(other["left_out"], 0)
        self.assertIn(f"{other['left_out']} thunks are left out", r.stderr)
        whole = self.trace(artifact)["otherData"]
        self.assertEqual(whole["events"], 5 + other["left_out"])

    def test_wrong_use(self):
        artifact = GOLDEN / "mlp/executable.aot"
        self.assertEqual(self.command(artifact).returncode, 2)
        self.assertEqual(self.command(artifact, "--out", "-", "--events", "0").returncode, 2)
        r = self.command(artifact, "--out", "/nonexistent/trace.json")
        self.assertEqual(r.returncode, 2)
        self.assertIn("/nonexistent/trace.json", r.stderr)
        r = self.command(artifact, "--out", "-", inputs=[])
        self.assertEqual((r.returncode, r.stdout), (1, ""))
        self.assertIn("is missing", r.stderr)


if __name__ == "__main__":
    unittest.main()
