# SPDX-License-Identifier: Apache-2.0
"""Models that are loaded, unloaded and swapped while the daemon serves; who may do it; the budget of requests."""
import concurrent.futures
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc
import numpy as np
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from daemon_fixture import DATA, ROOT, RST_STREAM, STATUS, Daemon, RawClient, frame, read_safetensors
from test_admin import get, parse_metrics

Code = grpc.StatusCode
DIGITS = ROOT / "samples/store/digits/1"
(ARTIFACT,) = DIGITS.glob("*.aot")
SERVICE = b"/inference.GRPCInferenceService/"
LARGE = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
IMAGE = read_safetensors(ROOT / "samples/digits-test.safetensors")["images"][0].reshape(1, 8, 8)


def infer_request(model="digits", version="", **kw):
    r = pb.ModelInferRequest(model_name=model, model_version=version, raw_input_contents=[IMAGE.tobytes()], **kw)
    r.inputs.add(name="image", datatype="FP32", shape=[1, 8, 8])
    return r


class Case(unittest.TestCase):
    def setUp(self):
        self.store = pathlib.Path(tempfile.mkdtemp(prefix="thunkd-store-"))
        self.addCleanup(shutil.rmtree, self.store)

    def put(self, model, version="1", yaml=None, artifact=None):
        """A version appears by a rename."""
        folder = self.store / model / version
        partial = folder.with_name(version + ".partial")
        shutil.copytree(DIGITS, partial)
        if artifact is not None:
            (partial / ARTIFACT.name).write_bytes(artifact)
        if yaml is not None:
            (folder.parent / "model.yaml").write_text(yaml)
        partial.rename(folder)

    def start(self, **kw):
        d = Daemon(store=self.store, **kw) if "store" not in kw else Daemon(**kw)
        self.daemon = d
        self.addCleanup(self.end, d)
        self.channel = grpc.insecure_channel(d.target, LARGE)
        self.addCleanup(self.channel.close)
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        return d

    def end(self, daemon):
        status = daemon.close()
        assert status == 0, f"thunkd's exit status: {status}"

    def fails(self, code, call, *args, **kw):
        with self.assertRaises(grpc.RpcError) as e:
            call(*args, timeout=60, **kw)
        self.assertEqual(e.exception.code(), code, e.exception.details())
        return e.exception.details()

    def index(self, **kw):
        models = self.stub.RepositoryIndex(pb.RepositoryIndexRequest(**kw), timeout=60).models
        return {(m.name, m.version): (m.state, m.reason) for m in models}

    def ready(self, model="digits", version=""):
        return self.stub.ModelReady(pb.ModelReadyRequest(name=model, version=version), timeout=60).ready

    def infer(self, *args, **kw):
        return self.stub.ModelInfer(infer_request(*args, **kw), timeout=60)

    def until(self, condition, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def request_bytes(self):
        _, _, text = get(self.daemon.socket, "/metrics")
        values = parse_metrics(text)[1]
        return sum(v for (n, labels), v in values.items()
                   if n == "thunkd_budget_account_bytes" and ("owner", "requests") in labels)


class Repository(Case):
    def setUp(self):
        super().setUp()
        self.put("digits")
        self.start()
        self.client = triton.InferenceServerClient(self.daemon.target)
        self.addCleanup(self.client.close)

    def refused(self, pattern, status, call, *args, **kw):
        with self.assertRaises(triton.InferenceServerException) as e:
            call(*args, **kw)
        self.assertRegex(e.exception.message(), pattern)
        self.assertEqual(e.exception.status(), "StatusCode." + status)

    def test_unload_and_load(self):
        self.assertEqual(self.index(), {("digits", "1"): ("READY", "")})
        self.client.unload_model("digits")
        self.assertFalse(self.ready())
        ((state, reason),) = self.index().values()
        self.assertEqual(state, "UNAVAILABLE")
        self.assertTrue(reason)
        self.assertEqual(self.index(ready=True), {})
        self.assertIn("unavailable", self.fails(Code.UNAVAILABLE, self.stub.ModelInfer, infer_request()))
        self.fails(Code.UNAVAILABLE, self.stub.ModelMetadata, pb.ModelMetadataRequest(name="digits"))
        self.client.load_model("digits")
        self.assertTrue(self.ready())
        self.infer()
        self.assertEqual(len(self.index(ready=True)), 1)

    def test_files_of_a_request(self):
        artifact = ARTIFACT.read_bytes()
        files = {"file:3/" + f.name: f.read_bytes() for f in DIGITS.iterdir()}
        self.client.load_model("extra", config="{}", files=files)
        self.assertEqual(self.infer("extra").model_version, "3")
        self.assertEqual(self.index()["extra", "3"][0], "READY")
        self.refused("extra/4: ", "INVALID_ARGUMENT", self.client.load_model, "extra",
                     files={"file:4/model.aot": artifact[: len(artifact) // 2]})
        self.assertEqual(self.infer("extra").model_version, "3")
        for path in ("4/../../model.aot", "/model.aot", "model.aot", "x/model.aot", "4/"):
            with self.assertRaises(triton.InferenceServerException, msg=path) as e:
                self.client.load_model("extra", files={"file:" + path: artifact})
            self.assertEqual(e.exception.status(), "StatusCode.INVALID_ARGUMENT", path)

    def test_refused_requests(self):
        load = self.client.load_model
        for config in ('{"max_batch_size": 4}', "[]", "{", "max_batch_size: 4", "{}{}"):
            self.refused("model.yaml", "INVALID_ARGUMENT", load, "digits", config=config)
        load("digits", config=" { } ")
        self.refused("no model|there is no model", "NOT_FOUND", load, "nobody")
        self.refused("no model|there is no model", "NOT_FOUND", self.client.unload_model, "nobody")

        def request(**kw):
            r = pb.RepositoryModelLoadRequest(model_name="digits")
            for k, v in kw.items():
                setattr(r.parameters["file:1/a" if k == "file" else k], *v)
            return r

        bare = pb.RepositoryModelLoadRequest
        for r in (bare(), bare(repository_name="r", model_name="digits"), bare(model_name="x" * 300),
                  request(version=("int64_param", 1)), request(config=("bytes_param", b"{}")),
                  request(other=("bool_param", True)), request(file=("string_param", "x"))):
            self.fails(Code.INVALID_ARGUMENT, self.stub.RepositoryModelLoad, r)
        self.fails(Code.NOT_FOUND, self.stub.RepositoryModelLoad, request(version=("string_param", "9")))
        self.stub.RepositoryModelLoad(request(version=("string_param", "1")), timeout=60)
        unload = pb.RepositoryModelUnloadRequest(model_name="digits")
        unload.parameters["file:1/a"].bytes_param = b"x"
        self.fails(Code.INVALID_ARGUMENT, self.stub.RepositoryModelUnload, unload)
        self.assertTrue(self.ready())

    def test_a_version_is_swapped_under_load(self):
        versions, errors, stop = [], [], threading.Event()

        def ask():
            while not stop.is_set():
                try:
                    versions.append(self.infer().model_version)
                except grpc.RpcError as e:
                    errors.append(e)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(ask) for _ in range(4)]
            try:
                self.until(lambda: versions)
                self.put("digits", "2")
                self.until(lambda: "2" in versions)
                self.put("digits", "3", artifact=b"no artifact")
                self.until(lambda: self.index().get(("digits", "3"), ("",))[0] == "UNAVAILABLE")
            finally:
                stop.set()
            [a.result() for a in asking]
        self.assertEqual(errors, [])
        self.assertEqual(versions[-1], "2")

    def test_commands_that_overtake_each_other(self):
        """Every one is answered, and the last one counts."""
        unload = (b"RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="digits"))
        load = (b"RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="digits"))
        for order in ((unload, load), (unload, load, unload), (load, unload, unload, load), (unload, unload)):
            c = RawClient(self.daemon.socket)
            self.addCleanup(c.close)
            c.sock.sendall(b"".join(RawClient.request(2 * i + 1, SERVICE + method, message.SerializeToString())
                                    for i, (method, message) in enumerate(order)))
            self.assertEqual(len(c.statuses(len(order))), len(order))
            self.assertEqual(self.ready(), order[-1] is load)

    def test_hangup(self):
        self.daemon.process.send_signal(signal.SIGHUP)
        self.daemon.wait_for("Hangup")
        self.assertTrue(self.ready())

    def test_a_broken_model(self):
        self.put("broken", artifact=b"no artifact")
        self.until(lambda: self.index().get(("broken", "1"), ("",))[0] == "UNAVAILABLE")
        self.assertTrue(self.index()["broken", "1"][1])
        self.assertFalse(self.ready("broken"))
        self.fails(Code.UNAVAILABLE, self.stub.ModelInfer, infer_request("broken"))
        self.fails(Code.NOT_FOUND, self.stub.ModelInfer, infer_request("broken", "2"))
        self.daemon.wait_for("broken/1: unavailable: ")


OTHER_USER = """
import os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.stdin.buffer.read())
s.settimeout(3)
data = b""
try:
    while more := s.recv(1 << 16):
        data += more
except TimeoutError:
    pass
sys.stdout.buffer.write(data)
"""


@unittest.skipUnless(os.geteuid() == 0, "only root can be somebody else")
class Rights(Case):
    def ask(self, socket, calls):
        """As another user; the statuses."""
        data = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, struct.pack(">HIHI", 1, 0, 4, 1 << 30))
        for i, (method, message) in enumerate(calls):
            data += RawClient.request(2 * i + 1, SERVICE + method, message.SerializeToString())
        p = subprocess.run([sys.executable, "-c", OTHER_USER, socket], input=data, capture_output=True, timeout=60)
        self.assertEqual(p.returncode, 0, p.stderr)
        return [int(m.group(1) or m.group(2)) for m in STATUS.finditer(p.stdout)]

    def test_other_users(self):
        self.put("digits")
        d = self.start(socket_mode="0666", admin_socket_mode="0666")
        os.chmod(d.dir, 0o755)
        change = [(b"RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="digits")),
                  (b"RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="digits"))]
        self.assertEqual(self.ask(d.socket, change), [7, 7])
        self.assertTrue(self.ready())
        look = [(b"RepositoryIndex", pb.RepositoryIndexRequest()), (b"ModelInfer", infer_request())]
        self.assertEqual(self.ask(d.socket, look), [0, 0])
        self.assertEqual(self.ask(d.admin, change), [0, 0])
        self.assertTrue(self.ready())

    def test_without_an_admin_socket(self):
        self.put("digits")
        d = self.start(socket_mode="0666", admin_socket=f"{self.store}/no/such/folder")
        os.chmod(d.dir, 0o755)
        self.assertIn(b"no admin socket: ", d.text())
        change = [(b"RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="digits"))]
        self.assertEqual(self.ask(d.socket, change), [7])
        self.stub.RepositoryModelUnload(change[0][1], timeout=60)


class OnDemand(Case):
    MANY = 40

    def on_demand(self, many=1, **kw):
        for i in range(many):
            self.put(f"m{i}")
        return self.start(store={"path": str(self.store), "load": "on_demand", **kw}, queue_depth=1000)

    def test_the_first_request_loads(self):
        self.on_demand()
        health = health_pb2_grpc.HealthStub(self.channel)
        self.assertFalse(self.ready("m0"))
        self.assertEqual(health.Check(health_pb2.HealthCheckRequest(service="m0")).status, 2)
        self.assertEqual(health.Check(health_pb2.HealthCheckRequest()).status, 1)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            got = list(pool.map(lambda i: self.infer("m0").raw_output_contents[0], range(16)))
        self.assertEqual(len(set(got)), 1)
        self.assertTrue(self.ready("m0"))
        self.assertEqual(health.Check(health_pb2.HealthCheckRequest(service="m0")).status, 1)
        self.assertEqual(self.daemon.text().count(b"m0/1: ready, "), 1)

    def test_metadata_loads(self):
        self.on_demand()
        m = self.stub.ModelMetadata(pb.ModelMetadataRequest(name="m0"), timeout=60)
        self.assertEqual((m.name, list(m.versions), len(m.inputs), len(m.outputs)), ("m0", ["1"], 1, 1))
        self.assertTrue(self.ready("m0"))

    def pipelined(self, last):
        c = RawClient(self.daemon.socket)
        self.addCleanup(c.close)
        messages = [infer_request(f"m{i}").SerializeToString() for i in range(self.MANY - 1)]
        data = b"".join(RawClient.request(2 * i + 1, SERVICE + b"ModelInfer", m) for i, m in enumerate(messages))
        c.sock.sendall(data + last(2 * self.MANY - 1))
        return c

    def late(self, method, request):
        """The last model waits behind all others."""
        d = self.on_demand(self.MANY)
        message = request.SerializeToString()
        c = self.pipelined(lambda s: RawClient.request(s, SERVICE + method, message, timeout=b"1m"))
        s = c.statuses(self.MANY)
        self.assertEqual(s.pop(2 * self.MANY - 1), 4)
        self.assertEqual(set(s.values()), {0})
        self.until(lambda: self.request_bytes() == 0)
        self.assertEqual(d.stop(), 0)

    def test_a_deadline_before_the_load_ends(self):
        self.late(b"ModelInfer", infer_request(f"m{self.MANY - 1}"))

    def test_a_command_with_a_deadline(self):
        self.late(b"RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name=f"m{self.MANY - 1}"))

    def test_clients_that_leave_and_a_stop_while_loading(self):
        d = self.on_demand(self.MANY)
        c = self.pipelined(lambda s: b"")
        c.close()
        c = self.pipelined(lambda s: frame(RST_STREAM, 0, 3, struct.pack(">I", 8)))
        c.agree()
        started = time.monotonic()
        d.process.send_signal(signal.SIGTERM)
        self.assertEqual(set(c.statuses(self.MANY - 2).values()) - {0, 14}, set())
        self.assertEqual(d.stop(), 0)
        self.assertLess(time.monotonic() - started, 30)

    def test_listening_while_loading(self):
        """Requests for a model that is still being loaded at the start wait for it."""
        for i in range(self.MANY):
            self.put(f"m{i}")
        self.start(loaded=False)
        ready = self.stub.ServerReady(pb.ServerReadyRequest(), timeout=60, wait_for_ready=True).ready
        self.assertFalse(ready)
        self.assertTrue(self.stub.ServerLive(pb.ServerLiveRequest(), timeout=60).live)
        self.until(lambda: self.stub.ServerReady(pb.ServerReadyRequest(), timeout=60).ready)
        self.infer(f"m{self.MANY - 1}")
        self.daemon.wait_for(f"{self.MANY} of {self.MANY} models ready")


class Budget(Case):
    def test_requests_within_the_budget(self):
        self.put("digits")
        self.start(store={"path": str(self.store), "budget": {"host": "24MiB"}}, max_message_bytes=64 << 20)
        self.infer(id="x" * (3 << 20))
        said = self.fails(Code.RESOURCE_EXHAUSTED, self.stub.ModelInfer, infer_request(id="x" * (32 << 20)))
        self.assertRegex(said, r"no room for 335\d+ bytes of the request: of the budget of 25165824 bytes \d+ are")
        self.infer(id="x" * (3 << 20))  # on the same connection
        self.until(lambda: self.request_bytes() == 0)

    def test_everything_is_given_back(self):
        self.put("digits")
        d = self.start(store={"path": str(self.store), "budget": {"host": "256MiB"}}, threads=2, queue_depth=16,
                       max_message_bytes=8 << 20)
        m = infer_request(id="y" * 300_000).SerializeToString()
        body = b"\0" + struct.pack(">I", len(m)) + m
        pieces = [frame(DATA, 0, 0, body[i : i + 16000]) for i in range(0, len(body), 16000)]
        for cut in range(0, len(pieces) + 1, 4):
            c = RawClient(d.socket)
            c.agree()
            for stream in (1, 3, 5):
                whole = RawClient.headers(stream, SERVICE + b"ModelInfer", timeout=b"1m" if stream == 5 else None)
                whole += b"".join(p[:5] + struct.pack(">I", stream) + p[9:] for p in pieces[:cut])
                if cut >= len(pieces):
                    whole += frame(DATA, 1, stream)
                if stream == 3:
                    whole += frame(RST_STREAM, 0, stream, struct.pack(">I", 8))
                c.sock.sendall(whole)
            c.close()
        for _ in range(3):
            self.infer(id="z" * (2 << 20))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            calls = list(pool.map(lambda i: self.stub.ModelInfer.future(infer_request(id="w" * 100_000)), range(100)))
        for i, call in enumerate(calls):
            if i % 3 == 0:
                call.cancel()
        for call in calls:
            if not call.cancelled():
                call.exception()
        self.until(lambda: self.request_bytes() == 0)
        self.infer()

    def test_fewer_slots_than_threads(self):
        self.put("digits", yaml="concurrency: 1\n")
        d = self.start(threads=4, queue_depth=1000, max_concurrent_streams=1000)
        c = RawClient(d.socket)
        self.addCleanup(c.close)
        m = infer_request().SerializeToString()
        c.sock.sendall(b"".join(RawClient.request(2 * i + 1, SERVICE + b"ModelInfer", m) for i in range(500)))
        self.assertEqual(set(c.statuses(500).values()), {0})


if __name__ == "__main__":
    unittest.main()
