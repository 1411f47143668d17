# SPDX-License-Identifier: Apache-2.0
"""A daemon on a device with memory of its own: what lies where, who pays, what is uploaded and when. The device is CUDA
with the stand-in driver."""
import concurrent.futures
import json
import os
import pathlib
import shutil
import struct
import time
import unittest

from tritonclient.grpc import service_pb2 as pb

import test_store
from daemon_fixture import ROOT, read_safetensors
from test_admin import ctl, get, parse_metrics
from test_store import DIGITS, infer_request

WEIGHTS = sum(t.nbytes for t in read_safetensors(DIGITS / "weights.safetensors").values())


class Case(test_store.Case):
    def serve(self, budget=None, load="startup", environment=None, **kw):
        store = {"path": str(self.store), "load": load, **({"budget": budget} if budget else {})}
        return self.start(store=store, device="cuda", metrics="true", environment=environment, **kw)

    def own_weights(self, model, version="1"):
        """Other values than any other model's, of the same size."""
        path = self.store / model / version / "weights.safetensors"
        data = bytearray(path.read_bytes())
        (n,) = struct.unpack_from("<Q", data)
        for name, t in json.loads(data[8 : 8 + n]).items():
            if name != "__metadata__":
                data[8 + n + t["data_offsets"][0]] = len(os.listdir(self.store))
        path.unlink()
        path.write_bytes(data)

    def accounts(self):
        """{(domain, owner): bytes}"""
        values = parse_metrics(get(self.daemon.socket, "/metrics")[2])[1]
        out = {}
        for (name, labels), v in values.items():
            if name == "thunkd_budget_account_bytes":
                key = dict(labels)["domain"], dict(labels)["owner"]
                out[key] = out.get(key, 0) + v
        return out

    def total(self, name, domain):
        values = parse_metrics(get(self.daemon.socket, "/metrics")[2])[1]
        return values[f"thunkd_budget_{name}_bytes", (("domain", domain),)]


class Memory(Case):
    def test_what_lies_where(self):
        self.put("digits")
        self.serve(threads=2)
        a = self.accounts()
        constants = a["device0", "constants"]
        self.assertGreaterEqual(constants, WEIGHTS)
        self.assertLess(constants, WEIGHTS + 4096)
        self.assertEqual(a.get(("host", "payloads"), 0), 0)
        self.assertGreater(a["device0", "digits/1"], 0)  # bindings
        self.assertGreater(a["host", "digits/1"], 0)      # the program
        bindings = a["device0", "digits/1"]
        for model in ("more", "another"):  # equal weights are there once
            self.put(model)
            self.until(lambda: self.index().get((model, "1"), ("",))[0] == "READY")
            a = self.accounts()
            self.assertEqual(a["device0", "constants"], constants)
            self.assertEqual(a["device0", f"{model}/1"], bindings)
        self.put("digits", "2")  # and a version takes over from another
        self.until(lambda: self.infer().model_version == "2")
        self.until(lambda: ("device0", "digits/1") not in self.accounts())
        self.assertEqual(self.accounts()["device0", "constants"], constants)
        for line in ("device0", "host"):
            self.assertIn(line, ctl("budget", "--socket", self.daemon.admin).stdout)

    def test_weights_that_differ(self):
        self.put("digits")
        self.serve()
        before = self.accounts()["device0", "constants"]
        want = self.infer().raw_output_contents[0]
        folder = self.store / "other/1"
        self.put("other.hidden")
        (self.store / "other.hidden").rename(self.store / "x")
        self.own_weights("x")
        (self.store / "x").rename(folder.parent)
        self.until(lambda: self.index().get(("other", "1"), ("",))[0] == "READY")
        self.assertGreaterEqual(self.accounts()["device0", "constants"], before + WEIGHTS / 2)
        self.assertEqual(self.infer().raw_output_contents[0], want)

    def test_a_share_of_the_device(self):
        self.put("digits")
        self.serve(environment={"FAKECUDA_MEM": "1000M"})
        self.assertEqual(self.total("limit", "device0"), 1000 * 1024 * 1024 * 8 // 10)
        self.end_early()
        self.serve(budget={"device": "25%"}, environment={"FAKECUDA_MEM": "1000M"})
        self.assertEqual(self.total("limit", "device0"), 1000 * 1024 * 1024 // 4)

    def end_early(self):
        self.assertEqual(self.daemon.stop(), 0)

    def test_refusals_name_the_memory(self):
        self.put("digits")
        self.serve(budget={"device": "20KiB"})
        ((state, reason),) = self.index().values()
        self.assertEqual(state, "UNAVAILABLE")
        self.assertRegex(reason, r"needs \S+ \S+ of device 0 memory, 20.0 KiB of 20.0 KiB are free")
        self.assertEqual(self.total("charged", "device0"), 0)

    def test_eviction_frees_the_device(self):
        """Room for two models, of which four want to be served in turn; answers stay right."""
        for i in range(4):
            self.put(f"m{i}")
            self.own_weights(f"m{i}")
        self.serve(load="on_demand")
        want = [self.infer(f"m{i}").raw_output_contents[0] for i in range(4)]
        each = self.total("peak", "device0") / 4
        self.end_early()
        limit = int(each * 2.5)
        self.serve(load="on_demand", budget={"device": str(limit)})
        for turn in range(3):
            for i in range(4):
                self.assertEqual(self.infer(f"m{i}").raw_output_contents[0], want[i])
                ready = [k for k, (state, _) in self.index().items() if state == "READY"]
                self.assertLessEqual(len(ready), 2)
                self.assertIn((f"m{i}", "1"), ready)
        self.assertLessEqual(self.total("peak", "device0"), limit)
        self.assertGreater(self.total("charged", "device0"), 0)

    def test_a_budget_for_exactly_this(self):
        """What one load needs is all it takes: the least budget that it is told suffices, for constants too."""
        self.put("digits")
        self.serve(budget={"device": "20KiB"})
        ((_, reason),) = self.index().values()
        self.end_early()
        for limit in range(20 << 10, 1 << 20, 2 << 10):
            self.serve(budget={"device": str(limit)})
            ((state, reason),) = self.index().values()
            peak = self.total("peak", "device0")
            self.end_early()
            self.assertLessEqual(peak, limit)
            if state == "READY":
                break
        self.assertEqual(state, "READY", reason)
        self.assertLess(limit, 2.5 * WEIGHTS + (512 << 10))


    def test_constants_that_are_there_cost_nothing(self):
        """Of two models with the same 80 KiB, the second one fits where the first one leaves less than that."""
        for model in ("c0", "c1"):
            folder = self.store / model / "1"
            folder.mkdir(parents=True)
            shutil.copy(ROOT / "tests/data/constant_0.aot", folder / "model.aot")
        self.serve()
        constants = self.accounts()["device0", "constants"]
        self.assertLess(constants, 100_000)
        self.assertGreater(constants, 80_000)
        self.end_early()
        self.serve(budget={"device": "128KiB"})
        self.assertEqual({state for state, _ in self.index().values()}, {"READY"}, self.index())
        self.assertLess(self.total("peak", "device0"), 128 << 10)

    def test_a_call_of_the_driver_fails_while_loading(self):
        """The model is unavailable, with the cause, and nothing else happens; then it can be loaded."""
        self.put("digits")
        for call in ("cuMemAlloc_v2:1", "cuMemcpyHtoDAsync_v2:2", "cuStreamCreateWithPriority:1", "cuMemAllocHost_v2:2",
                     "cuModuleLoadDataEx:1", "cuMemcpyHtoDAsync_v2:1:1"):
            with self.subTest(call=call):
                self.serve(environment={"FAKECUDA_FAIL": call})
                ((state, reason),) = self.index().values()
                self.assertEqual(state, "UNAVAILABLE")
                self.assertTrue(call.split(":")[0] in reason or "device memory" in reason, reason)
                self.assertEqual(self.total("charged", "device0"), 0)
                self.stub.RepositoryModelLoad(pb.RepositoryModelLoadRequest(model_name="digits"), timeout=60)
                self.infer()
                self.end_early()


class Uploads(Case):
    def calls(self, requests, name="cuMemcpyHtoDAsync_v2"):
        self.serve()
        for _ in range(requests):
            self.infer()
        self.end_early()
        return self.daemon.report()["calls"][name]

    def end_early(self):
        self.assertEqual(self.daemon.stop(), 0)

    def test_one_of_each_request(self):
        self.put("digits")
        few, many = self.calls(1), self.calls(41)
        self.assertEqual(many - few, 40)


class Streams(Case):
    """Requests that are served at one time: copies and kernels of one while those of another are under way."""

    REQUESTS = 8

    def serve_all(self, threads):
        """Seconds that the requests took, and how many streams were at work at one time."""
        self.serve(threads=threads, environment={"FAKECUDA_SLOW": "10000"})
        want = self.infer().raw_output_contents[0]
        started = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self.REQUESTS) as pool:
            got = list(pool.map(lambda i: self.infer().raw_output_contents[0], range(self.REQUESTS)))
        took = time.monotonic() - started
        self.assertEqual(set(got), {want})
        self.assertEqual(self.daemon.stop(), 0)
        return took, self.daemon.report()["streams_at_once"]

    def test_as_many_as_threads(self):
        self.put("digits")
        one, at_once = self.serve_all(1)
        self.assertEqual(at_once, 1)
        four, at_once = self.serve_all(4)
        self.assertEqual(at_once, 4)
        self.assertLess(four, one / 2)  # a quarter, but for what runs on the processor


if __name__ == "__main__":
    unittest.main()
