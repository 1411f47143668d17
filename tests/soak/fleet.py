# SPDX-License-Identifier: Apache-2.0
"""What the soak tests share: models of a given size with known answers, clients, and what the kernel says."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "system")]

import numpy as np  # noqa: E402
import tritonclient.grpc as triton  # noqa: E402
from daemon_fixture import BUILD, Daemon, read_safetensors  # noqa: E402

MIB = 1 << 20


class Model:
    """An artifact with constants of its own (or shared with another seed), its inputs and its right answer."""

    def __init__(self, folder, bytes, seed, *options):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / f"{seed}-{bytes}.aot"
        expect, inputs = (self.path.with_suffix(s) for s in (".expect.safetensors", ".in.safetensors"))
        if not self.path.exists():
            subprocess.run([BUILD / "make-artifact", self.path, "--bytes", str(bytes), "--seed", str(seed), "--constants", "60", *options,
                            "--expect", expect, "--inputs", inputs], check=True)
        self.inputs, self.expect = read_safetensors(inputs), read_safetensors(expect)

    def put(self, store, name, version=1, **yaml):
        """Commits it: a folder beside, then a rename."""
        model = pathlib.Path(store) / name
        part, whole = model / f"{version}.partial", model / str(version)
        part.mkdir(parents=True)
        os.link(self.path, part / "model.aot")
        if yaml:
            (model / "model.yaml").write_text("".join(f"{k}: {json.dumps(v)}\n" for k, v in yaml.items()))
        part.rename(whole)

    def ask(self, client, name, version="", timeout=None):
        """Whether the answer is right. Failures of the call are raised."""
        given = []
        meta = ask_names(client, name)
        for (key, value), n in zip(sorted(self.inputs.items(), key=lambda kv: int(kv[0])), meta):
            t = triton.InferInput(n, list(value.shape), triton_type(value.dtype))
            t.set_data_from_numpy(value)
            given.append(t)
        r = client.infer(name, given, model_version=version, client_timeout=timeout or 60)
        outputs = r.get_response().outputs
        return all(np.array_equal(r.as_numpy(o.name), self.expect[str(i)]) for i, o in enumerate(outputs))


_names = {}


def ask_names(client, name):
    if name not in _names:
        _names[name] = [i.name for i in client.get_model_metadata(name).inputs]
    return _names[name]


def triton_type(dtype):
    return {"float32": "FP32", "int32": "INT32"}[str(dtype)]


def memory(pid):
    """Resident bytes: now, and the most there have been."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    value = {line.split(":")[0]: line.split()[1] for line in text.splitlines() if line.startswith("Vm")}
    return int(value["VmRSS"]) * 1024, int(value["VmHWM"]) * 1024


def forget_peak(pid):
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


def held(pid):
    """Descriptors, mappings, threads."""
    proc = pathlib.Path(f"/proc/{pid}")
    maps = len((proc / "maps").read_text().splitlines())
    return len(list((proc / "fd").iterdir())), maps, len(list((proc / "task").iterdir()))


def ctl(d, *args):
    """thunkctl on the admin socket; its JSON, for what tells something."""
    json_too = ["--json"] if args[0] in ("ls", "budget") else []
    r = subprocess.run([BUILD / "thunkctl", *args, "--socket", d.admin, *json_too], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"{args}: {r.stderr or r.stdout}")
    return json.loads(r.stdout) if json_too else None


class Sampler(threading.Thread):
    """Looks at something every few milliseconds while a test runs."""

    def __init__(self, look, every=0.02):
        super().__init__(daemon=True)
        self.look, self.every, self.values, self.over = look, every, [], threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(self.every):
            try:
                self.values.append(self.look())
            except (OSError, RuntimeError):
                pass

    def stop(self):
        self.over.set()
        self.join()
        return self.values


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    pathlib.Path(folder).mkdir(parents=True)
    return pathlib.Path(folder)


def wait_until(test, seconds, what):
    end = time.monotonic() + seconds
    while not test():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.01)


__all__ = ["BUILD", "Daemon", "MIB", "Model", "Sampler", "ctl", "forget_peak", "fresh", "held", "memory", "triton", "wait_until"]
