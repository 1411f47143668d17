#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets calls of the CUDA driver fail under a serving daemon, with the stand-in driver of tests/fakecuda.

usage: daemon_faults.py [--calls N] [--step N] [--jobs N]     (THUNKD_BUILD names the build folder)

One walk is: start, load a model, two requests, unload, load again, a request, stop. It is done with the first call of
the driver failing, then with the second, up to --calls (400); with --step, every N-th. Each failure is made twice:

  an error that passes   what failed says so, with the call's name, and the same tried again is right; the rest of the
                         walk is as ever, the daemon ends with 0, and the driver sees neither faults nor leaks
  the device's end       what was asked for is answered, with the cause; the daemon ends by itself with 75, or with 1
                         when it was just starting

Prints a line per wrong one and last "daemon faults: N right, N wrong".
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import sys

import grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/system"), str(ROOT / "tools")]
from daemon_fixture import BUILD, Daemon, read_safetensors  # noqa: E402
from sweep import excused, named  # noqa: E402
from tritonclient.grpc import service_pb2 as pb  # noqa: E402
from tritonclient.grpc import service_pb2_grpc  # noqa: E402

DRIVER = BUILD / "fakecuda/libcuda.so.1"
STORE = ROOT / "samples/store"
ARTIFACT = STORE / "digits/1/h100_sxm.aot"
STEPS = ["load", "infer", "infer", "unload", "load", "infer"]
TIMEOUT = 30
Failure = collections.namedtuple("Failure", "step code text")


def environment(fail):
    env = {"FAKECUDA_ARTIFACT": str(ARTIFACT), "FAKECUDA_COUNT": "2", "LD_LIBRARY_PATH": str(DRIVER.parent)}
    return {**env, "FAKECUDA_FAIL": fail} if fail else env


def request():
    image = read_safetensors(ROOT / "samples/digits-test.safetensors")["images"][0]
    r = pb.ModelInferRequest(model_name="digits", raw_input_contents=[image.tobytes()])
    r.inputs.add(name="image", datatype="FP32", shape=[1, 8, 8])
    return r


class Walk:
    """failures: of steps, in order. answers: of the requests that were answered. unhealed: a step that failed twice.
    status: the daemon's. by_itself: it had ended when it was told to. names: of the driver's calls."""

    def __init__(self, fail=None):
        self.failures, self.answers, self.unhealed = [], [], None
        settings = {"path": str(STORE), "load": "explicit", "budget": {"host": "none", "device": "none"}}
        daemon = Daemon.__new__(Daemon)
        try:
            daemon.__init__(store=settings, device="cuda", environment=environment(fail))
        except RuntimeError as e:
            self.text, self.status, self.by_itself = str(e), daemon.process.returncode, True
        else:
            with grpc.insecure_channel(daemon.target) as channel:
                self.walk(daemon, service_pb2_grpc.GRPCInferenceServiceStub(channel))
            if self.failures and self.failures[-1].code == grpc.StatusCode.UNAVAILABLE:
                daemon.process.wait(TIMEOUT)
            self.by_itself = daemon.process.poll() is not None
            self.status = daemon.stop()
            self.text = daemon.text().decode()
            daemon.close()
        self.names = re.findall(r"fakecuda: call \d+: (\w+)", self.text)
        told = re.search(r"fakecuda: call (\d+) fails: (\w+)", self.text)
        self.failed = told[2] if told else None

    def once(self, stub, step):
        try:
            if step == "infer":
                self.answers.append(stub.ModelInfer(request(), timeout=TIMEOUT).raw_output_contents[0])
            elif step == "load":
                stub.RepositoryModelLoad(pb.RepositoryModelLoadRequest(model_name="digits"), timeout=TIMEOUT)
            else:
                stub.RepositoryModelUnload(pb.RepositoryModelUnloadRequest(model_name="digits"), timeout=TIMEOUT)
            return None
        except grpc.RpcError as e:
            return Failure(step, e.code(), e.details())

    def walk(self, daemon, stub):
        for step in STEPS:
            failure = self.once(stub, step)
            if not failure:
                continue
            self.failures.append(failure)
            again = self.once(stub, step)
            if again:
                self.unhealed = again
                return

    def cause(self):
        """What was told of the failure: the answer's text, or the last line of a daemon that did not start."""
        if self.failures:
            return self.failures[0].text
        lines = [line for line in self.text.splitlines() if line.startswith("thunkd: ")]
        return lines[-1] if self.by_itself and lines else ""


def captured(names, call):
    """Of a graph that could not be made: its thunks are enqueued one by one."""
    before = [n for n in names[:call] if n in ("cuStreamBeginCapture_v2", "cuGraphLaunch", "cuGraphExecDestroy")]
    return before[-1:] == ["cuStreamBeginCapture_v2"]


def passing(good, call, code):
    """What is wrong when that call fails once; None: nothing. And the call's name."""
    w = Walk(f"{call}:{code}")
    if not w.failed:
        return "the call was not made", None
    if "fakecuda: fault" in w.text:
        return re.search(r".*fakecuda: fault.*", w.text)[0], w.failed
    told = bool(w.failures) or w.by_itself
    if not told and not excused(good.names, call) and not captured(good.names, call):
        return "its failure is not told", w.failed
    if told and not named(w.failed, w.cause()):
        return f"not named in: {w.cause()}", w.failed
    if w.by_itself:
        return (None if w.status == 1 else f"exit {w.status}: {w.text[-300:]}"), w.failed
    if w.unhealed or len(w.failures) > 1:
        return f"{len(w.failures)} steps fail, the last twice: {w.unhealed}", w.failed
    if w.status or set(w.answers) != set(good.answers) or len(w.answers) != len(good.answers):
        return f"exit {w.status}, {len(w.answers)} answers: {w.text[-300:]}", w.failed
    return None, w.failed


def lasting(good, call, later):
    w = Walk(f"{call}:700{'~' if later else ''}")
    if not w.failed:
        return "the call was not made", None
    if "fakecuda: fault" in w.text:
        return re.search(r".*fakecuda: fault.*", w.text)[0], w.failed
    if not w.failures and not w.by_itself:  # nothing was asked of the device after it
        return (None if w.status in (0, 75) and len(w.answers) == len(good.answers) else f"exit {w.status}"), w.failed
    if set(w.answers) - set(good.answers):
        return "another answer", w.failed
    if w.failures and w.failures[0].code != grpc.StatusCode.UNAVAILABLE:
        return f"answered {w.failures[0]}", w.failed
    if not re.search(r"CUDA_ERROR_\w+ \(\d+\)|context", w.cause()):
        return f"no cause in: {w.cause()}", w.failed
    if not w.by_itself or w.status not in ((75,) if w.failures else (1, 75)):
        return f"exit {w.status}{'' if w.by_itself else ', told to'}", w.failed
    return None, w.failed


def sweep(calls, step, jobs, say=print):
    """Right and wrong ones, and the functions that failed."""
    good = Walk()
    if good.failures or good.status or len(good.answers) != 3 or "fakecuda: fault" in good.text:
        say(f"FAIL without a failure: exit {good.status}: {good.text[-1000:]}")
        return 0, 1, set()
    last = min(calls, len(good.names))
    work = [(passing, c, 1 + c % 2) for c in range(1, last + 1, step)]  # an invalid value, and no memory
    work += [(lasting, c, bool(c % 2)) for c in range(1 + step // 2, last + 1, step)]
    right = wrong = 0
    names = set()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for (judge, call, how), (error, name) in zip(work, pool.map(lambda w: w[0](good, *w[1:]), work)):
            right, wrong = right + (not error), wrong + bool(error)
            names |= {name} - {None}
            if error:
                say(f"FAIL {judge.__name__}, call {call} ({name}, {how}): {error}")
    say(f"{len(good.names)} calls, {len(work)} failures made, of {len(names)} functions")
    return right, wrong, names


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--calls", type=int, default=400)
    a.add_argument("--step", type=int, default=1)
    a.add_argument("--jobs", type=int, default=2)
    o = a.parse_args()
    right, wrong, _ = sweep(o.calls, o.step, o.jobs)
    print(f"daemon faults: {right} right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
