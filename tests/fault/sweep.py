#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets every call of the CUDA driver fail once, with the stand-in driver of tests/fakecuda.

usage: sweep.py THUNKCTL [CORPUS] [--calls N] [--step N] [--models MODEL,...] [--jobs N]

A model is loaded, run and unloaded with the first call failing, then with the second, and so on to the last but at
most --calls (400); with --step (17), every N-th. Each failure is one test, made twice: the call returns an error and
does nothing; and the call succeeds but its kernel destroys the context. Right is an error that names the call (or,
later, what became of the context), or the same answer as without: never a crash, a wrong answer, a fault that the driver
sees, or a leak. Models are goldens here, and with CORPUS, larger ones. Prints a line per wrong one and last
"fault: N right, N wrong".
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests/golden/executables/h100_sxm/v6"
sys.path.insert(0, str(ROOT / "tools"))
import refused  # noqa: E402

MODELS = ["control", "attention", "sorting", "streams", "spectral"]
LARGER = ["parallel_branches", "net_minilm_b1", "nested_loops", "decode_step", "linalg_more"]
# Calls that may fail untold: releases, texts of errors, questions that need no answer, a choice among algorithms of
# which one is enough; and waits when all is done: before a stream is destroyed, before the context is given back.
EXCUSED = re.compile(
    r"Destroy|Free|Unload|Unregister|Release|GetError|SetCurrent|GetParamInfo|GetName|GetUuid|PriorityRange"
    r"|AlgoGetHeuristic|MatmulPreference"
)


class Model:
    def __init__(self, name, artifact, inputs):
        self.name, self.artifact, self.inputs = name, artifact, inputs


def models(o):
    found = []
    for name in o.models or MODELS:
        if (GOLDENS / name).exists():
            found.append(Model(name, GOLDENS / name / "executable.aot", GOLDENS / name / "inputs.safetensors"))
    for name in o.models or LARGER:
        paths = sorted(o.corpus.glob(f"{name}/*/h100_sxm.aot")) if o.corpus else []
        if paths:
            found.append(Model(name, paths[-1], o.corpus / name / "inputs.safetensors"))
    return found


def excused(names, call):
    name, after = names[call - 1], [n for n in names[call:] if n != "cuCtxSetCurrent"]
    if name == "cuStreamSynchronize":
        return after[:1] == ["cuStreamDestroy_v2"]
    return EXCUSED.search(name) or (name == "cuCtxSynchronize" and not any("Memcpy" in n for n in after))


def named(call, cause):
    """By its name or the stem of it, as gesvdj of cusolverDnSgesvdj; a lack of memory by what there was."""
    if "Alloc" in call and "bytes of device memory" in cause:
        return True
    call, cause = (re.sub(r"_v\d\b", "", s.replace("_bufferSize", "_size")).lower() for s in (call, cause))
    words = re.findall(r"[a-z]\w{4,}", cause)
    return any(call.endswith(w) or (len(w) > 7 and call.startswith(w)) for w in words)


def run(o, model, fail=None):
    """Exit code, errors, outputs, the driver's report."""
    with tempfile.TemporaryDirectory() as tmp:
        got, report = pathlib.Path(tmp) / "got", pathlib.Path(tmp) / "report"
        env = {k: v for k, v in os.environ.items() if not k.startswith("FAKECUDA_")}
        folder = pathlib.Path(o.thunkctl).resolve().parent / "fakecuda"
        env.update(LD_LIBRARY_PATH=str(folder), FAKECUDA_ARTIFACT=str(model.artifact), FAKECUDA_MEM="64M")
        env.update(FAKECUDA_CC="9.0", FAKECUDA_REPORT=str(report), FAKECUDA_COUNT="2")
        env.update({"FAKECUDA_FAIL": fail} if fail else {})
        words = [o.thunkctl, "run", model.artifact, "--inputs", model.inputs, "--outputs", got, "--device", "cuda"]
        try:
            p = subprocess.run(words, capture_output=True, text=True, errors="replace", env=env, timeout=120)
        except subprocess.TimeoutExpired:
            return 124, "no answer in 120 s", b"", {}
        answer = got.read_bytes() if got.exists() else b""
        about = json.loads(report.read_text().splitlines()[-1]) if report.exists() else {}
        return p.returncode, p.stderr, answer, about


def judge(o, model, want, names, call, later):
    """What is wrong with a run whose given call fails, or None; and the call's name, "" if it was not reached."""
    code, said, got, _ = run(o, model, f"{call}:{'700~' if later else '2'}")
    told = re.search(r"fakecuda: call \d+ fails: (\w+)", said)
    name = told[1] if told else ""
    cause = [line for line in said.splitlines() if line.startswith("thunkctl: ")]
    fault = next((line for line in said.splitlines() if "fakecuda: fault" in line), None)
    if fault or code not in (0, 1, 2):
        return f"{name}: exit {code}: {fault or said[-300:]}", name
    if code == 0:
        if got != want:
            return f"{name}: exit 0 and another answer", name
        return (None if not name or later or excused(names, call) else f"{name}: its failure is not told"), name
    if len(cause) != 1:
        return f"{name}: {len(cause)} lines of cause: {said[-300:]}", name
    if later:
        return (None if re.search(r"CUDA_ERROR|context|\(700\)", cause[0]) else f"{name}, later: {cause[0]}"), name
    return (None if named(name, cause[0]) else f"{name}: not named in: {cause[0]}"), name


def sweep(o, pool, model, totals):
    code, said, want, about = run(o, model)
    why = refused.reason(said) if code == 1 and not about.get("launches") else None
    if why:
        print(f"skip {model.name}: {why}")
        return 0, 0
    if code:
        print(f"FAIL {model.name}: exit {code}: {said[-300:]}")
        return 0, 1
    right = wrong = 0
    names = re.findall(r"fakecuda: call \d+: (\w+)", said)
    last = min(len(names), o.calls)
    work = [(c, later) for later in (False, True) for c in range(1, last + 1, o.step)]
    for (call, later), (error, name) in zip(work, pool.map(lambda w: judge(o, model, want, names, *w), work)):
        totals[name] += 1
        right += not error
        wrong += bool(error)
        if error:
            print(f"FAIL {model.name}, call {call}{', later' if later else ''}: {error}", flush=True)
    print(f"{model.name}: {len(names)} calls, {len(work)} failures made", flush=True)
    return right, wrong


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("thunkctl")
    a.add_argument("corpus", nargs="?", type=lambda s: pathlib.Path(s) if s else None)
    a.add_argument("--calls", type=int, default=400)
    a.add_argument("--step", type=int, default=17)
    a.add_argument("--models", type=lambda s: s.split(","))
    a.add_argument("--jobs", type=int, default=2)
    o = a.parse_args()
    totals, right, wrong = collections.Counter(), 0, 0
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for model in models(o):
            r, w = sweep(o, pool, model, totals)
            right, wrong = right + r, wrong + w
    print(f"{len(totals)} functions of the driver failed")
    if not right:
        print("FAIL nothing ran")
        wrong += 1
    print(f"fault: {right} right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
