# SPDX-License-Identifier: Apache-2.0
"""thunkd as its clients see it: the services, their errors, limits."""
import concurrent.futures
import os
import pathlib
import random
import shutil
import tempfile
import unittest

import grpc
import numpy as np
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from daemon_fixture import ROOT, Daemon, read_safetensors

Code = grpc.StatusCode
INFER = "/inference.GRPCInferenceService/ModelInfer"


def image_request(image, **kw):
    r = pb.ModelInferRequest(model_name="digits", **kw)
    r.inputs.add(name="image", datatype="FP32", shape=image.shape)
    r.raw_input_contents.append(image.tobytes())
    return r


class Case(unittest.TestCase):
    settings = {}

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(**cls.settings)
        cls.channel = grpc.insecure_channel(cls.daemon.target)
        cls.stub = service_pb2_grpc.GRPCInferenceServiceStub(cls.channel)
        test = read_safetensors(ROOT / "samples/digits-test.safetensors")
        cls.images, cls.labels = test["images"].reshape(-1, 1, 8, 8), test["labels"]

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        status = cls.daemon.close()
        assert status == 0, f"thunkd's exit status: {status}"

    def fails(self, code, call, *args, **kw):
        """The details of the failure."""
        with self.assertRaises(grpc.RpcError) as e:
            call(*args, **kw)
        self.assertEqual(e.exception.code(), code, e.exception.details())
        return e.exception.details()

    def raw_infer(self, message):
        return self.channel.unary_unary(INFER)(message, timeout=20)


class Services(Case):
    def test_live_and_ready(self):
        self.assertTrue(self.stub.ServerLive(pb.ServerLiveRequest()).live)
        self.assertTrue(self.stub.ServerReady(pb.ServerReadyRequest()).ready)
        self.assertTrue(self.stub.ModelReady(pb.ModelReadyRequest(name="digits")).ready)
        self.assertTrue(self.stub.ModelReady(pb.ModelReadyRequest(name="digits", version="1")).ready)

    def test_metadata(self):
        self.assertEqual(self.stub.ServerMetadata(pb.ServerMetadataRequest()).name, "thunkd")
        m = self.stub.ModelMetadata(pb.ModelMetadataRequest(name="digits"))
        self.assertEqual((m.name, list(m.versions)), ("digits", ["1"]))
        self.assertEqual([(t.name, t.datatype, list(t.shape)) for t in m.inputs], [("image", "FP32", [1, 8, 8])])
        self.assertEqual([(t.name, t.datatype) for t in m.outputs], [("probabilities", "FP32")])

    def test_health(self):
        health = health_pb2_grpc.HealthStub(self.channel)
        for name in ("", "inference.GRPCInferenceService", "digits"):
            self.assertEqual(health.Check(health_pb2.HealthCheckRequest(service=name)).status, 1)
        self.fails(Code.NOT_FOUND, health.Check, health_pb2.HealthCheckRequest(service="nobody"))

    def test_health_watch(self):
        health = health_pb2_grpc.HealthStub(self.channel)
        self.fails(Code.UNIMPLEMENTED, lambda: next(health.Watch(health_pb2.HealthCheckRequest())))

    def test_unknown_methods(self):
        for path in ("/inference.GRPCInferenceService/Nothing", "/a.B/C", "/" + "x" * 500):
            self.fails(Code.UNIMPLEMENTED, self.channel.unary_unary(path), b"")

    def test_wrong_names(self):
        for call, request in (
            (self.stub.ModelReady, pb.ModelReadyRequest(name="no")),
            (self.stub.ModelMetadata, pb.ModelMetadataRequest(name="digits", version="9")),
            (self.stub.ModelMetadata, pb.ModelMetadataRequest(name="x" * 1000)),
            (self.stub.ModelMetadata, pb.ModelMetadataRequest(name="../digits")),
            (self.stub.ModelInfer, pb.ModelInferRequest(model_name="no")),
            (self.stub.ModelInfer, pb.ModelInferRequest(model_name="digits", model_version="2")),
        ):
            self.fails(Code.NOT_FOUND, call, request)


class Infer(Case):
    settings = {"max_message_bytes": 1 << 20, "threads": 2}

    def probabilities(self, response):
        self.assertEqual(len(response.raw_output_contents), 1)
        return np.frombuffer(response.raw_output_contents[0], np.float32)

    def test_digits(self):
        right = 0
        for i in range(len(self.labels)):
            r = self.stub.ModelInfer(image_request(self.images[i], id=f"n{i}"))
            p = self.probabilities(r)
            self.assertEqual((r.model_name, r.model_version, r.id), ("digits", "1", f"n{i}"))
            self.assertAlmostEqual(float(p.sum()), 1, places=5)
            right += int(p.argmax()) == int(self.labels[i])
        self.assertGreaterEqual(right, 90)

    def test_tritonclient(self):
        with triton.InferenceServerClient(self.daemon.target) as client:
            i = triton.InferInput("image", [1, 8, 8], "FP32")
            i.set_data_from_numpy(self.images[0])
            got = client.infer("digits", [i], outputs=[triton.InferRequestedOutput("probabilities")], request_id="7")
            want = self.probabilities(self.stub.ModelInfer(image_request(self.images[0])))
            self.assertEqual(got.get_response().id, "7")
            np.testing.assert_array_equal(got.as_numpy("probabilities").ravel(), want)

    def test_typed_contents(self):
        r = pb.ModelInferRequest(model_name="digits")
        t = r.inputs.add(name="image", datatype="FP32", shape=[1, 8, 8])
        t.contents.fp32_contents.extend(self.images[3].ravel().tolist())
        want = self.probabilities(self.stub.ModelInfer(image_request(self.images[3])))
        np.testing.assert_array_equal(self.probabilities(self.stub.ModelInfer(r)), want)
        del t.contents.fp32_contents[-1]
        self.assertRegex(self.fails(Code.INVALID_ARGUMENT, self.stub.ModelInfer, r), "64.*63")
        t.contents.Clear()
        t.contents.int_contents.extend([1] * 64)
        self.fails(Code.INVALID_ARGUMENT, self.stub.ModelInfer, r)

    def test_unaligned_input(self):
        """The tensor lies wherever the id's length puts it."""
        want = self.probabilities(self.stub.ModelInfer(image_request(self.images[5])))
        for n in range(17):
            r = self.stub.ModelInfer(image_request(self.images[5], id="i" * n))
            np.testing.assert_array_equal(self.probabilities(r), want)

    def invalid(self, pattern, change):
        r = image_request(self.images[0])
        change(r)
        self.assertRegex(self.fails(Code.INVALID_ARGUMENT, self.stub.ModelInfer, r), pattern)

    def test_invalid_requests(self):
        def shape(*dims):
            def change(r):
                r.inputs[0].shape[:] = dims
            return change

        for dims, said in (((1, 8, 9), r"\[1,8,9\]"), ((8, 8), r"\[8,8\]"), ((-1, 8, 8), r"\[-1,8,8\]"), ((1 << 62, 4, 4), "46116860"),
                           ((), r"\[\]")):
            self.invalid(r"'image'.*\[1,8,8\].*" + said, shape(*dims))
        self.invalid("rank|not a ModelInferRequest", shape(*[1] * 100))
        self.invalid("FP32.*INT32", lambda r: setattr(r.inputs[0], "datatype", "INT32"))
        self.invalid("'picture'", lambda r: setattr(r.inputs[0], "name", "picture"))
        self.invalid("'none'", lambda r: r.outputs.add(name="none"))
        self.invalid("twice", lambda r: (r.inputs.add().CopyFrom(r.inputs[0]), r.raw_input_contents.append(r.raw_input_contents[0])))
        self.invalid("twice", lambda r: (r.outputs.add(name="probabilities"), r.outputs.add(name="probabilities")))
        self.invalid("256 bytes, got 255", lambda r: r.raw_input_contents.__setitem__(0, bytes(255)))
        self.invalid("expected 1 .*got 2", lambda r: r.raw_input_contents.append(b""))
        self.invalid("'image' is missing|expected 0", lambda r: r.ClearField("inputs"))
        self.invalid("contents", lambda r: r.inputs[0].contents.fp32_contents.append(1))

    def test_empty_request_and_rubbish(self):
        self.fails(Code.NOT_FOUND, self.raw_infer, b"")
        for body in (b"\xff", b"\x0a\x7f", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0b\x0c", b"\0" * 9):
            self.fails(Code.INVALID_ARGUMENT, self.raw_infer, body)

    def test_mutated_requests(self):
        """Whatever the bytes, there is a status and the daemon lives."""
        random.seed(11)
        good = image_request(self.images[0], id="x").SerializeToString()
        for _ in range(500):
            body = bytearray(good)
            for _ in range(random.randint(1, 4)):
                body[random.randrange(60)] = random.randrange(256)
            if random.random() < 0.3:
                del body[random.randrange(len(body)) :]
            try:
                self.raw_infer(bytes(body))
            except grpc.RpcError as e:
                self.assertIn(e.code(), (Code.INVALID_ARGUMENT, Code.NOT_FOUND), e.details())

    def test_too_large(self):
        said = self.fails(Code.RESOURCE_EXHAUSTED, self.raw_infer, bytes((1 << 20) + 1))
        self.assertIn(str(1 << 20), said)
        self.assertTrue(self.stub.ServerLive(pb.ServerLiveRequest()).live)

    def test_as_large_as_allowed(self):
        r = image_request(self.images[0])
        r.parameters["p"].string_param = "x" * ((1 << 20) - r.ByteSize() - 20)
        self.assertLessEqual(r.ByteSize(), 1 << 20)
        self.probabilities(self.stub.ModelInfer(r))

    def test_compression_is_refused(self):
        self.fails(Code.UNIMPLEMENTED, self.stub.ModelInfer, image_request(np.zeros((1, 8, 8), np.float32)),
                   compression=grpc.Compression.Gzip)

    def test_64_at_once(self):
        want = [self.probabilities(self.stub.ModelInfer(image_request(x))) for x in self.images[:64]]
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            got = list(pool.map(lambda x: self.stub.ModelInfer(image_request(x)), self.images[:64]))
        for w, g in zip(want, got):
            np.testing.assert_array_equal(self.probabilities(g), w)


class LargeMessages(Case):
    settings = {"max_message_bytes": 64 << 20}

    def test_requests_over_the_window(self):
        """An id of megabytes comes back whole; 24 MiB is more than one window holds."""
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(self.daemon.target, options) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            for n in (100_000, 5_000_000, 24 << 20):
                name = random.randbytes(n // 2).hex()
                r = stub.ModelInfer(image_request(self.images[1], id=name), timeout=60)
                self.assertTrue(r.id == name)
            calls = [stub.ModelInfer.future(image_request(self.images[1], id=name[: i << 20])) for i in range(8)]
            for i, c in enumerate(calls):
                self.assertTrue(c.result(60).id == name[: i << 20])


@unittest.skipUnless(os.environ.get("THUNKD_CORPUS"), "THUNKD_CORPUS is not set")
class ReleasedArtifact(unittest.TestCase):
    def test_mlp(self):
        case = pathlib.Path(os.environ["THUNKD_CORPUS"]) / "mlp"
        with tempfile.TemporaryDirectory() as store:
            version = pathlib.Path(store) / "mlp/1"
            version.mkdir(parents=True)
            shutil.copy(case / "0.12.0.1/h100_sxm.aot", version / "model.aot")
            daemon = Daemon(store=store)
            try:
                self.compare(daemon, case)
            finally:
                self.assertEqual(daemon.close(), 0)

    def compare(self, daemon, case):
        values, want = read_safetensors(case / "inputs.safetensors"), read_safetensors(case / "outputs.safetensors")
        values = [values[k] for k in sorted(values)]
        with triton.InferenceServerClient(daemon.target) as client:
            m = client.get_model_metadata("mlp")
            inputs = []
            for t, v in zip(m.inputs, values, strict=True):
                self.assertEqual(list(t.shape), list(v.shape))
                inputs.append(triton.InferInput(t.name, list(v.shape), t.datatype))
                inputs[-1].set_data_from_numpy(v)
            got = client.infer("mlp", inputs)
            for t, k in zip(m.outputs, sorted(want), strict=True):
                np.testing.assert_allclose(got.as_numpy(t.name), want[k], 1e-5, 1e-5)


if __name__ == "__main__":
    unittest.main()
