# SPDX-License-Identifier: Apache-2.0
"""thunkctl run: times, profile and threads."""

import json
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

DIGITS = ROOT / "samples/store/digits/1"


class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="thunkd-run-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 8, 8)
        (cls.dir / "in.st").write_bytes(write_safetensors([image]))

    def run_digits(self, *options):
        command = [BUILD / "thunkctl", "run", DIGITS / "h100_sxm.aot", "--inputs", self.dir / "in.st"]
        command += ["--weights", DIGITS / "weights.safetensors", *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def test_json_has_every_run(self):
        r = self.run_digits("--repeat", "5", "--json")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        told = json.loads(r.stdout)
        self.assertEqual(told["runs"], 5)
        self.assertEqual(len(told["times_ms"]), 5)
        self.assertEqual(len(told["cpu_ms"]), 5)
        self.assertEqual(told["min_ms"], min(told["times_ms"]))
        self.assertEqual(told["median_ms"], sorted(told["times_ms"])[2])
        self.assertGreater(told["min_ms"], 0)
        self.assertNotIn("profile", told)

    def test_profile_leaves_the_first_of_several_runs_out(self):
        r = self.run_digits("--repeat", "5", "--json", "--profile")
        rows = json.loads(r.stdout)["profile"]
        self.assertGreater(len(rows), 1)
        self.assertEqual({row["calls"] for row in rows}, {4})
        self.assertEqual(rows, sorted(rows, key=lambda row: -row["total_ms"]))
        self.assertAlmostEqual(sum(row["share"] for row in rows), 1, places=3)
        self.assertTrue(all(row["kind"] and row["instruction"] for row in rows))
        once = json.loads(self.run_digits("--json", "--profile").stdout)["profile"]
        self.assertEqual({row["calls"] for row in once}, {1})

    def test_text(self):
        self.assertEqual(self.run_digits().stdout, "")
        lines = self.run_digits("--repeat", "3", "--profile").stdout.splitlines()
        self.assertRegex(lines[0], r"^3 runs: min [0-9.]+ ms, median [0-9.]+ ms$")
        self.assertRegex(lines[1], r"^thunk +instruction +calls +total ms +share$")
        self.assertRegex(lines[2], r"^\w+ +\S+ +2 +[0-9.]+ +[0-9.]+%$")
        self.assertRegex(lines[-1], r"^all thunks: [0-9.]+ ms$")

    def test_threads(self):
        answers = set()
        for options in (["--threads", "1"], ["--threads", "3"], ["--device", "host:threads=3"],
                        ["--threads", "2", "--device", "host:delay=7"]):
            r = self.run_digits("--outputs", self.dir / "out.st", *options)
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            answers.add((self.dir / "out.st").read_bytes())
        self.assertEqual(len(answers), 1)  # the sample is too small for parts
        r = self.run_digits("--threads", "65")
        self.assertEqual(r.returncode, 2)
        self.assertIn("threads=N (1 to 64)", r.stderr)
        self.assertIn("0 is not a number", self.run_digits("--threads", "0").stderr)


if __name__ == "__main__":
    unittest.main()
