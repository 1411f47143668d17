# SPDX-License-Identifier: Apache-2.0
"""thunkd's life: start, stop, queues, deadlines, clients that leave, bytes that are no HTTP/2."""
import os
import pathlib
import random
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import time
import unittest

import grpc
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from daemon_fixture import BUILD, DATA, GOAWAY, ROOT, RST_STREAM, Daemon, RawClient, frame, read_safetensors

INFER = b"/inference.GRPCInferenceService/ModelInfer"
LIVE = b"/inference.GRPCInferenceService/ServerLive"
OK, INVALID, DEADLINE, EXHAUSTED, UNIMPLEMENTED = 0, 3, 4, 8, 12


def message():
    image = read_safetensors(ROOT / "samples/digits-test.safetensors")["images"][0]
    r = pb.ModelInferRequest(model_name="digits", raw_input_contents=[image.tobytes()])
    r.inputs.add(name="image", datatype="FP32", shape=[1, 8, 8])
    return r.SerializeToString()


class WithDaemon(unittest.TestCase):
    def start(self, **kw):
        d = Daemon(**kw)
        self.addCleanup(d.close)
        return d

    def client(self, daemon, **kw):
        c = RawClient(daemon.socket, **kw)
        self.addCleanup(c.close)
        return c

    def alive(self, daemon):
        with grpc.insecure_channel(daemon.target) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            self.assertTrue(stub.ServerLive(pb.ServerLiveRequest(), timeout=20).live)


class Queue(WithDaemon):
    MANY = 2000

    def pipelined(self, daemon, last):
        """MANY requests in one go, then one that says when it must be done."""
        c = self.client(daemon)
        m = message()
        batch = b"".join(RawClient.request(2 * i + 1, INFER, m) for i in range(self.MANY))
        c.sock.sendall(batch + RawClient.request(2 * self.MANY + 1, INFER, m, timeout=last))
        return c.statuses(self.MANY + 1)

    def test_many(self):
        d = self.start(queue_depth=65536, max_concurrent_streams=65536)
        s = self.pipelined(d, b"1H")
        self.assertEqual(set(s.values()), {OK})
        self.assertEqual(len(s), self.MANY + 1)

    def test_deadline_in_the_queue(self):
        d = self.start(queue_depth=65536, max_concurrent_streams=65536)
        s = self.pipelined(d, b"1m")
        self.assertEqual(s.pop(2 * self.MANY + 1), DEADLINE)
        self.assertEqual(set(s.values()), {OK})

    def test_full_queue(self):
        d = self.start(queue_depth=1, max_concurrent_streams=65536)
        s = self.pipelined(d, b"1H")
        self.assertEqual(set(s.values()), {OK, EXHAUSTED})
        self.alive(d)

    def test_deadline_that_has_passed(self):
        c = self.client(self.start())
        c.sock.sendall(RawClient.request(1, INFER, message(), timeout=b"0n"))
        self.assertEqual(c.statuses(1), {1: DEADLINE})


class Leaving(WithDaemon):
    def test_disconnect(self):
        """With requests in the queue, in the middle of one, before one."""
        d = self.start(queue_depth=65536, max_concurrent_streams=65536)
        m = message()
        for cut in (1, 20, 400, None):
            for _ in range(20):
                c = RawClient(d.socket)
                batch = b"".join(RawClient.request(2 * i + 1, INFER, m) for i in range(100))
                c.sock.sendall(batch if cut is None else batch[:-cut])
                c.close()
        self.alive(d)
        self.assertEqual(d.stop(), 0)

    def test_reset(self):
        d = self.start(queue_depth=65536, max_concurrent_streams=65536)
        c = self.client(d)
        m = message()
        for i in range(200):
            stream = 2 * i + 1
            c.sock.sendall(RawClient.request(stream, INFER, m) + frame(RST_STREAM, 0, stream, struct.pack(">I", 8)))
        c.sock.sendall(RawClient.request(1001, LIVE, b""))
        s = {}
        while 1001 not in s:
            s.update(c.statuses(1))
        self.assertEqual(s[1001], OK)

    def test_client_that_never_reads(self):
        """A zero window holds the answers back; others are served, and stopping does not hang."""
        d = self.start(drain_timeout_ms=300)
        c = self.client(d, window=0)
        m = message()
        for i in range(50):
            c.sock.sendall(RawClient.request(2 * i + 1, INFER, m))
        self.alive(d)
        self.assertEqual(d.stop(), 0)


class Hoarding(WithDaemon):
    def test_unfinished_requests(self):
        """Clients that begin large requests and never end them get only so much memory."""
        d = self.start(max_message_bytes=1 << 20)
        c = self.client(d)
        c.agree()
        for stream in range(1, 21, 2):
            data = b"\0" + struct.pack(">I", 1 << 20) + bytes(900_000)
            c.sock.sendall(RawClient.headers(stream, LIVE))
            c.sock.sendall(b"".join(frame(DATA, 0, stream, data[i : i + 16000]) for i in range(0, len(data), 16000)))
        s = c.statuses(6)
        self.assertEqual(set(s.values()), {EXHAUSTED})
        c.close()
        self.alive(d)
        again = self.client(d)
        again.sock.sendall(RawClient.request(1, LIVE, bytes(0)))
        self.assertEqual(again.statuses(1), {1: OK})


class Bytes(WithDaemon):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.close() == 0

    def one(self, data):
        c = self.client(self.daemon)
        c.sock.sendall(data)
        return c.statuses(1)

    def test_authorities(self):
        """Clients put all kinds of things there on a Unix socket."""
        for a in (b"localhost", b"%2Frun%2Fx.sock", b"/run/x.sock", b"", b"unix:/run/x"):
            self.assertEqual(self.one(RawClient.request(1, LIVE, b"", authority=a)), {1: OK}, a)

    def test_framing(self):
        head = RawClient.headers(1, LIVE)
        for body in (b"", b"\0\0", b"\0\0\0\0\5abc", b"\0\0\0\0\1abc", b"\2\0\0\0\0", b"\0\0\0\0\0\0\0\0\0\0"):
            self.assertEqual(self.one(head + frame(DATA, 1, 1, body)), {1: INVALID}, body)
        self.assertEqual(self.one(head + frame(DATA, 1, 1, b"\1\0\0\0\0")), {1: UNIMPLEMENTED})
        self.assertEqual(self.one(RawClient.headers(1, LIVE, end=True)), {1: INVALID})
        self.assertEqual(self.one(head + frame(DATA, 0, 1, b"\0\xff\xff\xff\xff")), {1: EXHAUSTED})

    def test_message_in_pieces(self):
        pieces = b"".join(frame(DATA, 0, 1, bytes([b])) for b in b"\0\0\0\0\0")
        self.assertEqual(self.one(RawClient.headers(1, LIVE) + pieces + frame(DATA, 1, 1)), {1: OK})

    def test_http(self):
        for kw in ({"verb": b"GET"}, {"content_type": b"application/json"}, {"timeout": b"12x"}):
            s = self.one(RawClient.request(1, LIVE, b"", **kw))
            self.assertNotIn(OK, s.values(), kw)

    def test_rubbish(self):
        random.seed(5)
        good = RawClient.request(1, INFER, message())
        for i in range(300):
            c = self.client(self.daemon) if i % 2 else None
            data = bytearray(good) if c else bytearray(random.randbytes(200))
            for _ in range(3):
                data[random.randrange(min(len(data), 250))] = random.randrange(256)
            sock = c.sock if c else socket.socket(socket.AF_UNIX)
            if not c:
                sock.connect(self.daemon.socket)
            try:
                sock.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
            sock.close()
        self.alive(self.daemon)


class Life(WithDaemon):
    def run_thunkd(self, *args):
        return subprocess.run([BUILD / "thunkd", *args], capture_output=True, text=True, timeout=60)

    def config(self, text):
        f = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        self.addCleanup(f.close)
        f.write(text)
        f.flush()
        return f.name

    def test_command_line(self):
        self.assertRegex(self.run_thunkd("--version").stdout, r"^thunkd \d")
        self.assertIn("--check-config", self.run_thunkd("--help").stdout)
        self.assertEqual(self.run_thunkd("--nonsense").returncode, 2)
        self.assertEqual(self.run_thunkd("--check-config", "--config", str(ROOT / "config/thunkd.yaml")).returncode, 0)

    def test_wrong_settings(self):
        path = self.config("socket: /tmp/x\nstor: /y\n")
        r = self.run_thunkd("--config", path)
        self.assertEqual(r.returncode, 2)
        self.assertIn(f"{path}:2: unknown key 'stor' (did you mean 'store'?)", r.stderr)
        r = self.run_thunkd("--config", self.config("store: /nonexistent/store\n"))
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("/nonexistent/store", r.stderr)

    def test_socket_file(self):
        with tempfile.TemporaryDirectory() as d:
            path = d + "/t.sock"
            stale = socket.socket(socket.AF_UNIX)
            stale.bind(path)
            stale.close()
            a = self.start(socket=path, socket_mode="0600")
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
            with self.assertRaisesRegex(RuntimeError, "in use"):
                self.start(socket=path)
            self.assertEqual(a.stop(), 0)
            self.assertFalse(os.path.exists(path))
            pathlib.Path(path).write_text("precious")
            with self.assertRaises(RuntimeError):
                self.start(socket=path)
            self.assertEqual(pathlib.Path(path).read_text(), "precious")

    def test_drain(self):
        """What is open finishes, what is new is refused, the exit status is 0."""
        d = self.start(queue_depth=65536, max_concurrent_streams=65536)
        c, idle = self.client(d), self.client(d)
        m = message()
        c.sock.sendall(b"".join(RawClient.request(2 * i + 1, INFER, m) for i in range(1000)))
        c.next_frame()
        first = c.statuses(1)
        d.process.send_signal(signal.SIGTERM)
        done = {**first, **c.statuses(999)}
        self.assertEqual(set(done.values()), {OK})
        self.assertEqual(d.stop(), 0)
        self.assertFalse(os.path.exists(d.socket))
        kinds = []
        while f := idle.next_frame():
            kinds.append(f[0])
        self.assertIn(GOAWAY, kinds)

    def test_drain_is_bounded(self):
        d = self.start(drain_timeout_ms=200)
        c = self.client(d)
        c.sock.sendall(RawClient.headers(1, LIVE))  # never ends
        self.alive(d)
        started = time.monotonic()
        self.assertEqual(d.stop(), 0)
        self.assertLess(time.monotonic() - started, 5)

    def test_second_signal(self):
        d = self.start(drain_timeout_ms=60000)
        c = self.client(d)
        c.sock.sendall(RawClient.headers(1, LIVE))
        self.alive(d)
        d.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        self.assertEqual(d.stop(timeout=10), 0)

    def test_service_manager(self):
        """The listening socket comes as descriptor 3; the state goes to NOTIFY_SOCKET."""
        with tempfile.TemporaryDirectory() as folder:
            notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            notify.bind(folder + "/n")
            notify.settimeout(20)
            path = folder + "/activated.sock"
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            listener.listen()
            config = self.config(f"store: {ROOT}/samples/store\nsocket: {folder}/unused\nadmin_socket: ''\n")
            shell = 'exec 3<&"$1"; LISTEN_PID=$$ LISTEN_FDS=1 exec "$2" --config "$3"'
            p = subprocess.Popen(
                ["bash", "-c", shell, "bash", str(listener.fileno()), BUILD / "thunkd", config],
                pass_fds=[listener.fileno()], env={**os.environ, "NOTIFY_SOCKET": folder + "/n"}, stderr=subprocess.DEVNULL)
            self.addCleanup(p.kill)
            self.assertIn(b"READY=1", notify.recv(4096))
            c = RawClient(path)
            c.sock.sendall(RawClient.request(1, LIVE, b""))
            self.assertEqual(c.statuses(1), {1: OK})
            c.close()
            p.terminate()
            self.assertIn(b"STOPPING=1", notify.recv(4096))
            self.assertEqual(p.wait(20), 0)
            self.assertTrue(os.path.exists(path))
            self.assertFalse(os.path.exists(folder + "/unused"))
            listener.close()
            notify.close()

    def test_two_sockets_of_the_service_manager(self):
        """The one that is called admin is the admin socket."""
        with tempfile.TemporaryDirectory() as folder:
            listeners = [socket.socket(socket.AF_UNIX) for _ in range(2)]
            for name, s in zip(("admin", "infer"), listeners):
                s.bind(f"{folder}/{name}.sock")
                s.listen()
            config = self.config(f"store: {ROOT}/samples/store\nsocket: {folder}/unused\nadmin_socket: {folder}/none\n")
            shell = ('exec 3<&"$1" 4<&"$2"; LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=admin:thunkd.socket '
                     'exec "$3" --config "$4"')
            numbers = [s.fileno() for s in listeners]
            p = subprocess.Popen(["bash", "-c", shell, "bash", *map(str, numbers), BUILD / "thunkd", config],
                                 pass_fds=numbers, stderr=subprocess.PIPE, text=True)
            self.addCleanup(p.kill)
            for name in ("admin", "infer"):
                c = RawClient(f"{folder}/{name}.sock")
                c.sock.sendall(RawClient.request(1, LIVE, b""))
                self.assertEqual(c.statuses(1), {1: OK})
                c.close()
            p.terminate()
            log = p.communicate(timeout=60)[1]
            self.assertEqual(p.returncode, 0, log)
            self.assertEqual(sorted(os.listdir(folder)), ["admin.sock", "infer.sock"])
            self.assertRegex(log, r"listening on the inherited socket \(admin\)\n")
            self.assertRegex(log, r"listening on the inherited socket\n")
            [s.close() for s in listeners]


if __name__ == "__main__":
    unittest.main()
