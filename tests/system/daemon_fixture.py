# SPDX-License-Identifier: Apache-2.0
"""A thunkd of its own for a test, and a client below gRPC's level.

THUNKD_TEST_DEVICE=cuda: daemons serve from a CUDA device with the stand-in driver (tests/fakecuda), which makes every
misuse and every leak an exit status of its own. Other FAKECUDA_... of the environment apply.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("THUNKD_BUILD", ROOT / "build"))
DTYPES = {"F32": np.float32, "I32": np.int32}
DEVICE = os.environ.get("THUNKD_TEST_DEVICE", "host")


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack_from("<Q", data)
    out = {}
    for name, t in json.loads(data[8 : 8 + n]).items():
        if name != "__metadata__":
            lo, hi = t["data_offsets"]
            out[name] = np.frombuffer(data[8 + n + lo : 8 + n + hi], DTYPES[t["dtype"]]).reshape(t["shape"])
    return out


def fake_driver(report):
    """Environment of a process that shall find the stand-in driver: kernels' meaning comes from all artifacts that
    the tests serve."""
    artifacts = [*ROOT.glob("samples/store/*/*/*.aot"), *ROOT.glob("tests/data/*.aot")]
    if corpus := os.environ.get("THUNKD_CORPUS"):
        artifacts += pathlib.Path(corpus).glob("*/0.12.0.1/h100_sxm.aot")
    return {"LD_LIBRARY_PATH": str(BUILD / "fakecuda"), "FAKECUDA_CC": "9.0", "FAKECUDA_REPORT": report,
            "FAKECUDA_ARTIFACT": ":".join(str(a) for a in artifacts)}


class Daemon:
    """Starts in a new folder; settings replace those of the configuration. loaded: wait for what loads at the start.
    environment: more of it."""

    def __init__(self, store=None, loaded=True, environment=None, **settings):
        self.dir = tempfile.mkdtemp(prefix="thunkd-test-")
        self.socket = self.dir + "/s.sock"
        self.admin = self.dir + "/admin.sock"
        self.target = "unix:" + self.socket
        values = {"socket": self.socket, "admin_socket": self.admin, "store": str(store or ROOT / "samples/store"),
                  "device": DEVICE, **settings}
        self.config = self.dir + "/thunkd.yaml"
        lines = [f"{k}: {json.dumps(v) if isinstance(v, dict) else v}\n" for k, v in values.items()]
        pathlib.Path(self.config).write_text("".join(lines))
        self.log = open(self.dir + "/log", "w+b")
        self.on_cuda = values["device"].startswith("cuda")
        env = os.environ | (fake_driver(self.dir + "/report") if self.on_cuda else {}) | (environment or {})
        self.process = subprocess.Popen([BUILD / "thunkd", "--config", self.config], stderr=self.log, env=env)
        self.wait_for("models ready" if loaded else "listening on .*s.sock")
        began = not loaded and b"listening on" in self.text()  # it may end soon after, and a test may want that
        if self.process.poll() is not None and not began:
            text = self.text().decode()
            self.close()
            raise RuntimeError(text)

    def wait_for(self, pattern, seconds=60):
        """A line of the log; or the daemon's end."""
        deadline = time.monotonic() + seconds
        while not re.search(pattern.encode(), self.text()) and self.process.poll() is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{pattern} is not in the log:\n{self.text().decode()}")
            time.sleep(0.01)

    def text(self):
        return pathlib.Path(self.log.name).read_bytes()

    def stop(self, number=signal.SIGTERM, timeout=30):
        """Returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def report(self):
        """Of the stand-in driver, once the daemon has ended: faults, launches, calls."""
        return json.loads(pathlib.Path(self.dir + "/report").read_text())

    def close(self):
        status = self.stop()
        if self.on_cuda and status == 0:
            faults = self.report()["faults"]
            assert faults == 0, self.text().decode()
        elif status == 99:  # the faults are in the log
            print(self.text().decode()[-4000:])
        self.log.close()
        shutil.rmtree(self.dir)
        return status


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 7, 8
# "grpc-status" as a Huffman-coded header name, and its short value
STATUS = re.compile(rb"\x88\x9a\xca\xc8\xb2\x12\x34\xda\x8f(?:\x01(.)|\x02(..))", re.S)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


class RawClient:
    """HTTP/2 frames by hand: for what a gRPC library does not let one send."""

    def __init__(self, path, window=(1 << 30)):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.sock.settimeout(30)
        self.buffer = b""
        settings = struct.pack(">HIHI", 1, 0, 4, window)  # no header table, stream window
        self.sock.sendall(PREFACE + frame(SETTINGS, 0, 0, settings) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))

    @staticmethod
    def headers(stream, path, timeout=None, authority=b"localhost", verb=b"POST", content_type=b"application/grpc", end=False):
        block = literal(b":method", verb) + literal(b":scheme", b"http") + literal(b":path", path)
        block += literal(b":authority", authority) + literal(b"content-type", content_type) + literal(b"te", b"trailers")
        if timeout is not None:
            block += literal(b"grpc-timeout", timeout)
        return frame(HEADERS, 4 | (1 if end else 0), stream, block)

    @classmethod
    def request(cls, stream, method, message, **kw):
        body = b"\0" + struct.pack(">I", len(message)) + message
        return cls.headers(stream, method, **kw) + frame(DATA, 1, stream, body)

    def next_frame(self):
        """(kind, flags, stream, payload), or None at the end."""
        while True:
            if len(self.buffer) >= 9:
                n = int.from_bytes(self.buffer[:3], "big")
                if len(self.buffer) >= 9 + n:
                    f = self.buffer[: 9 + n]
                    self.buffer = self.buffer[9 + n :]
                    return f[3], f[4], int.from_bytes(f[5:9], "big"), f[9:]
            more = self.sock.recv(1 << 20)
            if not more:
                return None
            self.buffer += more

    def agree(self):
        """Waits for the daemon's settings, then accepts them: its windows count from here."""
        while self.next_frame()[0] != SETTINGS:
            pass
        self.sock.sendall(frame(SETTINGS, 1, 0))

    def statuses(self, count):
        """grpc-status by stream, of the next `count` streams that end."""
        out = {}
        while len(out) < count:
            f = self.next_frame()
            if f is None:
                break
            m = STATUS.search(f[3]) if f[0] == HEADERS else None
            if m:
                out[f[2]] = int(m.group(1) or m.group(2))
        return out

    def close(self):
        self.sock.close()
