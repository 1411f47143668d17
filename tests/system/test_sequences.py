# SPDX-License-Identifier: Apache-2.0
"""Sequences, whose state stays between requests, and models of several shapes."""
import json
import os
import pathlib
import queue
import shutil
import struct
import tempfile
import threading
import unittest

import grpc
import numpy as np
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from daemon_fixture import ROOT, Daemon, read_safetensors

Code = grpc.StatusCode
MODELS = ROOT / "tests/data"  # make_models.py there says what they compute


class Case(unittest.TestCase):
    daemon_settings = {"threads": 2, "queue_depth": 1000, "max_concurrent_streams": 1000}

    @classmethod
    def setUpClass(cls):
        cls.store = pathlib.Path(tempfile.mkdtemp(prefix="thunkd-store-"))
        cls.models(cls.store)
        cls.daemon = Daemon(store=cls.store, **cls.daemon_settings)
        cls.client = triton.InferenceServerClient(cls.daemon.target)
        cls.channel = grpc.insecure_channel(cls.daemon.target)
        cls.stub = service_pb2_grpc.GRPCInferenceServiceStub(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.channel.close()
        status = cls.daemon.close()
        shutil.rmtree(cls.store)
        assert status == 0, f"thunkd's exit status: {status}"

    def refused(self, pattern, call, *args, code="INVALID_ARGUMENT", **kw):
        with self.assertRaises(triton.InferenceServerException) as e:
            call(*args, **kw)
        self.assertRegex(e.exception.message(), pattern)
        self.assertEqual(e.exception.status(), "StatusCode." + code)


def tensor(name, value):
    t = triton.InferInput(name, list(value.shape), "FP32")
    t.set_data_from_numpy(value)
    return t


class Sequences(Case):
    """count' = count + x, out = 10 * count'"""

    @staticmethod
    def models(store):
        for name, artifact in (("counter", "counter"), ("copied", "counter_plain")):
            folder = store / name / "1"
            folder.mkdir(parents=True)
            shutil.copy(MODELS / f"{artifact}.aot", folder / "model.aot")
            (folder / "model.yaml").write_text(
                "inputs: [x]\noutputs: [out]\nstate: [{input: 0, output: 0}]\nsequence: {max: 4}\n")
        folder = store / "plain/1"
        folder.mkdir(parents=True)
        shutil.copy(MODELS / "counter_plain.aot", folder / "model.aot")
        (folder / "model.yaml").write_text("inputs: [count, x]\noutputs: [next, out]\n")

    def step(self, sequence, x, start=False, end=False, state=None, model="counter"):
        inputs = [tensor("x", np.full(4, x, np.float32))]
        if state is not None:
            inputs.append(tensor("0", np.full(4, state, np.float32)))
        got = self.client.infer(model, inputs, sequence_id=sequence, sequence_start=start, sequence_end=end)
        return float(got.as_numpy("out")[3])

    def test_state_stays(self):
        for model in ("counter", "copied"):
            self.assertEqual(self.step(7, 1, start=True, model=model), 10)
            self.assertEqual(self.step("a", 5, start=True, model=model), 50)
            self.assertEqual(self.step(7, 2, model=model), 30)
            self.assertEqual(self.step("7", 1, model=model), 40)  # the same sequence
            self.assertEqual(self.step("a", 1, end=True, model=model), 60)
            self.refused("'?a'?.*has not been started, or has ended", self.step, "a", 1, model=model)
            self.assertEqual(self.step(7, 9, start=True, end=True, model=model), 90)
            self.refused("has not been started", self.step, 7, 1, model=model)

    def test_initial_state(self):
        self.assertEqual(self.step(1, 1, start=True, state=100), 1010)
        self.refused("'0' is state: it can be given only with sequence_start", self.step, 1, 1, state=5)
        self.assertEqual(self.step(1, 1, end=True), 1020)

    def test_names_of_state(self):
        m = self.client.get_model_metadata("counter")
        self.assertEqual([t.name for t in m.inputs], ["x"])
        self.assertEqual([t.name for t in m.outputs], ["out"])

    def test_what_is_refused(self):
        self.refused("state|sequence", self.step, 0, 1)  # no id
        self.refused("keeps no state", self.client.infer, "plain", [tensor("count", np.zeros(4, np.float32)),
                     tensor("x", np.zeros(4, np.float32))], sequence_id=3, sequence_start=True)
        r = pb.ModelInferRequest(model_name="counter")
        for key, value in (("sequence_id", ("bool_param", True)), ("sequence_start", ("int64_param", 1)),
                           ("sequence_id", ("string_param", "x" * 64)), ("sequence_id", ("string_param", "a\0b"))):
            r.parameters.clear()
            setattr(r.parameters[key], *value)
            with self.assertRaises(grpc.RpcError) as e:
                self.stub.ModelInfer(r, timeout=60)
            self.assertEqual(e.exception.code(), Code.INVALID_ARGUMENT)

    def test_a_bad_request_changes_nothing(self):
        self.assertEqual(self.step(2, 1, start=True), 10)
        bad = [tensor("x", np.zeros(5, np.float32))]
        self.refused(r"\[4\].*\[5\]", self.client.infer, "counter", bad, sequence_id=2)
        self.assertEqual(self.step(2, 1, end=True), 20)
        self.refused(r"\[4\].*\[5\]", self.client.infer, "counter", bad, sequence_id=2, sequence_start=True)
        self.refused("has not been started", self.step, 2, 1)  # it never began

    def test_limit(self):
        for i in range(4):
            self.step(100 + i, 1, start=True)
        self.refused("4 sequences", self.step, 104, 1, start=True, code="RESOURCE_EXHAUSTED")
        for i in range(4):
            self.assertEqual(self.step(100 + i, 1, end=True), 20)

    def test_in_the_order_of_sending(self):
        """Many at once, and each finds the state that the one before left."""
        answers = queue.Queue()
        self.step(5, 0, start=True)
        for k in range(100):
            self.client.async_infer("counter", [tensor("x", np.ones(4, np.float32))], lambda result, error, k=k:
                                    answers.put((k, result, error)), sequence_id=5)
        for _ in range(100):
            k, result, error = answers.get(timeout=60)
            self.assertIsNone(error)
            self.assertEqual(result.as_numpy("out")[0], 10 * (k + 1))
        self.assertEqual(self.step(5, 0, end=True), 1000)

    def test_many_sequences_at_once(self):
        errors = []

        def run(i):
            try:
                total = i
                self.assertEqual(self.step(f"s{i}", i, start=True, model="copied"), 10 * total)
                for k in range(1, 40):
                    total += k
                    self.assertEqual(self.step(f"s{i}", k, end=k == 39, model="copied"), 10 * total)
            except Exception as e:  # pylint: disable=broad-except
                errors.append(e)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(errors, [])


class Shapes(Case):
    """y = 2x + m, s = row sums of x * m"""

    @staticmethod
    def models(store):
        folder = store / "rows/1"
        folder.mkdir(parents=True)
        for b in ("b1t4", "b4t4", "b4t16"):
            shutil.copy(MODELS / f"rows_{b}.aot", folder / f"{b}.aot")
        (folder / "model.yaml").write_text("inputs: [x, m]\noutputs: [y, s]\nbuckets: [b1t4, b4t4, b4t16]\n")

    def test_metadata(self):
        m = self.client.get_model_metadata("rows")
        self.assertEqual([(t.name, list(t.shape)) for t in m.inputs], [("x", [-1, -1]), ("m", [-1, -1])])
        self.assertEqual([(t.name, list(t.shape)) for t in m.outputs], [("y", [-1, -1]), ("s", [-1])])

    def test_shapes(self):
        rng = np.random.default_rng(5)
        for shape in ((1, 4), (1, 1), (2, 4), (4, 4), (3, 5), (4, 16), (1, 16), (2, 3)):
            x, m = rng.standard_normal(shape, np.float32), rng.standard_normal(shape, np.float32)
            got = self.client.infer("rows", [tensor("x", x), tensor("m", m)])
            np.testing.assert_allclose(got.as_numpy("y"), 2 * x + m, 1e-6, 1e-6)
            np.testing.assert_allclose(got.as_numpy("s"), (x * m).sum(1), 1e-5, 1e-5)

    def test_what_does_not_fit(self):
        def ask(a, b):
            inputs = [tensor("x", np.zeros(a, np.float32)), tensor("m", np.zeros(b, np.float32))]
            return self.client.infer("rows", inputs)

        for b, t in ((5, 4), (1, 17)):
            self.refused(rf"expected shape \[-1,-1\], at most \[4,16\], got \[{b},{t}\]", ask, (b, t), (b, t))
        self.refused("x|m", ask, (2, 4), (3, 4))  # they differ
        self.refused(r"\[-1,-1\].*\[4\]", ask, (4,), (4,))
        ask((2, 4), (2, 4))


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, v in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(v.shape), "data_offsets": [at, at + v.nbytes]}
        at += v.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in tensors.values()))


@unittest.skipUnless(os.environ.get("THUNKD_CORPUS"), "THUNKD_CORPUS is not set")
class ReleasedArtifact(Case):
    """decode_step: (token, position, two caches, weights) -> (token, position, the caches)"""

    @classmethod
    def models(cls, store):
        case = pathlib.Path(os.environ["THUNKD_CORPUS"]) / "decode_step"
        cls.values, cls.want = (read_safetensors(case / f"{k}.safetensors") for k in ("inputs", "outputs"))
        for name, yaml in (("kept", "inputs: [token, at]\noutputs: [next, then]\n"
                            "state: [{input: 2, output: 2}, {input: 3, output: 3}]\n"),
                           ("carried", "inputs: [token, at, k, v]\noutputs: [next, then, k2, v2]\n")):
            folder = store / name / "1"
            folder.mkdir(parents=True)
            shutil.copy(case / "0.12.0.1/h100_sxm.aot", folder / "model.aot")
            write_safetensors(folder / "weights.safetensors", {k: cls.values[k] for k in "456"})
            (folder / "model.yaml").write_text(yaml)

    @staticmethod
    def tensors(names, values):
        out = []
        for name, v in zip(names, values, strict=True):
            out.append(triton.InferInput(name, list(v.shape), "INT32" if v.dtype == np.int32 else "FP32"))
            out[-1].set_data_from_numpy(v)
        return out

    def test_a_sequence_is_as_good_as_carrying_the_state(self):
        token, at, k, v = (self.values[x] for x in "0123")
        for i in range(4):
            first = i == 0
            names, values = ("token", "at", "2", "3"), (token, at, k, v)
            n = 4 if first else 2
            kept = self.client.infer("kept", self.tensors(names[:n], values[:n]), sequence_id=1, sequence_start=first,
                                     sequence_end=i == 3)
            carried = self.client.infer("carried", self.tensors(("token", "at", "k", "v"), values))
            for name in ("next", "then"):
                np.testing.assert_array_equal(kept.as_numpy(name), carried.as_numpy(name))
            token, at, k, v = (carried.as_numpy(x) for x in ("next", "then", "k2", "v2"))
            if first:
                for x, name in zip((token, at, k, v), "0123"):
                    np.testing.assert_allclose(x, self.want[name], 1e-5, 1e-5)


if __name__ == "__main__":
    unittest.main()
