# SPDX-License-Identifier: Apache-2.0
"""Verdicts: thunkctl check, contract and run --contract-date; a daemon that plays a day; the corpus."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from daemon_fixture import BUILD, ROOT, Daemon, read_safetensors

MODEL = ROOT / "samples/store/digits/1/h100_sxm.aot"
CORPUS = os.environ.get("THUNKD_CORPUS")
BUILT = {"0.8.0": "2025-10-15", "0.9.2": "2026-03-18", "0.10.1": "2026-05-18", "0.10.2": "2026-06-17",
         "0.11.0": "2026-07-16", "0.11.2": "2026-09-17", "0.12.0.1": "2026-10-20"}
DAY = "2026-11-30"
OUTSIDE = {"0.8.0", "0.9.2", "0.10.1"}  # on DAY


def ctl(*args, **kw):
    p = subprocess.run([BUILD / "thunkctl", *map(str, args)], capture_output=True, text=True, timeout=300, **kw)
    return p.returncode, p.stdout, p.stderr


def check(*args):
    rc, out, err = ctl("check", "--json", *args)
    return rc, json.loads(out)


class Check(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="thunkd-contract-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def test_text(self):
        rc, out, _ = ctl("check", "--contract-date", DAY, MODEL)
        self.assertEqual(rc, 0)
        for part in (": compatible: release 0.12.0.1, built 2026-10-20; inside the window until 2027-04-20",
                     "at least 0.12.0.1: xla.gpu.GpuExecutableProto.gpu_topology at gpu_topology", "141 days left",
                     "compute capability 9.0a", "CUDA toolkit 12.8.0"):
            self.assertIn(part, out)
        rc, out, _ = ctl("check", "--brief", MODEL, MODEL)
        self.assertEqual((rc, out.count("\n")), (0, 2))

    def test_a_day_before(self):
        rc, (v,) = check("--contract-date", "2026-01-20", MODEL)
        self.assertEqual((rc, v["verdict"], v["loads"], v["status"]), (1, "needs-newer-runtime", False, "unsupported"))
        self.assertIn("is unknown on 2026-01-20", v["reason"])
        self.assertIn("xla.gpu.GpuExecutableProto.thunks", [m["construct"] for m in v["too_new"]])
        rc, (v,) = check("--contract-date", "2026-06-17", MODEL)
        self.assertEqual((rc, v["verdict"], v["too_new"]), (0, "compatible", []))
        self.assertIn("xla.gpu.GpuExecutableProto.gpu_topology", [m["construct"] for m in v["ignored"]])

    def test_former_forms(self):
        plain = self.dir / "plain.aot"
        self.assertEqual(ctl("convert", "--form", "plain-plain", MODEL, plain)[0], 0)
        rc, (v,) = check(plain)
        self.assertEqual((rc, v["verdict"]), (0, "compatible-with-fallback"))
        self.assertEqual([(f["name"], f["can_be_removed_in"]) for f in v["fallbacks"]],
                         [("outer-plain", "February 2027"), ("inner-plain", "February 2027")])
        rc, (v,) = check("--contract-date", "2027-03-01", plain)
        self.assertEqual((rc, v["verdict"], v["loads"]), (1, "outside-window", False))
        self.assertTrue(all(f["off"] for f in v["fallbacks"]))

    def test_window(self):
        for day, rc, verdict in (("2027-04-20", 0, "compatible"), ("2027-04-21", 0, "outside-window")):
            got, (v,) = check("--contract-date", day, MODEL)
            self.assertEqual((got, v["verdict"]), (rc, verdict))
        want = {"day": "2027-04-21", "leaves": "2027-04-20", "inside": False, "days_left": -1, "age_days": 183}
        self.assertEqual(v["window"], want)
        self.assertEqual(check("--strict", "--contract-date", "2027-04-21", MODEL)[0], 1)
        self.assertEqual(check("--contract-date", "2027-03-01", "--expiring-within", "30d", MODEL)[1], [])
        self.assertEqual(len(check("--contract-date", "2027-04-01", "--expiring-within", "30d", MODEL)[1]), 1)

    def test_environment(self):
        for env, verdict in (("cc=9.0a,toolkit=13.0.0,cudnn=9.12.0,cub=3.2.0,devices=8", "compatible"),
                             ("cc=10.0a", "wrong-target"), ("cc=9.0", "wrong-target"),
                             ("toolkit=12.0.0", "environment-too-old")):
            rc, (v,) = check("--environment", env, MODEL)
            self.assertEqual((rc, v["verdict"]), (int(verdict != "compatible"), verdict), v["reason"])

    def test_usage(self):
        (self.dir / "text").write_text("no schema")
        for args in ((), ("--contract-date", "2026-13-01", MODEL), ("--expiring-within", "soon", MODEL),
                     ("--environment", "cc=9", MODEL), ("--environment", "cpu=1", MODEL),
                     ("--schema", self.dir / "none", MODEL), ("--all", self.dir / "none"), (self.dir / "none.aot",)):
            self.assertEqual(ctl("check", *args)[0], 2, args)
        self.assertEqual(ctl("check", "--schema", self.dir / "text", MODEL)[0], 1)

    def test_store(self):
        for name in ("b", "a"):
            (self.dir / name / "1").mkdir(parents=True)
            shutil.copy(MODEL, self.dir / name / "1" / "model.aot")
        (self.dir / "a/1/source.stablehlo").write_text("")
        (self.dir / "b/1/damaged.aot").write_bytes(MODEL.read_bytes()[:5000])
        rc, out = check("--all", self.dir)
        self.assertEqual(rc, 1)
        self.assertEqual([v["verdict"] for v in out], ["compatible", "damaged", "compatible"])
        self.assertEqual(out[0]["source"], f"{self.dir}/a/1/source.stablehlo")

    def test_contract(self):
        rc, out, _ = ctl("contract", "--json")
        c = json.loads(out)
        self.assertEqual(rc, 0)
        built = {r["release"]: r["built"] for r in c["releases"]}
        self.assertEqual(built | BUILT, built)
        self.assertTrue(all(f["in_ledger"] for f in c["fallbacks"]))
        self.assertIn("can be removed in", ctl("contract")[1])

    def test_run(self):
        test = ROOT / "samples/digits-test.safetensors"
        rc, _, err = ctl("run", "--contract-date", "2026-01-20", "--inputs", test, MODEL)
        self.assertEqual(rc, 1)
        self.assertIn("needs-newer-runtime: ", err)
        self.assertIn("is unknown on 2026-01-20", err)


class PlayedDay(unittest.TestCase):
    def index(self, **settings):
        d = Daemon(**settings)
        try:
            with grpc.insecure_channel(d.target) as channel:
                stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
                models = stub.RepositoryIndex(pb.RepositoryIndexRequest(), timeout=20).models
        finally:
            d.close()
        return {m.name: (m.state, m.reason) for m in models}["digits"]

    def test_states(self):
        state, reason = self.index()
        self.assertEqual((state, reason), ("READY", ""))
        state, reason = self.index(contract_date="2026-01-20")
        self.assertEqual(state, "UNAVAILABLE")
        self.assertIn("needs-newer-runtime: ", reason)
        state, reason = self.index(contract_date="2028-01-01")
        self.assertEqual(state, "READY")
        self.assertIn("outside-window: written by release 0.12.0.1", reason)
        state, reason = self.index(contract_date="2028-01-01", enforce="strict")
        self.assertEqual(state, "UNAVAILABLE")


@unittest.skipUnless(CORPUS, "THUNKD_CORPUS is not set")
class Corpus(unittest.TestCase):
    RUN = ("saxpy", "gemm_f32", "mlp", "layer_norm")

    @classmethod
    def setUpClass(cls):
        cls.files = sorted(pathlib.Path(CORPUS).glob("*/*/*.aot"))

    def test_releases_and_windows(self):
        _, out = check("--contract-date", DAY, *self.files)
        self.assertEqual(len(out), len(self.files))
        for v in out:
            release = pathlib.Path(v["path"]).parts[-2]
            with self.subTest(v["path"]):
                self.assertEqual(v["release"]["at_least"], release)
                self.assertEqual(v["window"]["inside"], release not in OUTSIDE)
                self.assertNotIn(v["verdict"], ("damaged", "needs-newer-runtime", "unreadable"), v["reason"])
                if v["loads"]:
                    self.assertEqual(v["verdict"] == "outside-window", release in OUTSIDE)
                self.assertEqual(v["unknown"], [])

    def test_days(self):
        """No artifact needs what came after its release; what is refused names a construct that came after the day."""
        for day_release, day in BUILT.items():
            _, out = check("--contract-date", day, *self.files)
            refused = [v for v in out if v["verdict"] == "needs-newer-runtime"]
            for v in refused:
                with self.subTest(day=day, path=v["path"]):
                    self.assertGreater(BUILT[pathlib.Path(v["path"]).parts[-2]], day)
                    self.assertIn(f"is unknown on {day}", v["reason"])
                    self.assertIn("first released in", v["reason"])
            if day_release == "0.12.0.1":
                self.assertEqual(refused, [])
            if day_release in ("0.8.0", "0.10.1"):
                self.assertTrue(refused)

    def test_accepted_runs(self):
        for model in self.RUN:
            folder = pathlib.Path(CORPUS) / model
            case = json.loads((folder / "case.json").read_text())
            want = read_safetensors(folder / "outputs.safetensors")
            for day in ("2026-05-18", "2026-07-16", "2026-10-20"):
                with self.subTest(model=model, day=day), tempfile.TemporaryDirectory() as d:
                    rc, _, err = ctl("run", "--contract-date", day, "--inputs", folder / "inputs.safetensors",
                                     "--outputs", f"{d}/out", folder / "0.12.0.1/h100_sxm.aot")
                    self.assertEqual(rc, 0, err)
                    got = read_safetensors(f"{d}/out")
                    for k, w in want.items():
                        self.assertTrue((np.abs(got[k] - w) <= case["tolerance"] * (1 + np.abs(w))).all())

    def test_cost(self):
        """20 ms beside reading, 16 MiB and twice the size; here with room for a busy machine."""
        start = time.monotonic()
        check(*self.files)
        each = (time.monotonic() - start) / len(self.files)
        largest = max(self.files, key=lambda f: f.stat().st_size)
        measure = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:]); "
                   "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        command = [sys.executable, "-c", measure, BUILD / "thunkctl", "check", "-b", largest]
        peak = int(subprocess.run(command, capture_output=True, text=True).stdout.split()[-1])
        size = largest.stat().st_size >> 10
        print(f"check: {each * 1e3:.1f} ms each of {len(self.files)}; {peak} KiB for an artifact of {size} KiB")
        self.assertLess(each, 0.1)
        self.assertLess(peak, (16 << 10) + 2 * size + (16 << 10))


if __name__ == "__main__":
    unittest.main()
