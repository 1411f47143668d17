# SPDX-License-Identifier: Apache-2.0
"""A device that fails for good, on the stand-in CUDA driver, and runs that take long."""
import os
import re
import subprocess
import unittest

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from daemon_fixture import BUILD, ROOT, Daemon, RawClient, read_safetensors

DRIVER = BUILD / "fakecuda/libcuda.so.1"
ARTIFACT = ROOT / "samples/store/digits/1/h100_sxm.aot"
INFER = b"/inference.GRPCInferenceService/ModelInfer"
Code = grpc.StatusCode


def request():
    image = read_safetensors(ROOT / "samples/digits-test.safetensors")["images"][0]
    r = pb.ModelInferRequest(model_name="digits", raw_input_contents=[image.tobytes()])
    r.inputs.add(name="image", datatype="FP32", shape=[1, 8, 8])
    return r


class Case(unittest.TestCase):
    def start(self, environment=None, **settings):
        kept = dict(os.environ)
        os.environ.update(environment or {})
        try:
            daemon = Daemon(**settings)
        finally:
            os.environ.clear()
            os.environ.update(kept)
        self.addCleanup(daemon.close)
        return daemon


@unittest.skipUnless(DRIVER.exists(), "the stand-in CUDA driver is not built")
class Failure(Case):
    def cuda(self, fail, **settings):
        environment = {"FAKECUDA_ARTIFACT": str(ARTIFACT), "FAKECUDA_FAIL": fail, "FAKECUDA_LEAKS": "0"}
        return self.start(environment, device=f"cuda:driver={DRIVER}", queue_depth=1000,
                          max_concurrent_streams=1000, **settings)

    def test_pending_requests_learn_the_cause(self):
        daemon = self.cuda("cuMemcpyDtoHAsync_v2:3:700~", threads=2)
        with grpc.insecure_channel(daemon.target) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            serving = health.Check(health_pb2.HealthCheckRequest(), timeout=20).status
            self.assertEqual(serving, health_pb2.HealthCheckResponse.SERVING)
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            calls = [stub.ModelInfer.future(request(), timeout=60) for _ in range(50)]
            codes, texts = [], set()
            for call in calls:
                codes.append(call.code())
                if call.code() != Code.OK:
                    texts.add(call.details())
        self.assertLessEqual(codes.count(Code.OK), 2)  # three runs got as far as their outputs, or fewer
        self.assertEqual(set(codes) - {Code.OK}, {Code.UNAVAILABLE})
        # What had come is told the cause; what comes after is told by the client's own library.
        self.assertTrue(any("CUDA_ERROR_ILLEGAL_ADDRESS (700)" in t for t in texts), texts)
        self.assertEqual(daemon.process.wait(30), 75)
        log = daemon.text().decode()
        self.assertEqual(log.count("the device has failed, so a new process must begin"), 1, log)
        self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS (700)", log)
        self.assertNotIn("fault:", log)

    def test_one_connection_with_all_that_waits(self):
        daemon = self.cuda("cuMemcpyDtoHAsync_v2:2:719~", threads=1)
        client = RawClient(daemon.socket)
        self.addCleanup(client.close)
        message = request().SerializeToString()
        client.sock.sendall(b"".join(RawClient.request(2 * i + 1, INFER, message) for i in range(30)))
        statuses = client.statuses(30)
        self.assertEqual(sorted(set(statuses.values())), [0, 14])
        self.assertEqual(list(statuses.values()).count(0), 1)
        self.assertEqual(daemon.process.wait(30), 75)

    def test_a_device_that_fails_at_the_start(self):
        daemon = self.cuda("cuModuleGetFunction:2:700", loaded=False)
        self.assertEqual(daemon.process.wait(30), 75)
        log = daemon.text().decode()
        self.assertIn("digits/1: unavailable", log)
        self.assertIn("the device has failed", log)

    def test_other_errors_are_no_end(self):
        daemon = self.cuda("cuMemcpyDtoHAsync_v2:1:1")
        with grpc.insecure_channel(daemon.target) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            with self.assertRaises(grpc.RpcError) as e:
                stub.ModelInfer(request(), timeout=20)
            self.assertEqual(e.exception.code(), Code.INTERNAL)
            stub.ModelInfer(request(), timeout=20)
        self.assertEqual(daemon.stop(), 0)


@unittest.skipUnless(DRIVER.exists(), "the stand-in CUDA driver is not built")
class Graphs(Case):
    def counters(self, runs, fail="", **settings):
        """What the metrics count of so many runs, one after the other, and the log."""
        environment = {"FAKECUDA_ARTIFACT": str(ARTIFACT), "FAKECUDA_FAIL": fail, "FAKECUDA_LEAKS": "0"}
        daemon = self.start(environment, device=f"cuda:driver={DRIVER}", **settings)
        answers = set()
        with grpc.insecure_channel(daemon.target) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            for _ in range(runs):
                answers.add(stub.ModelInfer(request(), timeout=20).raw_output_contents[0])
        self.assertEqual(len(answers), 1)
        page = subprocess.run([BUILD / "thunkctl", "metrics", "--socket", daemon.socket], capture_output=True, text=True,
                              timeout=30, check=True).stdout
        log = daemon.text().decode()
        self.assertEqual(daemon.stop(), 0)
        found = re.findall(r'^thunkd_graph_(\w+)_total{model="digits",version="1"} (\d+)$', page, re.M)
        return {name: int(value) for name, value in found}, log

    def test_replays_are_counted(self):
        counters, log = self.counters(5)
        self.assertEqual(counters, {"replays": 4, "captures": 1, "refused": 0})
        self.assertNotIn("runs as graphs", log)

    def test_refusals_are_told_once(self):
        counters, log = self.counters(5, "cuStreamEndCapture:1:901")
        self.assertEqual(counters, {"replays": 0, "captures": 0, "refused": 1})
        self.assertEqual(log.count("digits/1: not all of it runs as graphs: thunks[0]"), 1, log)
        self.assertIn("901", log)

    def test_off(self):
        counters, log = self.counters(3, cuda="{graphs: off}")
        self.assertEqual(counters, {"replays": 0, "captures": 0, "refused": 0})
        self.assertNotIn("runs as graphs", log)


class SlowRuns(Case):
    MANY = 1000

    def run_many(self, daemon):
        client = RawClient(daemon.socket)
        self.addCleanup(client.close)
        message = request().SerializeToString()
        client.sock.sendall(b"".join(RawClient.request(2 * i + 1, INFER, message) for i in range(self.MANY)))
        self.assertEqual(set(client.statuses(self.MANY).values()), {0})

    def test_slow_runs_are_told(self):
        store = {"path": str(ROOT / "samples/store"), "budget": {"device": "none"}}
        settings = {"store": store, "device": "host:delay=3", "queue_depth": 65536, "max_concurrent_streams": 65536}
        daemon = self.start(slow_run_ms=1, **settings)
        self.run_many(daemon)
        told = r"digits/1: a run has taken 0\.0 s so far: .*main stream at thunks\[\d\] "
        self.assertRegex(daemon.text().decode(), told)
        quiet = self.start(slow_run_ms=0, **settings)
        self.run_many(quiet)
        self.assertNotIn("so far", quiet.text().decode())


if __name__ == "__main__":
    unittest.main()
