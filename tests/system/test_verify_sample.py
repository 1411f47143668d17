# SPDX-License-Identifier: Apache-2.0
"""verify_sample: requests that are checked on the host device in the background."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import zipfile

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from daemon_fixture import BUILD, ROOT, Daemon, read_safetensors

DRIVER = BUILD / "fakecuda/libcuda.so.1"
ARTIFACT = ROOT / "samples/store/digits/1/h100_sxm.aot"
DATA = ROOT / "tests/data"
IMAGES = read_safetensors(ROOT / "samples/digits-test.safetensors")["images"]


def due(share, n):
    """splitmix64"""
    mask = (1 << 64) - 1
    z = (n + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return ((z ^ z >> 31) >> 11) / 2**53 < share


def digits(i=0):
    r = pb.ModelInferRequest(model_name="digits", raw_input_contents=[IMAGES[i].tobytes()])
    r.inputs.add(name="image", datatype="FP32", shape=[1, 8, 8])
    return r


def tensor_request(model, *inputs, **kw):
    r = pb.ModelInferRequest(model_name=model)
    for name, value in inputs:
        t = r.inputs.add(name=name, datatype={"float32": "FP32", "int32": "INT32"}[str(value.dtype)])
        t.shape.extend(value.shape)
        r.raw_input_contents.append(value.tobytes())
    for key, value in kw.items():
        if isinstance(value, bool):
            r.parameters[key].bool_param = value
        else:
            r.parameters[key].int64_param = value
    return r


class Case(unittest.TestCase):
    def start(self, environment=None, **settings):
        self.daemon = Daemon(environment=environment, **settings)
        self.addCleanup(self.daemon.close)
        self.channel = grpc.insecure_channel(self.daemon.target)
        self.addCleanup(self.channel.close)
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)

    def cuda(self, environment=None, **settings):
        environment = {"FAKECUDA_ARTIFACT": str(ARTIFACT), **(environment or {})}
        self.start(environment, device=f"cuda:driver={DRIVER}", **settings)

    def counters(self):
        """{(name, model, reason): number} of verify_sample's."""
        page = self.metrics()
        found = re.findall(r'^thunkd_verify_(\w+)_total\{model="(\w+)",version="\d+"(?:,reason="(\w+)")?\} (\d+)$', page, re.M)
        return {(name, model, reason): int(n) for name, model, reason, n in found}

    def looked_at(self):
        return sum(n for (name, _, _), n in self.counters().items() if name in ("checked", "skipped"))

    def metrics(self):
        c = http.client.HTTPConnection("thunkd")
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.connect(self.daemon.socket)
        c.request("GET", "/metrics")
        page = c.getresponse().read().decode()
        c.close()
        return page

    def until(self, condition, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"{self.counters()}\n{self.daemon.text().decode()}")
            time.sleep(0.02)

    def ask(self, request=None, many=1):
        """Each is through its check before the next comes."""
        for _ in range(many):
            before = self.looked_at()
            self.stub.ModelInfer(request or digits(), timeout=30)
            self.until(lambda: self.looked_at() > before)

    def store(self, models):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="thunkd-store-"))
        self.addCleanup(shutil.rmtree, folder)
        for name, (files, yaml) in models.items():
            (folder / name / "1").mkdir(parents=True)
            for source, target in files.items():
                shutil.copy(DATA / source, folder / name / "1" / target)
            if yaml:
                (folder / name / "model.yaml").write_text(yaml)
        return folder


class Host(Case):
    """The host device against itself."""

    def test_off_by_default(self):
        self.start()
        for _ in range(20):
            self.stub.ModelInfer(digits(), timeout=20)
        self.assertEqual(self.counters(), {})

    def test_all_are_checked(self):
        self.start(verify_sample=1)
        self.ask(many=5)
        self.assertEqual(self.counters(), {("checked", "digits", ""): 5, ("differed", "digits", ""): 0})
        self.assertNotIn("differs", self.daemon.text().decode())
        self.assertEqual(self.daemon.stop(), 0)

    def test_a_share_is_checked(self):
        """The same requests each time: as many of 400 as the hash chooses, about one in ten."""
        expected = sum(due(0.1, n) for n in range(400))
        self.assertTrue(20 <= expected <= 60, expected)
        for _ in range(2):
            self.start(verify_sample=0.1)
            for i in range(400):
                self.stub.ModelInfer(digits(i % len(IMAGES)), timeout=20)
            self.until(lambda: self.looked_at() >= expected)
            c = self.counters()
            self.assertEqual(self.looked_at(), expected)
            self.assertEqual(c[("differed", "digits", "")], 0)
            self.assertEqual(set(reason for name, _, reason in c if name == "skipped") - {"busy"}, set())
            self.assertEqual(self.daemon.stop(), 0)

    def test_models_with_state_are_not(self):
        store = self.store({"counter": ({"counter.aot": "model.aot"}, "inputs: [x]\noutputs: [out]\nstate: [{input: 0, output: 0}]\n")})
        self.start(store=store, verify_sample=1)
        self.ask(tensor_request("counter", ("x", np.ones(4, np.float32)), sequence_id=7, sequence_start=True))
        self.assertEqual(self.counters()[("skipped", "counter", "state")], 1)
        self.assertEqual(self.counters()[("checked", "counter", "")], 0)

    def test_random_numbers_are_not(self):
        """Those from a state that the program keeps; from a state that the request brings they are the same again."""
        store = self.store({})
        with zipfile.ZipFile(ROOT / "tests/conformance/cases/random.zip") as cases:
            for name, case in (("state", "rng_state"), ("uniform", "rng_uniform"), ("bits", "rng-bit-generator_philox")):
                (store / name / "1").mkdir(parents=True)
                (store / name / "1/model.aot").write_bytes(cases.read(case + ".aot"))
                (store / name / "in").write_bytes(cases.read(case + ".in.safetensors"))
        self.start(store=store, verify_sample=1)
        for name in ("state", "uniform", "bits"):
            meta = self.stub.ModelMetadata(pb.ModelMetadataRequest(name=name), timeout=20)
            r = pb.ModelInferRequest(model_name=name)
            raw = (store / name / "in").read_bytes()
            (n,) = struct.unpack_from("<Q", raw)
            header = json.loads(raw[8 : 8 + n])
            for i, t in enumerate(meta.inputs):
                low, high = header[str(i)]["data_offsets"]
                r.inputs.add(name=t.name, datatype=t.datatype, shape=t.shape)
                r.raw_input_contents.append(raw[8 + n + low : 8 + n + high])
            self.ask(r, many=2)
        c = self.counters()
        self.assertEqual([c[("checked", "bits", "")], c[("differed", "bits", "")]], [2, 0])
        for name in ("state", "uniform"):
            self.assertEqual([c[("skipped", name, "random")], c[("checked", name, "")]], [2, 0])
            self.assertEqual(self.daemon.text().decode().count(f"{name}/1: its requests are not checked"), 1)

    def test_no_room(self):
        """Too little of the budget would be left free: skipped, and requests go on."""
        # two MiB are for looking at files, and an eighth must stay free
        budget = {"host": 32 << 20, "requests": 27 << 20}
        self.start(verify_sample=1, store={"path": str(ROOT / "samples/store"), "budget": budget})
        self.ask(many=3)
        self.assertEqual(self.counters()[("skipped", "digits", "memory")], 3)

    def test_the_budget_knows(self):
        self.start(verify_sample=1)
        self.ask()
        kept = re.findall(r'owner="check of digits/1",kind="programs"\} (\d+)', self.metrics())
        self.assertTrue(any(int(k) > 0 for k in kept), kept)

    def test_buckets(self):
        """Each size on its own program, with the answers cut to the request's."""
        files = {f"rows_{b}.aot": f"{b}.aot" for b in ("b1t4", "b4t4", "b4t16")}
        yaml = "inputs: [x, m]\noutputs: [y, s]\nbuckets: [b1t4, b4t4, b4t16]\n"
        self.start(store=self.store({"rows": (files, yaml)}), verify_sample=1)
        rng = np.random.default_rng(5)
        for shape in ((1, 4), (3, 5), (4, 16), (2, 3)):
            x, m = rng.standard_normal(shape, np.float32), rng.standard_normal(shape, np.float32)
            self.ask(tensor_request("rows", ("x", x), ("m", m)))
        self.assertEqual(self.counters(), {("checked", "rows", ""): 4, ("differed", "rows", ""): 0})

    def test_a_new_content(self):
        """The version's files change: the next check is of what serves then."""
        store = self.store({"rows": ({"rows_b1t4.aot": "model.aot"}, "inputs: [x, m]\noutputs: [y, s]\n")})
        self.start(store=store, verify_sample=1)
        for name, shape in (("b1t4", (1, 4)), ("b4t4", (4, 4))):
            shutil.copy(DATA / f"rows_{name}.aot", store / "rows/1/new.partial")
            os.replace(store / "rows/1/new.partial", store / "rows/1/model.aot")
            request = tensor_request("rows", ("x", np.ones(shape, np.float32)), ("m", np.ones(shape, np.float32)))

            def answers():
                try:
                    return self.stub.ModelInfer(request, timeout=20)
                except grpc.RpcError:
                    return None

            self.until(answers)
            before = self.counters().get(("checked", "rows", ""), 0)
            self.until(lambda: answers() and self.counters()[("checked", "rows", "")] > before)
        self.assertEqual(self.counters()[("differed", "rows", "")], 0)

    def test_models_that_come_and_go_under_load(self):
        """Requests never fail for a check's sake, and all of them are accounted for."""
        self.start(verify_sample=1, threads=2)
        until = time.monotonic() + 1.5
        asked = []

        def ask():
            n = 0
            while time.monotonic() < until:
                self.stub.ModelInfer(digits(n % len(IMAGES)), timeout=20)
                n += 1
            asked.append(n)

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            running = [pool.submit(ask) for _ in range(3)]
            while time.monotonic() < until:
                subprocess.run([BUILD / "thunkctl", "reload", "--socket", self.daemon.admin, "digits"], check=True)
            for r in running:
                r.result()
        self.until(lambda: self.looked_at() >= sum(asked))
        c = self.counters()
        self.assertEqual((self.looked_at(), c[("differed", "digits", "")]), (sum(asked), 0))
        self.assertGreater(c[("checked", "digits", "")], 0)
        self.assertEqual(self.daemon.stop(), 0)

    def test_a_stop_with_a_check_under_way(self):
        self.start(verify_sample=1)
        for _ in range(3):
            self.stub.ModelInfer(digits(), timeout=20)
        self.assertEqual(self.daemon.stop(), 0)

    def test_bad_settings(self):
        for value in ("1.5", "-1", "all", "nan", "0x1", "0.5s"):
            with self.subTest(value), self.assertRaisesRegex(RuntimeError, "verify_sample: expected a share"):
                Daemon(verify_sample=value).close()


@unittest.skipUnless(DRIVER.exists(), "the stand-in CUDA driver is not built")
class Cuda(Case):
    def test_equal(self):
        self.cuda(verify_sample=1)
        self.assertRegex(self.daemon.text().decode(), r"device cuda:driver=\S+: .*9\.0")
        self.ask(many=3)
        self.assertEqual(self.counters(), {("checked", "digits", ""): 3, ("differed", "digits", ""): 0})
        self.assertEqual(self.daemon.stop(), 0)

    def test_a_difference(self):
        """The second and third run of the kernel are spoilt: both are counted, one is told."""
        self.cuda({"FAKECUDA_CORRUPT": "triton_softmax.2:2"}, verify_sample=1)
        self.ask(many=4)
        self.assertEqual(self.counters(), {("checked", "digits", ""): 4, ("differed", "digits", ""): 1})
        log = self.daemon.text().decode()
        told = re.findall(r"digits/1: an answer differs from the host's: output 0 \('(\S+)'\) at \[0,\d\] is (\S+), not (\S+);"
                          r".*1 of 10 elements differ", log)
        self.assertEqual(len(told), 1, log)
        self.assertNotEqual(told[0][1], told[0][2])
        self.assertIn(f"`thunkctl verify {ARTIFACT} --device cuda:driver={DRIVER} --inputs "
                      f"{ARTIFACT.parent}/weights.safetensors`", log)
        self.assertEqual(self.daemon.stop(), 0)


if __name__ == "__main__":
    unittest.main()
