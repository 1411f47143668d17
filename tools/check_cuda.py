#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run artifacts on the CUDA device, by default with the stand-in driver of tests/fakecuda, and compare the answers.

usage: check_cuda.py THUNKCTL CORPUS [--releases R,...|all] [--seeds N] [--every N] [--verify N] [--only MODEL,...]
                     [--jobs N] [--target T] [--real] [--json FILE]

Every one-device artifact of the releases (the newest) is one test; of them, every N-th (3rd). It runs once as it comes
and once with each of --seeds (1) random schedules of the streams. Right is what agrees with the host device and with
the expected outputs within the case's tolerance, with no fault that the driver sees: no leak, no access out of bounds
or out of order. What cannot be loaded because the device does not do it is refused: neither right nor wrong, told by
reason. --verify N also runs `thunkctl verify` on every N-th. --real leaves the driver as the machine has it, and takes
the artifacts of --target only. Prints a line per wrong one, and last "cuda: N right, N wrong".
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import refused
from check_corpus import RELEASES, difference, read_safetensors

CAPABILITY = {"h100_sxm": "9.0", "b200": "10.0", "a100_sxm_80": "8.0"}
# The stand-in computes instructions; these have kernels that come from none.
NO_MEANING = {"pallas_add": "a kernel that only a GPU can run", "ffi_user_handler": "a user's handler"}


def command(words, env, limit=300):
    """Exit code, standard output, last line of the errors, and the first that tells of a fault."""
    try:
        p = subprocess.run(words, capture_output=True, text=True, errors="replace", env=env, timeout=limit)
    except subprocess.TimeoutExpired:
        return 1, "", f"no answer in {limit} s", ""
    lines = p.stderr.strip().splitlines() or [""]
    fault = next((line for line in lines if line.startswith("fakecuda: fault")), "")
    own = [line for line in lines if not line.startswith("fakecuda:")] or [""]
    return p.returncode, p.stdout, own[-1], fault


def environment(o, path, report, seed):
    if o.real:
        return dict(os.environ)
    folder = pathlib.Path(o.thunkctl).resolve().parent / "fakecuda"
    env = {k: v for k, v in os.environ.items() if not k.startswith("FAKECUDA_")}
    env["LD_LIBRARY_PATH"] = f"{folder}:{env.get('LD_LIBRARY_PATH', '')}"
    env.update(FAKECUDA_ARTIFACT=str(path), FAKECUDA_CC=CAPABILITY[target(path)], FAKECUDA_REPORT=str(report))
    if seed:
        env["FAKECUDA_SEED"] = str(seed)
    return env


def target(path):
    return path.name.split(".")[0].split("+")[0]


class Outcome:
    def __init__(self):
        self.wrong = self.refused = None
        self.exact = True
        self.runs = self.launches = self.verified = 0


def reported(path):
    try:
        return json.loads(path.read_text().splitlines()[-1])
    except (OSError, IndexError, ValueError):
        return {"launches": 0, "faults": 0}


def equal_bytes(a, b):
    return all(k in b and a[k].tobytes() == b[k].tobytes() for k in a)


def run_once(o, path, case, seed, host, out):
    """The wrong or refused text of one run, in out."""
    with tempfile.TemporaryDirectory() as tmp:
        report, got = pathlib.Path(tmp) / "report", pathlib.Path(tmp) / "got"
        words = [o.thunkctl, "run", path, "--inputs", case / "inputs.safetensors", "--outputs", got, "--device", "cuda"]
        code, _, said, fault = command(words, environment(o, path, report, seed))
        about = reported(report)
        out.runs += 1
        out.launches += about["launches"]
        if fault:
            out.wrong = fault
        elif code == 1 and not about["launches"] and refused.reason(said):
            out.refused = refused.reason(said)
        elif code:
            out.wrong = f"exit {code}: {said}"
        else:
            tolerance = json.loads((case / "case.json").read_text())["tolerance"]
            answer = read_safetensors(got)
            out.exact &= bool(host) and equal_bytes(host, answer)
            out.wrong = difference(host, answer, tolerance) if host else None
            expected = case / "outputs.safetensors"
            if not out.wrong and expected.exists():
                out.wrong = difference(read_safetensors(expected), answer, tolerance)
    if out.wrong and seed:
        out.wrong = f"seed {seed}: {out.wrong}"


def host_answer(o, path, case):
    with tempfile.TemporaryDirectory() as tmp:
        got = pathlib.Path(tmp) / "got"
        words = [o.thunkctl, "run", path, "--inputs", case / "inputs.safetensors", "--outputs", got, "--device", "host"]
        return {} if command(words, dict(os.environ))[0] else read_safetensors(got)


def run_verify(o, path, case, out):
    words = [o.thunkctl, "verify", path, "--inputs", case / "inputs.safetensors", "--json"]
    code, text, said, fault = command(words, environment(o, path, os.devnull, 0))
    out.verified += 1
    if fault or (code and not text):
        out.wrong = f"verify: {fault or said}"
    elif code:
        f = json.loads(text)["first"]
        where = f"{f['thunk']} '{f['instruction']}' {f['shape']}{f['index']}"
        out.wrong = f"verify: {where} is {f['got']}, want {f['want']}"


def test(o, number, path):
    out, case = Outcome(), path.parent.parent
    if case.name in NO_MEANING and not o.real:
        out.refused = NO_MEANING[case.name]
        return out
    host = host_answer(o, path, case)
    for seed in range(o.seeds + 1):
        run_once(o, path, case, seed, host, out)
        if out.wrong or out.refused:
            return out
    if o.verify and number % o.verify == 0:
        run_verify(o, path, case, out)
    return out


def artifacts(o):
    releases = RELEASES if o.releases == "all" else o.releases.split(",") if o.releases else RELEASES[-1:]
    found = []
    for case in sorted(o.corpus.glob("*/case.json")):
        about = json.loads(case.read_text())
        if about["devices"] != 1 or (o.only and case.parent.name not in o.only):
            continue
        for release in releases:
            found += sorted((case.parent / release).glob("*.aot"))
    return [p for p in found if not o.target or target(p) == o.target][:: o.every]


def options():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("thunkctl")
    a.add_argument("corpus", type=pathlib.Path)
    a.add_argument("--releases")
    a.add_argument("--seeds", type=int, default=1)
    a.add_argument("--every", type=int, default=3)
    a.add_argument("--verify", type=int, default=0)
    a.add_argument("--only", type=lambda s: s.split(","))
    a.add_argument("--jobs", type=int, default=2)
    a.add_argument("--target", choices=CAPABILITY)
    a.add_argument("--real", action="store_true")
    a.add_argument("--json")
    return a.parse_args()


def main():
    o = options()
    work = artifacts(o)
    right = wrong = 0
    total, reasons = collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for path, out in zip(work, pool.map(lambda w: test(o, *w), enumerate(work))):
            total.update(runs=out.runs, launches=out.launches, verified=out.verified)
            if out.wrong:
                wrong += 1
                print(f"FAIL {path.relative_to(o.corpus)}: {out.wrong}", flush=True)
            elif out.refused:
                reasons[out.refused] += 1
            else:
                right += 1
                total["exact"] += out.exact
    if not work:
        print(f"FAIL no artifacts under {o.corpus}")
        wrong = 1
    for why, n in reasons.most_common():
        print(f"refused {n}: {why}")
    print(
        f"{len(work)} artifacts, {reasons.total()} refused; {total['runs']} runs, {total['launches']} launches, "
        f"{total['exact']} with the host device's very bytes, {total['verified']} verified thunk by thunk"
    )
    if o.json:
        about = dict(total, right=right, wrong=wrong, refused=dict(reasons))
        pathlib.Path(o.json).write_text(json.dumps(about))
    print(f"cuda: {right} right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
