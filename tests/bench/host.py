#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times networks on the host device, and beside it on JAX's CPU backend with as many threads.

usage: host.py THUNKCTL [--nets FOLDER --generator FILE.py] [--jax PYTHON] [--only NET,...] [--threads 1,all]
               [--rounds N] [--seconds S] [--json FILE]

Without --nets the networks of nets.py are used; they are generated once, beside THUNKCTL. FOLDER/NET/ holds
model.aot, inputs.safetensors, perhaps weights.safetensors, outputs.safetensors and case.json; FILE.py makes the
same networks as JAX functions (nets.py says how). Without a Python that has JAX, or without a generator, thunkd is
timed alone. Both sides run in turn, --rounds times, --seconds each; with one thread, both on one core that they
share. The error is that of thunkd's outputs against outputs.safetensors, relative to 1 + the wanted value; it is
printed and fails nothing; "fragile" is what case.json calls a network whose integers flip when rounding differs.
Best done on a machine with nothing else to do; the ratio of CPU times (cpu: least of all runs, one thread) bears
other work better.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
LEAST_RUNS, MOST_RUNS = 3, 1000
LAST_LINES = 3


def cpus():
    return sorted(os.sched_getaffinity(0))


def pin(threads):
    """What to put before a command."""
    return ["taskset", "-c", str(cpus()[-1])] if threads == 1 else []


class Jax:
    """A worker that has the network compiled and its weights resident."""

    def __init__(self, python, generator, net, threads):
        env = dict(os.environ, JAX_PLATFORMS="cpu")
        if threads == 1:
            env["XLA_FLAGS"] = f"{env.get('XLA_FLAGS', '')} {ONE_THREAD}".strip()
        self.log = tempfile.TemporaryFile("w+")
        command = [*pin(threads), python, str(HERE / "jax_worker.py"), str(generator), net]
        self.process = subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.log.seek(0)
            raise RuntimeError("JAX: " + " | ".join(self.log.read().splitlines()[-LAST_LINES:]))
        return json.loads(line)

    def run(self, n):
        print("run", n, file=self.process.stdin, flush=True)
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Thunkd:
    def __init__(self, thunkctl, folder, threads):
        self.folder = folder
        self.outputs = pathlib.Path(tempfile.mkdtemp()) / "outputs.safetensors"
        self.command = [*pin(threads), str(thunkctl), "run", str(folder / "model.aot"), "--threads", str(threads),
                        "--json", "--outputs", str(self.outputs)]
        for name in ("inputs", "weights"):
            if (folder / f"{name}.safetensors").exists():
                self.command += [f"--{name}", str(folder / f"{name}.safetensors")]

    def run(self, n):
        """n pairs of ms, elapsed and of the CPUs; one run more goes before them, for a process of its own is cold."""
        done = subprocess.run([*self.command, "--repeat", str(n + 1)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        told = json.loads(done.stdout)
        return list(zip(told["times_ms"], told["cpu_ms"]))[1:]

    def error(self):
        """Text: the largest error of the latest run's outputs."""
        try:
            import tensors
        except ImportError:
            return "no numpy"
        want = self.folder / "outputs.safetensors"
        if not want.exists():
            return "-"
        worst, differ = tensors.largest_error(tensors.read(want), tensors.read(self.outputs))
        return f"{worst:.1e}" + (f", {differ} integers" if differ else "")

    def close(self):
        self.outputs.unlink(missing_ok=True)
        self.outputs.parent.rmdir()


def enough(ms, seconds):
    return max(LEAST_RUNS, min(MOST_RUNS, int(seconds * 1e3 / min(ms)[0])))


def measure(options, net, threads, jax_python, generator):
    """One row of the table."""
    sides, row = {}, {"net": net, "threads": threads}
    try:
        sides["thunkd"] = Thunkd(options.thunkctl, options.nets / net, threads)
        if jax_python and generator:
            sides["jax"] = Jax(jax_python, generator, net, threads)
        runs = {name: enough(side.run(LEAST_RUNS), options.seconds) for name, side in sides.items()}
        times = {name: [] for name in sides}
        for _ in range(options.rounds):
            for name, side in sides.items():
                times[name].append(side.run(runs[name]))
        for name, rounds in times.items():
            elapsed = [[t for t, _ in r] for r in rounds]
            row[name] = {"min_ms": min(map(min, elapsed)), "median_ms": statistics.median(sum(elapsed, [])),
                         "cpu_min_ms": min(cpu for r in rounds for _, cpu in r), "runs": sum(map(len, rounds)),
                         "medians_ms": list(map(statistics.median, elapsed))}
        row["error"] = sides["thunkd"].error()
        path = options.nets / net / "case.json"
        case = json.loads(path.read_text()) if path.exists() else {}
        row["tolerance"] = case.get("tolerance_host")
        row["fragile"] = bool(case.get("fragile"))
    finally:
        for side in sides.values():
            side.close()
    return row


def ratio(row, what):
    return row["thunkd"][what] / row["jax"][what]


def cpu_ratio(row):
    """With one thread only: several may spin while they wait."""
    return f"{ratio(row, 'cpu_min_ms'):5.2f}" if row["threads"] == 1 and "jax" in row else f"{'-':>5}"


def print_row(row):
    def pair(side):
        return f"{row[side]['min_ms']:9.3f} {row[side]['median_ms']:9.3f}" if side in row else f"{'-':>9} {'-':>9}"

    ratios = f"{ratio(row, 'min_ms'):6.2f} {ratio(row, 'median_ms'):6.2f}" if "jax" in row else f"{'-':>6} {'-':>6}"
    tolerance = f" ({row['tolerance']:g})" if row["tolerance"] else ""
    tolerance += " fragile" if row["fragile"] else ""
    print(f"{row['net']:22} {row['threads']:3} {pair('thunkd')} {pair('jax')} {ratios} {cpu_ratio(row)}  "
          f"{row['error']}{tolerance}", flush=True)


def print_summary(rows):
    for threads in sorted({r["threads"] for r in rows}):
        mine = [r for r in rows if r["threads"] == threads and "jax" in r]
        if mine:
            worst = max(mine, key=lambda r: ratio(r, "min_ms"))
            middle = lambda what: statistics.median(ratio(r, what) for r in mine)
            cpu = f", {middle('cpu_min_ms'):.2f} of CPU time" if threads == 1 else ""
            print(f"{threads} thread(s), thunkd/JAX: worst {ratio(worst, 'min_ms'):.2f} ({worst['net']}), "
                  f"median {middle('min_ms'):.2f} of minima, {middle('median_ms'):.2f} of medians{cpu}")


def jax_version(python):
    """None if that Python has no JAX."""
    command, env = [python, "-c", "import jax; print(jax.__version__)"], dict(os.environ, JAX_PLATFORMS="cpu")
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def own_nets(folder, python):
    """The networks of nets.py, generated if need be."""
    missing = [n for n in ("encoder", "convnet", "decoder") if not (folder / n / "case.json").exists()]
    if missing and python:
        print(f"generating {' '.join(missing)} in {folder}", file=sys.stderr)
        done = subprocess.run([python, str(HERE / "nets.py"), str(folder), *missing], capture_output=True, text=True)
        if done.returncode:
            sys.exit("cannot generate networks; JAX's CUDA plugin and nvcc's pip packages are needed (tools/export): "
                     + " | ".join(done.stderr.splitlines()[-LAST_LINES:]))
    elif missing:
        sys.exit(f"no networks in {folder} and no JAX to generate them with: set NETS to a folder of networks, or "
                 "JAX_PYTHON to a Python with JAX and its CUDA plugin")


def parse():
    p = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    p.add_argument("thunkctl", type=pathlib.Path)
    p.add_argument("--nets", type=pathlib.Path)
    p.add_argument("--generator", type=pathlib.Path)
    p.add_argument("--jax", default=sys.executable)
    p.add_argument("--only", default="")
    p.add_argument("--threads", default="1,all")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=1.0)
    p.add_argument("--json", type=pathlib.Path)
    return p.parse_args()


def machine():
    info = pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
    names = [line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")]
    return f"{names[0] if names else os.uname().machine}, {len(cpus())} CPUs"


def main():
    options = parse()
    version = jax_version(options.jax)
    python = options.jax if version else None
    generator = options.generator
    if not options.nets:
        options.nets, generator = options.thunkctl.parent / "nets", HERE / "nets.py"
        own_nets(options.nets, python)
    if not python:
        print(f"{options.jax} has no JAX: times of thunkd alone (JAX_PYTHON names another one)", file=sys.stderr)
    elif not generator:
        print(f"no generator of {options.nets}: times of thunkd alone (GENERATOR names one)", file=sys.stderr)
    only = [n for n in options.only.split(",") if n]
    nets = sorted(a.parent.name for a in options.nets.glob("*/model.aot") if not only or a.parent.name in only)
    counts = sorted({len(cpus()) if t == "all" else int(t) for t in options.threads.split(",")})
    print(f"{machine()}; JAX {version or 'none'}; load {os.getloadavg()[0]:.1f}")
    print(f"{'':22} {'':3} {'thunkd ms':^19} {'JAX ms':^19} {'thunkd/JAX':^19}")
    pair = f"{'min':>9} {'median':>9}"
    print(f"{'net':22} {'thr':3} {pair} {pair} {'min':>6} {'median':>6} {'cpu':>5}  error (tolerance)")
    rows, failed = [], False
    for net in nets:
        for threads in counts:
            try:
                rows.append(measure(options, net, threads, python, generator))
                print_row(rows[-1])
            except (RuntimeError, ValueError) as e:
                failed = True
                print(f"{net:22} {threads:3} {e}", flush=True)
    print_summary(rows)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "jax": version, "rows": rows}, indent=1) + "\n")
    if not nets:
        sys.exit(f"no networks in {options.nets}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
