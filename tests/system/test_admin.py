# SPDX-License-Identifier: Apache-2.0
"""The admin service, thunkctl's verbs on it, HTTP/1.1 and metrics."""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from daemon_fixture import DEVICE, BUILD, ROOT, Daemon

Code = grpc.StatusCode
MODEL = ROOT / "samples/store/digits/1"


def ctl(*args, code=0, **kw):
    p = subprocess.run([BUILD / "thunkctl", *map(str, args)], capture_output=True, text=True, timeout=120, **kw)
    if p.returncode != code:
        raise AssertionError(f"thunkctl {args}: exit {p.returncode}, expected {code}: {p.stderr}")
    return p


def http(path, text, half_close=False):
    """Sends text and gives (status, headers, body) of each answer until the daemon closes, or all is answered."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(path)
    s.sendall(text.encode())
    if half_close:
        s.shutdown(socket.SHUT_WR)
    data = b""
    while more := s.recv(1 << 20):
        data += more
    s.close()
    answers = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
        n = int(headers["content-length"])
        answers.append((int(lines[0].split()[1]), headers, data[:n].decode()))
        data = data[n:]
    return answers


def get(path, target, method="GET", body="", extra=""):
    (answer,) = http(path, f"{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
                           f"{extra}\r\n{body}")
    return answer


def parse_metrics(text):
    """{name: type} and {(name, labels as a sorted tuple): value}; checks the syntax on the way."""
    types, values, helped, current = {}, {}, set(), None
    assert text.endswith("\n")
    for line in text.splitlines():
        if m := re.fullmatch(r"# HELP (\w+) (.+)", line):
            assert m[1] not in helped
            helped.add(m[1])
        elif m := re.fullmatch(r"# TYPE (\w+) (gauge|counter|histogram)", line):
            assert m[1] in helped and m[1] not in types
            current, types[m[1]] = m[1], m[2]
        else:
            m = re.fullmatch(r'(\w+)(?:\{((?:\w+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)', line)
            assert m, line
            name = re.sub(r"_(bucket|sum|count)$", "", m[1]) if types[current] == "histogram" else m[1]
            assert name == current, line
            key = m[1], tuple(sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', m[2] or "")))
            assert key not in values, line
            values[key] = float(m[3])
    return types, values


class Admin:
    """The service's methods by name, from the schema."""

    def __init__(self, target):
        with tempfile.TemporaryDirectory() as d:
            subprocess.run(["protoc", f"-I{ROOT / 'proto/schema'}", f"--descriptor_set_out={d}/set", "admin.proto"], check=True)
            files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(d, "set").read_bytes())
        pool = descriptor_pool.DescriptorPool()
        for f in files.file:
            pool.Add(f)
        self.service = pool.FindServiceByName("thunkd.v1.Admin")
        self.channel = grpc.insecure_channel(target)

    def __call__(self, method, timeout=30, **fields):
        m = self.service.methods_by_name[method]
        request = message_factory.GetMessageClass(m.input_type)(**fields)
        answer = message_factory.GetMessageClass(m.output_type)
        call = self.channel.unary_unary(f"/{self.service.full_name}/{method}", lambda x: x.SerializeToString(), answer.FromString)
        return call(request, timeout=timeout)

    def close(self):
        self.channel.close()


class Case(unittest.TestCase):
    settings = {}
    yaml = ""

    def setUp(self):
        self.store = pathlib.Path(tempfile.mkdtemp(prefix="thunkd-store-"))
        self.addCleanup(shutil.rmtree, self.store)
        for name in ("a/1", "a/2", "b/1"):
            self.put(name)
        (self.store / "a/model.yaml").write_text("versions: all\ndefault: 1\nlabels: {stable: 1, canary: 2}\n" + self.yaml)
        (self.store / "b/model.yaml").write_text("load: explicit\n")
        (self.store / "bad/1").mkdir(parents=True)
        (self.store / "bad/1/model.aot").write_bytes(b"nothing")
        self.admin_dir = tempfile.mkdtemp(prefix="thunkd-admin-")
        self.addCleanup(shutil.rmtree, self.admin_dir)
        self.admin_socket = self.admin_dir + "/a.sock"
        self.daemon = Daemon(self.store, admin_socket=self.admin_socket, metrics="true", **self.settings)
        self.addCleanup(self.ends_well)
        self.wait(lambda: self.row("a", "2")["state"] == "READY" and self.row("a", "1")["state"] == "READY")
        self.wait(lambda: self.row("bad", "1")["state"] == "UNAVAILABLE")

    def ends_well(self):
        log = self.daemon.log.name
        status = self.daemon.stop()
        text = pathlib.Path(log).read_text()
        self.daemon.close()
        self.assertEqual(status, 0, text)
        self.assertNotIn("Sanitizer", text)

    def put(self, name):
        shutil.copytree(MODEL, self.store / (name + ".partial"))
        (self.store / (name + ".partial")).rename(self.store / name)

    def ctl(self, verb, *args, **kw):
        return ctl(verb, "--socket", self.admin_socket, *args, **kw)

    def rows(self):
        return {(m["name"], m["version"]): m for m in json.loads(self.ctl("ls", "--json").stdout)["models"]}

    def row(self, model, version):
        return self.rows()[model, version]

    def wait(self, condition, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, self.daemon.text())
            time.sleep(0.05)


class Verbs(Case):
    def test_ls(self):
        rows = self.rows()
        self.assertEqual(list(rows), [("a", "1"), ("a", "2"), ("b", "1"), ("bad", "1")])
        a = rows["a", "1"]
        self.assertEqual((a["state"], a["labels"], a["is_default"], a["load_mode"]), ("READY", ["stable"], True, "startup"))
        self.assertEqual((rows["a", "2"]["labels"], rows["a", "2"]["is_default"]), (["canary"], False))
        self.assertGreater(a["charged_bytes"], 0)
        self.assertGreater(a["leave_day"], 20200101)
        self.assertEqual((rows["b", "1"]["state"], rows["b", "1"]["load_mode"]), ("UNAVAILABLE", "explicit"))
        self.assertTrue(rows["bad", "1"]["reason"])
        table = self.ctl("ls").stdout.splitlines()
        self.assertEqual(table[0].split(), "MODEL VERSION STATE DEFAULT LABELS PINNED LOAD SIZE NOTE".split())
        self.assertEqual(table[1].split()[:7], ["a", "1", "READY", "yes", "stable", "-", "startup"])
        self.assertEqual(len(table), 5)
        self.assertEqual(len(self.ctl("ls", "a").stdout.splitlines()), 3)
        self.assertIn("no", self.ctl("ls", "nothing", code=1).stderr)

    def test_load_and_unload(self):
        self.assertEqual(self.ctl("load", "b").stdout, "")
        self.assertEqual(self.row("b", "1")["state"], "READY")
        self.ctl("unload", "b", "1")
        self.assertEqual((self.row("b", "1")["state"], self.row("b", "1")["charged_bytes"]), ("UNAVAILABLE", 0))
        self.ctl("unload", "a", "canary")
        self.assertEqual([self.row("a", v)["state"] for v in "12"], ["READY", "UNAVAILABLE"])
        self.ctl("load", "a", "2")
        self.assertEqual(self.row("a", "2")["state"], "READY")
        loads = self.row("a", "1")["loads"]
        self.ctl("reload", "a", "1")
        self.assertEqual(self.row("a", "1")["loads"], loads + 1)

    def test_load_fails(self):
        self.assertIn("thunkctl: ", self.ctl("load", "bad", code=1).stderr)
        self.assertIn("NOT_FOUND", self.ctl("load", "nothing", code=1).stderr)
        self.ctl("load", "a", "77", code=1)
        self.ctl("unload", "nothing", code=1)
        self.ctl("pin", "nothing", code=1)
        self.ctl("load", "../a", code=1)
        self.assertEqual(self.row("a", "1")["state"], "READY")

    def test_json(self):
        def ask(verb, *args, code=0):
            p = self.ctl(verb, "--json", *args, code=code)
            self.assertEqual(p.stderr, "")
            return json.loads(p.stdout)

        def states(answer):
            return {v["version"]: v["state"] for v in answer["versions"]}

        ready, gone = {"1": "READY", "2": "READY"}, {"1": "READY", "2": "UNAVAILABLE"}
        self.assertEqual(ask("load", "b"), {"model": "b", "versions": [{"version": "1", "state": "READY", "reason": ""}]})
        answer = ask("unload", "a", "canary")
        self.assertEqual((answer["model"], states(answer)), ("a", gone))
        self.assertTrue(answer["versions"][1]["reason"])
        for verb, args, want in (("load", ("a", "2"), ready), ("reload", ("a", "1"), ready), ("pin", ("a",), ready),
                                 ("unpin", ("a",), ready)):
            self.assertEqual(states(ask(verb, *args)), want)
        models = ask("rescan")["models"]
        self.assertEqual([m["model"] for m in models], ["a", "b", "bad"])
        self.assertEqual(states(models[0]), ready)
        for verb, args in (("load", ("bad",)), ("load", ("a", "77")), ("unload", ("nothing",)), ("pin", ("nothing",))):
            answer = ask(verb, *args, code=1)
            self.assertEqual(list(answer), ["error"])
            self.assertTrue(answer["error"])
        self.assertEqual(json.loads(ctl("rescan", "--json", "--socket", self.store / "none", code=2).stdout).keys(), {"error"})

    def test_reload_that_fails_leaves_the_old_one(self):
        artifact = self.store / "a/1/h100_sxm.aot"
        good = artifact.read_bytes()
        new = self.store / "a/1/new.partial"
        new.write_bytes(b"broken")
        new.rename(artifact)
        self.ctl("reload", "a", "1", code=1)
        row = self.row("a", "1")
        self.assertEqual(row["state"], "READY")
        self.assertTrue(row["reason"])
        new.write_bytes(good)
        new.rename(artifact)
        self.ctl("reload", "a", "1")
        self.assertEqual((self.row("a", "1")["state"], self.row("a", "1")["reason"]), ("READY", ""))

    def test_too_little_time(self):
        for _ in range(5):
            p = subprocess.run([BUILD / "thunkctl", "reload", "--socket", self.admin_socket, "--timeout", "1ms", "a", "1"],
                               capture_output=True, text=True, timeout=60)
            self.assertIn(p.returncode, (0, 1), p.stderr)
        self.wait(lambda: self.row("a", "1")["state"] == "READY")
        self.ctl("reload", "a", "1")

    def test_pin(self):
        self.ctl("pin", "a")
        self.assertEqual([self.row("a", v)["pinned"] for v in "12"], [True, True])
        self.ctl("unpin", "a", "stable")
        self.assertEqual([self.row("a", v)["pinned"] for v in "12"], [False, True])

    def test_rescan(self):
        self.put("c/1")
        self.ctl("rescan")
        self.wait(lambda: self.rows().get(("c", "1"), {}).get("state") == "READY")

    def test_usage(self):
        for args in (("load",), ("load", "a", "1", "2"), ("ls", "a", "b"), ("load", "--timeout", "x", "a"), ("budget", "a"),
                     ("load", "--nonsense", "a"), ("metrics", "x"), ("load", "--timeout", "0", "a")):
            self.assertIn("thunkctl", ctl(*args, code=2).stderr)
        for verb in ("ls", "load", "unload", "reload", "pin", "unpin", "rescan", "budget", "metrics"):
            self.assertIn("--socket", ctl(verb, "--help").stdout)
            self.assertIn(verb, ctl("--help").stdout)

    def test_no_daemon(self):
        for args in (("ls",), ("load", "a"), ("pin", "a"), ("rescan",), ("budget",), ("metrics",)):
            self.assertIn("/nowhere", ctl(*args, "--socket", "/nowhere", code=2).stderr)

    def test_budget(self):
        b = json.loads(self.ctl("budget", "--json").stdout)
        (host,) = [d for d in b["domains"] if d["name"] == "host"]
        accounts = [a for a in b["accounts"] if a["domain"] == "host"]
        self.assertEqual(sum(a["bytes"] for a in accounts), host["charged"])
        self.assertGreaterEqual(host["peak"], host["charged"])
        self.assertEqual([a["bytes"] for a in accounts], sorted((a["bytes"] for a in accounts), reverse=True))
        self.assertGreater(b["process"]["resident"], 1 << 20)
        text = self.ctl("budget").stdout
        for word in ("OWNER", "KIND", "SHARE", "LIMIT", "CHARGED", "RESERVED", "FREE", "PEAK", "The kernel counts"):
            self.assertIn(word, text)


class Service(Case):
    def setUp(self):
        super().setUp()
        self.admin = Admin("unix:" + self.admin_socket)
        self.addCleanup(self.admin.close)

    def fails(self, code, method, **fields):
        with self.assertRaises(grpc.RpcError) as e:
            self.admin(method, **fields)
        self.assertEqual(e.exception.code(), code)
        return e.exception.details()

    def test_capabilities(self):
        c = self.admin("Capabilities")
        self.assertRegex(c.contract_day, r"20\d\d-\d\d-\d\d")
        self.assertEqual(list(c.devices), [DEVICE])
        self.assertIn("kernel", " ".join(c.thunk_kinds))

    def test_errors(self):
        self.fails(Code.NOT_FOUND, "Models", model="nothing")
        self.fails(Code.INVALID_ARGUMENT, "Load")
        self.fails(Code.NOT_FOUND, "Load", model="nothing")
        self.fails(Code.INVALID_ARGUMENT, "Pin", pinned=True)
        self.fails(Code.RESOURCE_EXHAUSTED, "Models", model="x" * 100000)
        call = self.admin.channel.unary_unary("/thunkd.v1.Admin/Nothing", lambda x: x, lambda x: x)
        with self.assertRaises(grpc.RpcError) as e:
            call(b"", timeout=10)
        self.assertEqual(e.exception.code(), Code.UNIMPLEMENTED)
        call = self.admin.channel.unary_unary("/thunkd.v1.Admin/Load", lambda x: x, lambda x: x)
        with self.assertRaises(grpc.RpcError) as e:
            call(b"\x0a\x7f", timeout=10)
        self.assertEqual(e.exception.code(), Code.INVALID_ARGUMENT)

    def test_what_may_be_done_through_the_inference_socket(self):
        """Root and the daemon's own user may do everything; others may look."""
        os.chmod(self.daemon.dir, 0o755)
        os.chmod(self.daemon.socket, 0o666)

        def drop():
            os.setgid(65534)
            os.setuid(65534)

        if os.getuid():
            self.skipTest("needs root, to be somebody else")
        for verb, code in (("ls", 0), ("budget", 0), ("metrics", 0), ("rescan", 1), ("pin", 1), ("unload", 1)):
            args = [verb, "--socket", self.daemon.socket] + (["a"] if code and verb != "rescan" else [])
            binary = shutil.copy(BUILD / "thunkctl", self.daemon.dir)
            p = subprocess.run([binary, *args], capture_output=True, text=True, timeout=60, preexec_fn=drop)
            self.assertEqual(p.returncode, code, p.stderr)
            if code:
                self.assertIn("PERMISSION_DENIED", p.stderr)
        self.assertFalse(self.row("a", "1")["pinned"])
        ctl("pin", "--socket", self.daemon.socket, "a")
        self.assertTrue(self.row("a", "1")["pinned"])


class Http(Case):
    def test_health(self):
        for path in (self.daemon.socket, self.admin_socket):
            status, headers, body = get(path, "/v2/health/live")
            self.assertEqual((status, headers["content-type"], json.loads(body)), (200, "application/json", {"live": True}))
        self.assertEqual(get(self.daemon.socket, "/v2/health/ready")[0], 200)
        self.assertEqual(get(self.daemon.socket, "/v2/health/ready?x=1")[0], 200)
        self.assertEqual(json.loads(get(self.daemon.socket, "/v2")[2])["name"], "thunkd")

    def test_head(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.daemon.socket)
        s.sendall(b"HEAD /v2/health/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        data = b""
        while more := s.recv(65536):
            data += more
        s.close()
        self.assertRegex(data, rb"(?s)^HTTP/1.1 200 OK\r\n.*Content-Length: 14\r\n.*\r\n\r\n$")

    def test_model_ready(self):
        for path, status, ready in (("a", 200, True), ("a/versions/2", 200, True), ("a/versions/canary", 200, True),
                                    ("b", 503, False), ("bad", 503, False)):
            s, _, body = get(self.daemon.socket, f"/v2/models/{path}/ready")
            self.assertEqual((s, json.loads(body)["ready"]), (status, ready), path)
        for path in ("x/ready", "a/versions/9/ready", "/ready", "a/ready/", "a", "a%2Fb/ready"):
            s, _, body = get(self.daemon.socket, f"/v2/models/{path}")
            self.assertEqual(s, 404, path)
            self.assertIn("error", json.loads(body))

    def test_index(self):
        for method in ("GET", "POST"):
            index = json.loads(get(self.daemon.socket, "/v2/repository/index", method)[2])
            self.assertEqual([(m["name"], m["version"]) for m in index], [("a", "1"), ("a", "2"), ("b", "1"), ("bad", "1")])
            self.assertEqual({"name", "version", "state", "reason"}, set(index[0]))
        ready = json.loads(get(self.daemon.socket, "/v2/repository/index", "POST", '{"ready": true}')[2])
        self.assertEqual({m["state"] for m in ready}, {"READY"})
        for body in ("[]", "{", '{"ready": 1}'):
            self.assertEqual(get(self.daemon.socket, "/v2/repository/index", "POST", body)[0], 400)

    def test_refused(self):
        s = self.daemon.socket
        status, headers, _ = get(s, "/metrics", "POST")
        self.assertEqual((status, headers["allow"]), (405, "GET, HEAD"))
        self.assertEqual(get(s, "/v2/repository/index", "DELETE")[1]["allow"], "GET, HEAD, POST")
        self.assertEqual(get(s, "/")[0], 404)
        for text, status in (("GET / HTTP/1.1\r\n\r\n", 400), ("nonsense\r\n\r\n", 400), ("GET /" + "x" * 4000, 414),
                             ("GET / HTTP/1.1\r\nX: " + "x" * 20000, 431), ("PRINT / HTTP/1.1\r\n\r\n", None)):
            try:
                answers = http(s, text)
            except ConnectionResetError:
                answers = []
            self.assertEqual([a[0] for a in answers], [status] if status else [], text[:20])
        self.assertEqual(get(s, "/v2/health/live")[0], 200)

    def test_several_on_one_connection(self):
        answers = http(self.daemon.socket, "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n" * 50 +
                       "GET /v2/models/a/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        self.assertEqual([a[0] for a in answers], [200] * 51)

    def test_slowly(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(30)
        s.connect(self.daemon.socket)
        for c in "POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}":
            s.sendall(c.encode())
        data = b""
        while more := s.recv(65536):
            data += more
        s.close()
        self.assertTrue(data.startswith(b"HTTP/1.1 200 OK\r\n"))

    def test_curl(self):
        if not shutil.which("curl"):
            self.skipTest("no curl")
        p = subprocess.run(["curl", "-sf", "--unix-socket", self.daemon.socket, "http://thunkd/metrics"], capture_output=True,
                           text=True, timeout=30)
        self.assertEqual(p.returncode, 0)
        parse_metrics(p.stdout)

    def test_idle_connections_end_with_the_daemon(self):
        held = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for s, text in zip(held, (b"", b"P", b"GET /v2 HT")):
            self.addCleanup(s.close)
            s.connect(self.daemon.socket)
            s.sendall(text)
        time.sleep(0.1)
        self.assertEqual(self.daemon.stop(timeout=10), 0)


class Metrics(Case):
    def page(self):
        status, headers, body = get(self.daemon.socket, "/metrics")
        self.assertEqual((status, headers["content-type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        return parse_metrics(body)

    def test_page(self):
        types, values = self.page()
        documented = re.findall(r"^\| `(\w+)` \| (\w+) \|", (ROOT / "docs/metrics.md").read_text(), re.M)
        self.assertEqual(sorted(types.items()), sorted(documented))
        self.assertEqual(values["thunkd_ready", ()], 1)
        a1 = (("model", "a"), ("version", "1"))
        self.assertEqual(values["thunkd_model_state", (*a1[:1], ("state", "READY"), *a1[1:])], 1)
        self.assertGreater(values["thunkd_model_charged_bytes", a1], 0)
        self.assertGreater(values["thunkd_model_leaves_window_timestamp_seconds", a1], 1.6e9)
        self.assertGreater(values["thunkd_store_failed_loads_total", ()], 0)
        charged = values["thunkd_budget_charged_bytes", (("domain", "host"),)]
        accounts = sum(v for (n, labels), v in values.items() if n == "thunkd_budget_account_bytes" and ("domain", "host") in labels)
        self.assertEqual(charged, accounts)
        self.assertEqual(parse_metrics(ctl("metrics", "--socket", self.daemon.socket).stdout)[0], types)

    def test_requests_are_counted(self):
        image = pathlib.Path(self.daemon.dir, "image")
        image.write_bytes(bytes(8 * 8 * 4))
        ctl("infer", "--socket", self.daemon.socket, "--input", f"image={image}", "a")
        ctl("infer", "--socket", self.daemon.socket, "nothing", code=1)
        types, values = self.page()
        a1 = (("model", "a"), ("version", "1"))
        self.assertEqual(values["thunkd_requests_total", (("code", "OK"), *a1)], 1)
        for name in ("queue", "run"):
            self.assertEqual(values[f"thunkd_request_{name}_seconds_count", a1], 1)
            self.assertEqual(values[f"thunkd_request_{name}_seconds_bucket", (("le", "+Inf"), *a1)], 1)
            self.assertGreater(values[f"thunkd_request_{name}_seconds_sum", a1], 0)


class NoMetrics(unittest.TestCase):
    def test_off(self):
        daemon = Daemon(metrics="false")
        self.addCleanup(daemon.close)
        self.assertEqual(get(daemon.socket, "/metrics")[0], 404)
        self.assertIn("metrics", ctl("metrics", "--socket", daemon.socket, code=1).stderr)
        self.assertEqual(get(daemon.socket, "/v2/health/live")[0], 200)


if __name__ == "__main__":
    unittest.main()
