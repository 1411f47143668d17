#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the golden executables: artifacts that released compilers wrote, which every later thunkd must run alike.

usage: run.py THUNKCTL [DEVICE] [--target T] [--versions vN,...] [--only CASE,...] [--jobs N] [--no-compile]

DEVICE is what `thunkctl run --device` takes, else $THUNKD_DEVICE, else host. By default the oldest and the second
newest version run, then the newest, whose models are compiled anew when a Python with JAX is at hand ($JAX_PYTHON,
else this one) in the newest golden's release; the new executable must have the golden's structure (kinds of
thunks in order, kernels, allocations, constants) and give its answers. XLA_AOT_TEST_ALL_VERSIONS=1 runs all versions.
OpenXLA's own goldens are read and written too when $THUNKD_XLA_GOLDENS names their folder.

Each executable is one test, each new compilation another. Prints a line per wrong one, what was skipped, and last
"golden: N right, M wrong". Needs numpy and ml_dtypes. To add a version: make golden-add RELEASE=X.Y.Z
"""

import argparse
import concurrent.futures
import os
import pathlib
import sys
import tempfile

import xla_goldens
from goldens import FOLDER, HERE, Unsupported, answers, call, misjudged, release_key, structure, unlike, versions


class Tally:
    def __init__(self):
        self.right = self.wrong = 0
        self.skipped = {}

    def add(self, name, error):
        if error:
            self.wrong += 1
            print(f"FAIL {name}: {error}", flush=True)
        else:
            self.right += 1

    def skip(self, name, why):
        self.skipped.setdefault(why, []).append(name)

    def each(self, jobs, work, test):
        """test(item) -> error or None, or raises Unsupported; work: (name, item) pairs."""

        def guarded(pair):
            try:
                return test(pair[1]), None
            except Unsupported as e:
                return None, str(e)
            except (OSError, ValueError, KeyError) as e:
                return repr(e), None

        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for (name, _), (error, unsupported) in zip(work, pool.map(guarded, work)):
                if unsupported:
                    self.skip(name, unsupported)
                else:
                    self.add(name, error)


def cases(version, only):
    _, path, release = version
    named = [c for c in sorted(path.iterdir()) if not only or c.name in only]
    return [(f"{path.name} ({release}) {c.name}", (c, release)) for c in named]


def chosen(found, wanted):
    """The versions to run by default: oldest, second newest and newest of those there."""
    if wanted:
        return [v for v in found if v[1].name in wanted]
    if os.environ.get("XLA_AOT_TEST_ALL_VERSIONS") == "1":
        return found
    return sorted({v[0]: v for v in [found[0], *found[-2:]]}.values())


def compiler(newest):
    """(Python, None), or (None, why nothing is compiled anew)."""
    python = os.environ.get("JAX_PYTHON") or sys.executable
    code, said, _ = call([python, "-c", "import jax, jax_plugins.xla_cuda13; print(jax.__version__)"])
    if code:
        return None, "no JAX with a CUDA compiler in $JAX_PYTHON or this Python"
    release = said.split()[-1]
    if release == newest[2]:
        return python, None
    age = "newer" if release_key(release) > release_key(newest[2]) else "older"
    advice = f"; make golden-add RELEASE={release} adds it" if age == "newer" else ""
    return None, f"JAX {release} is {age} than {newest[1].name} ({newest[2]}){advice}"


def compile_anew(tally, o, newest):
    python, why = compiler(newest)
    if not python:
        tally.skip(f"{newest[1].name} compiled anew", why)
        return
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp) / "new"
        command = [python, HERE / "compile_cases.py", folder, "--target", o.target, "--like", newest[1]]
        code, _, error = call(command + (["--only", ",".join(o.only)] if o.only else []), 1200)
        if code:
            tally.add(f"{newest[1].name} compiled anew", error)
            return

        def test(golden):
            new = folder / golden.name / "executable.aot"
            error = answers(o.thunkctl, o.device, new, golden)
            return error or unlike(structure(o.thunkctl, golden / "executable.aot"), structure(o.thunkctl, new))

        made = [(f"{name} compiled anew", c) for name, (c, _) in cases(newest, o.only) if (folder / c.name).exists()]
        tally.each(o.jobs, made, test)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("thunkctl")
    a.add_argument("device", nargs="?", default=os.environ.get("THUNKD_DEVICE") or "host")
    a.add_argument("--target", default="h100_sxm", help="folder under executables (h100_sxm)")
    a.add_argument("--folder", type=pathlib.Path, default=FOLDER, help="in place of tests/golden/executables")
    a.add_argument("--versions", type=lambda s: s.split(","))
    a.add_argument("--only", type=lambda s: s.split(","))
    a.add_argument("--jobs", type=int, default=2)
    a.add_argument("--no-compile", action="store_true", help="do not compile the newest version's models anew")
    o = a.parse_args()
    tally = Tally()
    found = versions(o.target, o.folder)
    work = [pair for v in chosen(found, o.versions) for pair in cases(v, o.only)] if found else []
    if not work:
        tally.add(f"no goldens for {o.target}", "nothing ran")

    def test(item):
        case, release = item
        artifact = case / "executable.aot"
        return misjudged(o.thunkctl, artifact, release) or answers(o.thunkctl, o.device, artifact, case)

    tally.each(o.jobs, work, test)
    if found and not o.no_compile and not o.versions:
        compile_anew(tally, o, found[-1])
    if not o.versions and not o.only:
        xla_goldens.test_all(tally, o.thunkctl, o.jobs)
    for why, names in tally.skipped.items():
        print(f"skip {', '.join(names)}: {why}")
    print(f"golden: {tally.right} right, {tally.wrong} wrong")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
