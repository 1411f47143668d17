#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run artifacts with async pairs on the host device's delayed streams and compare the answers.

usage: check_streams.py THUNKCTL CORPUS [--seeds N] [--rest RELEASE|all] [--rest-seeds N] [--jobs N]

Every one-device artifact in CORPUS that starts asynchronous work runs N times (50), each time with other
random delays; all other artifacts of one release, or of all, run once or --rest-seeds times, their only stream being a
queue then. An
artifact is one test. Prints a line per wrong one and last "streams: N right, N wrong".
"""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

from check_corpus import REFUSED, difference, read_safetensors


def command(*words):
    p = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=120)
    return p.returncode, p.stdout, (p.stderr.strip().splitlines() or [""])[-1][:200]


def inspect(ctl, path):
    """Whether the artifact has async pairs; None when it is for several devices or holds no thunks."""
    code, text, _ = command(ctl, "inspect", "--json", path)
    if code:
        return None
    about = json.loads(text)
    if about["replicas"] * about["partitions"] != 1 or not about["thunks"]:
        return None
    return any(t["kind"] == "async_start" for t in about["thunks"])


def run(ctl, path, seeds):
    """What is wrong with the first wrong answer, or None."""
    case = path.parent.parent
    want = read_safetensors(case / "outputs.safetensors")
    tolerance = json.loads((case / "case.json").read_text())["tolerance"]
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "outputs.safetensors"
        words = [ctl, "run", path, "--inputs", case / "inputs.safetensors", "--outputs", out]
        for seed in seeds:
            out.unlink(missing_ok=True)
            code, _, error = command(*words, "--device", f"host:delay={seed}")
            if not code:
                error = difference(want, read_safetensors(out), tolerance)
            if error:
                return f"seed {seed}: {error}"
    return None


def main():
    a = argparse.ArgumentParser()
    a.add_argument("thunkctl")
    a.add_argument("corpus", type=pathlib.Path)
    a.add_argument("--seeds", type=int, default=50)
    a.add_argument("--rest", default="0.12.0.1")
    a.add_argument("--rest-seeds", type=int, default=1)
    a.add_argument("--jobs", type=int, default=2)
    o = a.parse_args()
    known = [p for p in sorted(o.corpus.glob("*/*/*.aot")) if (p.parent.parent / "outputs.safetensors").exists()]
    known = [p for p in known if p.parent.parent.name not in REFUSED]
    wrong = right = runs = 0
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        kinds = list(pool.map(lambda p: inspect(o.thunkctl, p), known))
        work = [(p, range(1, o.seeds + 1)) for p, k in zip(known, kinds) if k]
        rest = [p for p, k in zip(known, kinds) if k is False and o.rest in ("all", p.parent.name)]
        work += [(p, range(i + 1, i + 1 + o.rest_seeds)) for i, p in enumerate(rest)]
        for (path, seeds), error in zip(work, pool.map(lambda w: run(o.thunkctl, *w), work)):
            runs += len(seeds)
            if error:
                print(f"FAIL {path.relative_to(o.corpus)}: {error}", flush=True)
            wrong += bool(error)
            right += not error
    if not any(kinds):
        print(f"FAIL no artifacts with async pairs under {o.corpus}")
        wrong += 1
    print(f"{sum(map(bool, kinds))} artifacts with async pairs, {len(rest)} others, {runs} runs")
    print(f"streams: {right} right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
