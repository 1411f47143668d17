# SPDX-License-Identifier: Apache-2.0
"""thunkctl verify: two devices, thunk by thunk. The stand-in CUDA driver spoils what it is told to, and that very
thunk is named."""
import json
import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("THUNKD_BUILD", ROOT / "build"))
FAKE = BUILD / "fakecuda"
GOLDEN = ROOT / "tests/golden/executables/h100_sxm/v6"


def verify(artifact, *words, **environment):
    env = dict(os.environ, LD_LIBRARY_PATH=str(FAKE), FAKECUDA_ARTIFACT=str(artifact), FAKECUDA_CC="9.0")
    env.update(environment)
    p = subprocess.run(
        [BUILD / "thunkctl", "verify", artifact, *words], capture_output=True, text=True, env=env, timeout=120
    )
    return p.returncode, p.stdout, p.stderr


class VerifyTest(unittest.TestCase):
    def artifact(self, name="control"):
        return GOLDEN / name / "executable.aot"

    def kernels(self, artifact):
        p = subprocess.run([BUILD / "thunkctl", "inspect", "--json", artifact], capture_output=True, text=True, check=True)
        return [t for t in json.loads(p.stdout)["thunks"] if t["kind"].endswith("kernel")]

    def test_equal_streams(self):
        code, out, err = verify(self.artifact(), "--device", "host:delay=7")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("\nequal\n", out)
        self.assertIn("inputs of random numbers, seed 1", out)

    def test_equal_cuda(self):
        equal = 0
        for golden in sorted(GOLDEN.iterdir()):
            with self.subTest(golden.name):
                path = golden / "executable.aot"
                code, out, err = verify(path, "--json", "--seed", "5", "--inputs", golden / "inputs.safetensors")
                if code == 1 and not out and ("device (cuda): thunks[" in err or "is not supported" in err):
                    continue  # holds what this device does not do, or is for several
                self.assertEqual(code, 0, err)
                about = json.loads(out)
                self.assertEqual((about["equal"], about["thunks_differing"], about["random_inputs"]), (True, 0, 0))
                self.assertGreater(about["arrays"], 0)
                equal += 1
        self.assertGreaterEqual(equal, 3)

    def test_planted(self):
        """Each kernel in turn: its instruction, its iteration, one element in the middle."""
        path = self.artifact()
        _, out, _ = verify(path, "--json")
        total = json.loads(out)["thunks"]
        seen = 0
        for kernel in self.kernels(path):
            code, out, err = verify(path, "--json", FAKECUDA_CORRUPT=f"{kernel['annotation']}:1")
            about = json.loads(out)
            if about["equal"]:  # in a branch that is not taken
                continue
            seen += 1
            self.assertEqual((code, err, about["thunks_differing"], about["thunks"]), (1, "", 1, total))
            # instructions that have one code, and so one kernel, are told apart by their order
            self.assertEqual(about["first"]["instruction"].split(".")[0], kernel["annotation"].split(".")[0])
            self.assertEqual(about["first"]["elements_wrong"], 1)
            self.assertNotEqual(about["first"]["got"], about["first"]["want"])
        self.assertGreaterEqual(seen, 2)

    def test_planted_in_a_loop(self):
        path = self.artifact()
        for kernel in self.kernels(path):
            code, out, err = verify(path, FAKECUDA_CORRUPT=f"{kernel['annotation']}:3")
            if code:
                self.assertIn("iteration 2\n", out)
                self.assertIn(f"'{kernel['annotation']}'", out)
                return
        self.fail("no kernel runs three times")

    def test_tolerance(self):
        path = self.artifact()
        code, _, err = verify(path, "--tolerance", "-1")
        self.assertEqual(code, 2)
        self.assertIn("--tolerance", err)
        code, _, _ = verify(path, "--tolerance", "0", "--device", "host")
        self.assertEqual(code, 0)

    def test_usage(self):
        self.assertEqual(verify(self.artifact(), "--seed", "x")[0], 2)
        code, _, err = verify(self.artifact(), "--device", "nothing")
        self.assertEqual(code, 2)
        self.assertIn("nothing", err)
        code, _, err = verify("/no/such/file")
        self.assertEqual(code, 2)
        self.assertIn("/no/such/file", err)

    def test_device_fails(self):
        code, out, err = verify(self.artifact(), FAKECUDA_FAIL="cuLaunchKernel:2:700,cuLaunchKernelEx:2:700", FAKECUDA_LEAKS="0")
        self.assertEqual(code, 1)
        self.assertIn("device: ", err)
        self.assertIn("cuLaunchKernel", err)


if __name__ == "__main__":
    unittest.main()
