# SPDX-License-Identifier: Apache-2.0
"""The runner of the goldens finds what is wrong, and golden_add.sh refuses what it should."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from daemon_fixture import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tests/golden"))
import goldens

spec = importlib.util.spec_from_file_location("golden_run", ROOT / "tests/golden/run.py")
runner = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runner)
V1 = ROOT / "tests/golden/executables/h100_sxm/v1"


class Golden(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="thunkd-golden-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def copy(self, case, version="v1"):
        to = self.dir / "h100_sxm" / version / case
        shutil.copytree(V1 / case, to)
        return to

    def run_folder(self):
        env = {k: v for k, v in os.environ.items() if k != "THUNKD_XLA_GOLDENS"}
        command = [sys.executable, ROOT / "tests/golden/run.py", BUILD / "thunkctl", "host", "--no-compile"]
        command += ["--folder", self.dir]
        r = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
        return r.returncode, r.stdout

    def test_right(self):
        self.copy("norm")
        code, said = self.run_folder()
        self.assertIn("golden: 1 right, 0 wrong", said)
        self.assertEqual(code, 0)

    def test_wrong_answer(self):
        outputs = self.copy("norm") / "outputs.safetensors"
        data = bytearray(outputs.read_bytes())
        data[-1] ^= 0x40  # the last float's exponent
        outputs.write_bytes(data)
        code, said = self.run_folder()
        self.assertIn("FAIL v1 (0.10.1) norm: output 0: 1 of 4096 are off", said)
        self.assertIn("golden: 0 right, 1 wrong", said)
        self.assertEqual(code, 1)

    def test_wrong_release(self):
        about = self.copy("norm") / "case.json"
        about.write_text(about.read_text().replace('"0.10.1"', '"0.12.0.1"'))
        code, said = self.run_folder()
        self.assertIn("check takes it for release", said)
        self.assertEqual(code, 1)

    def test_broken_executable(self):
        executable = self.copy("norm") / "executable.aot"
        executable.write_bytes(executable.read_bytes()[:-100])
        code, said = self.run_folder()
        self.assertIn("golden: 0 right, 1 wrong", said)
        self.assertEqual(code, 1)

    def test_nothing_there(self):
        code, said = self.run_folder()
        self.assertIn("no goldens for h100_sxm", said)
        self.assertEqual(code, 1)

    def test_structures(self):
        a = goldens.structure(BUILD / "thunkctl", V1 / "control/executable.aot")
        self.assertGreater(a["kernels"], 0)
        self.assertIn((1, "dynamic_memcpy"), a["thunks"])
        self.assertIsNone(goldens.unlike(a, json.loads(json.dumps(a), object_hook=self.tuples)))
        turned = {**a, "thunks": a["thunks"][::-1]}
        self.assertIn("thunks[0]", goldens.unlike(a, turned))
        self.assertIn("allocations, in the golden", goldens.unlike(a, {**a, "allocations": a["allocations"][:-1]}))
        self.assertIn("kernels, in the golden", goldens.unlike(a, {**a, "kernels": 1}))

    @staticmethod
    def tuples(d):
        return {k: [tuple(x) for x in v] if isinstance(v, list) else v for k, v in d.items()}

    def test_boundary_versions(self):
        found = [(n, pathlib.Path(f"v{n}"), f"1.{n}") for n in range(1, 7)]
        with mock.patch.dict(os.environ):
            os.environ.pop("XLA_AOT_TEST_ALL_VERSIONS", None)
            self.assertEqual([v[0] for v in runner.chosen(found, None)], [1, 5, 6])
            self.assertEqual([v[0] for v in runner.chosen(found[:2], None)], [1, 2])
            self.assertEqual([v[0] for v in runner.chosen(found[:1], None)], [1])
            self.assertEqual([v[0] for v in runner.chosen(found, ["v3"])], [3])
            os.environ["XLA_AOT_TEST_ALL_VERSIONS"] = "1"
            self.assertEqual(runner.chosen(found, None), found)

    def test_versions_in_order(self):
        for v in ("v10", "v9", "v1x"):
            self.copy("norm", v)
        self.assertEqual([v[0] for v in goldens.versions("h100_sxm", self.dir)], [9, 10])


class Add(unittest.TestCase):
    def add(self, *args):
        command = [ROOT / "tools/golden_add.sh", *args]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def test_usage(self):
        self.assertEqual(self.add(BUILD).returncode, 2)
        self.assertEqual(self.add(BUILD, "newest").returncode, 2)
        self.assertEqual(self.add("--help").returncode, 0)

    def test_order(self):
        newest = goldens.versions("h100_sxm")[-1]
        r = self.add(BUILD, newest[2])
        self.assertEqual((r.returncode, r.stderr), (1, f"golden-add: v{newest[0]} is of {newest[2]}\n"))
        r = self.add(BUILD, "0.8.0")
        self.assertIn("numbered by age", r.stderr)
        self.assertEqual(r.returncode, 1)

    def test_no_build(self):
        r = self.add("/nonexistent", "99.0.0")
        self.assertEqual(r.returncode, 1)
        self.assertIn("no thunkctl", r.stderr)


if __name__ == "__main__":
    unittest.main()
