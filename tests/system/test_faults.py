# SPDX-License-Identifier: Apache-2.0
"""A serving daemon when calls of the CUDA driver fail: tests/fault/daemon_faults.py, of which this is a sample."""
import pathlib
import socket
import sys
import tempfile
import threading
import unittest

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.grpc import service_pb2_grpc

from daemon_fixture import ROOT, Daemon

sys.path.append(str(ROOT / "tests/fault"))
import daemon_faults  # noqa: E402

Code = grpc.StatusCode
SERVING = health_pb2.HealthCheckResponse.SERVING


@unittest.skipUnless(daemon_faults.DRIVER.exists(), "the stand-in CUDA driver is not built")
class Faults(unittest.TestCase):
    def test_calls_that_fail(self):
        said = []
        right, wrong, names = daemon_faults.sweep(400, 5, 2, said.append)
        self.assertEqual(wrong, 0, "\n".join(said))
        self.assertGreater(right, 40)
        loaded = {"cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncGetAttribute"}
        run = {"cuLaunchKernelEx", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"}
        self.assertTrue(names & loaded and names & run and "cuModuleUnload" in names, names)

    def test_what_is_told_before_the_end(self):
        """The service manager hears of it; and health, asked all the time, never says SERVING once a request has been
        answered with the cause."""
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            path = str(pathlib.Path(folder) / "notify")
            manager.bind(path)
            manager.settimeout(20)
            environment = daemon_faults.environment("cuMemcpyDtoHAsync_v2:3:700~") | {"NOTIFY_SOCKET": path}
            daemon = Daemon(device="cuda", threads=2, environment=environment)
            self.addCleanup(daemon.close)
            told = threading.Event()
            late = []

            def watch():
                with grpc.insecure_channel(daemon.target) as channel:
                    health = health_pb2_grpc.HealthStub(channel)
                    while True:
                        begun_late = told.is_set()
                        try:
                            status = health.Check(health_pb2.HealthCheckRequest(), timeout=5).status
                        except grpc.RpcError:
                            return
                        if begun_late:
                            late.append(status)

            watcher = threading.Thread(target=watch)
            watcher.start()
            answers = []
            with grpc.insecure_channel(daemon.target) as channel:
                stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
                while not told.is_set():
                    try:
                        answers.append(stub.ModelInfer(daemon_faults.request(), timeout=20).raw_output_contents[0])
                    except grpc.RpcError as e:
                        self.assertEqual(e.code(), Code.UNAVAILABLE)
                        self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS (700)", e.details())
                        told.set()
            self.assertEqual((len(answers), len(set(answers))), (2, 1))
            self.assertEqual(daemon.process.wait(20), 75)
            watcher.join(20)
            self.assertFalse(watcher.is_alive())
            self.assertNotIn(SERVING, late)
            notes = []
            while not notes or "STOPPING=1" not in notes[-1]:
                notes.append(manager.recv(4096).decode())
            self.assertIn("READY=1", notes[0])
            self.assertIn("STATUS=the device has failed", notes[-1])
            self.assertNotIn("fakecuda: fault", daemon.text().decode())


if __name__ == "__main__":
    unittest.main()
