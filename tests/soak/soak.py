#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The store under load: memory, sharing, cycles, eviction, and being killed.

usage: soak.py [--work FOLDER] [--scale F] [TEST ...]

Tests: large, cycles, evict, kill; all by default. --scale makes them shorter (1 is the full length). Each prints its
figures, and "ok" or "FAIL" with what was wrong. Exit 1 when one failed. THUNKD_BUILD names the build folder.
"""
import argparse
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from fleet import BUILD, MIB, Daemon, Model, Sampler, ctl, forget_peak, fresh, held, memory, triton, wait_until


class Wrong(Exception):
    pass


def need(ok, text):
    print(("  ok   " if ok else "  FAIL ") + text, flush=True)
    if not ok:
        raise Wrong(text)


def loaded(d, name, version):
    return any(m["name"] == name and m["version"] == str(version) and m["state"] == "READY" for m in ctl(d, "ls")["models"])


# ---- one large artifact, and a second version that shares most of it ----


def large(work, scale):
    size = int(512 * MIB * scale) // MIB * MIB
    one = Model(work / "models", size, 1)
    two = Model(work / "models", size, 2, "--share", "0.95", "--of", "1")
    store = fresh(work / "store")
    d = Daemon(store=store)
    try:
        base, _ = memory(d.process.pid)
        forget_peak(d.process.pid)
        one.put(store, "m", 1, versions="all")
        wait_until(lambda: loaded(d, "m", 1), 120, "m/1")
        rss, peak = memory(d.process.pid)
        need(rss - base <= 1.02 * size + 16 * MIB, f"resident growth {(rss - base) / size:.3f} of the payload, {(rss - base - size) / MIB:.1f} MiB over")
        need(peak - base <= 1.10 * size + 32 * MIB, f"peak growth {(peak - base) / size:.3f} of the payload")
        if scale >= 1:  # times are figures for a machine with nothing else to do
            speed = load_speed(d, one)
            need(speed >= 0.7, f"loaded at {speed:.2f} of the speed of a bare loop")
        two.put(store, "m", 2)
        wait_until(lambda: loaded(d, "m", 2), 120, "m/2")
        more, _ = memory(d.process.pid)
        need(more - rss <= 0.07 * size, f"a version that shares 95 % adds {(more - rss) / size:.3f}")
        client = triton.InferenceServerClient(d.target)
        need(one.ask(client, "m", "1") and two.ask(client, "m", "2"), "both answer right")
        b = ctl(d, "budget")
        now, _ = memory(d.process.pid)
        charged = b["domains"][0]["charged"]
        need(abs(charged + base - now) <= 0.05 * now, f"charged {charged / MIB:.0f} MiB + {base / MIB:.0f} at the start, resident {now / MIB:.0f}")
    finally:
        d.close()


def load_speed(d, model):
    """Of the daemon's loads, against reading and decompressing the file and nothing else; the best of a few of each."""
    for _ in range(4):
        ctl(d, "unload", "m")
        ctl(d, "load", "m")
    took = min(float(x) for x in re.findall(rb"m/1: ready, .* in ([0-9.]+) ms", d.text()))
    bare = []
    for _ in range(3):
        r = subprocess.run([BUILD / "load-bench", model.path], capture_output=True, text=True, check=True)
        bare.append(float(re.search(r"bare loop +([0-9.]+) s", r.stdout).group(1)) * 1000)
    print(f"  load {took:.0f} ms, bare loop {min(bare):.0f} ms")
    return min(bare) / took


# ---- loading and unloading ----


def cycles(work, scale):
    count = max(60, int(2000 * scale))
    sizes = [int(MIB * x) for x in (0.125, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8)]
    store = fresh(work / "store")
    for i, size in enumerate(sizes):
        Model(work / "models", size, 100 + i).put(store, f"m{i}", 1, load="explicit")
    d = Daemon(store=store)
    try:
        rng, base, first, aside = random.Random(5), None, None, ctl(d, "budget")["domains"][0]["reserved"]
        with triton.InferenceServerClient("unix:" + d.admin) as client:
            for k in range(count):
                name = f"m{rng.randrange(len(sizes))}"
                client.load_model(name)
                client.unload_model(name)
                if k == 19:
                    time.sleep(2.5)  # what is free goes back to the system within a second or two
                    base, first = memory(d.process.pid)[0], held(d.process.pid)
            time.sleep(2.5)
            end, last = memory(d.process.pid)[0], held(d.process.pid)
            need(end - base <= 0.03 * base, f"{count} cycles: resident {base / MIB:.1f} MiB after 20, {end / MIB:.1f} MiB at the end")
            need(last[0] <= first[0] and last[2] <= first[2], f"descriptors {first[0]} and {last[0]}, threads {first[2]} and {last[2]}")
            need(last[1] <= first[1] * 1.2 + 16, f"mappings {first[1]} and {last[1]}")
            need(ctl(d, "budget")["domains"][0]["reserved"] == aside, f"{aside / MIB:.0f} MiB are set aside as at the start")
    finally:
        d.close()


# ---- more models than the budget has room for ----


def evict(work, scale):
    seconds, each = max(5, 120 * scale), 8 * MIB
    store = fresh(work / "store")
    models = [Model(work / "models", each, 200 + i) for i in range(20)]
    for i, m in enumerate(models):
        m.put(store, f"m{i}", 1, load="on_demand")
    d = Daemon(store=store, threads=2, queue_depth=256)
    probe = triton.InferenceServerClient(d.target)
    models[0].ask(probe, "m0")
    one = next(m for m in ctl(d, "ls")["models"] if m["name"] == "m0")["charged_bytes"]
    d.close()
    limit = int(7.5 * one)
    d = Daemon(store={"path": str(store), "budget": {"host": limit}}, threads=2, queue_depth=256)
    wrong, failed, refused, answered, lock = [], [], [0], [0], threading.Lock()
    end = time.monotonic() + seconds

    def client_main(seed):
        rng = random.Random(seed)
        with triton.InferenceServerClient(d.target) as client:
            while time.monotonic() < end:
                i = min(19, int(rng.expovariate(0.25)))
                try:
                    ok = models[i].ask(client, f"m{i}")
                    with lock:
                        answered[0] += 1
                        if not ok:
                            wrong.append(i)
                except triton.InferenceServerException as e:
                    with lock:
                        if "RESOURCE_EXHAUSTED" in str(e.status()) and "budget" in e.message():
                            refused[0] += 1
                        else:
                            failed.append(f"{e.status()}: {e.message()}")

    try:
        threads = [threading.Thread(target=client_main, args=(k,)) for k in range(16)]
        sampler = Sampler(lambda: ctl(d, "budget")["domains"][0], 0.25)
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        samples = sampler.stop()
        most = max(s["charged"] + s["reserved"] for s in samples)
        need(not wrong, f"{answered[0]} answers in {seconds:.0f} s, {len(wrong)} wrong")
        need(not failed, f"{len(failed)} failed requests {failed[:3]}, {refused[0]} refused by the budget")
        need(most <= limit and max(s["peak"] for s in samples) <= limit, f"at most {most / limit:.2f} of the budget in {len(samples)} samples")
        need(sum(m["evictions"] for m in ctl(d, "ls")["models"]) > 20, "models were evicted and came back")
    finally:
        d.close()


# ---- being killed ----


def kill(work, scale):
    rounds, rng = max(6, int(100 * scale)), random.Random(11)
    small = [Model(work / "models", 4 * MIB, 300 + i) for i in range(3)]
    store = fresh(work / "store")
    small[0].put(store, "m", 1)
    current = 1
    for k in range(rounds):
        d = Daemon(store=store)
        try:
            with triton.InferenceServerClient(d.target, ) as client:
                if not small[(current - 1) % 3].ask(client, "m"):
                    raise Wrong(f"round {k}: version {current} does not answer right")
            what = rng.choice(["swap", "unload", "load", "remove"])
            if what in ("swap", "remove"):
                current += 1
                small[(current - 1) % 3].put(store, "m", current)
                if what == "remove":
                    shutil.rmtree(store / "m" / str(current - 1))
            else:
                threading.Thread(target=lambda: quiet(lambda: ctl(d, what, "m")), daemon=True).start()
            time.sleep(rng.uniform(0, 0.06))
            d.process.send_signal(signal.SIGKILL)
            d.process.wait()
        finally:
            d.close()
    need(True, f"killed {rounds} times, and each time the next start served what was committed")


def quiet(f):
    try:
        f()
    except RuntimeError:
        pass


TESTS = {f.__name__: f for f in (large, cycles, evict, kill)}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("tests", nargs="*", choices=[*TESTS, []], help="which (all)")
    p.add_argument("--work", help="folder for models and stores (a temporary one)")
    p.add_argument("--scale", type=float, default=1.0)
    a = p.parse_args()
    work = pathlib.Path(a.work or tempfile.mkdtemp(prefix="thunkd-soak-"))
    bad = 0
    try:
        for name in a.tests or TESTS:
            began = time.monotonic()
            print(f"{name}:", flush=True)
            try:
                TESTS[name](work, a.scale)
            except Wrong:
                bad += 1
            print(f"  {time.monotonic() - began:.0f} s", flush=True)
    finally:
        if not a.work:
            shutil.rmtree(work)
    print(f"soak: {len(a.tests or TESTS) - bad} right, {bad} wrong")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
