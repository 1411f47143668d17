# SPDX-License-Identifier: Apache-2.0
"""Compile for a GPU that is not there: a text file describes it to the compiler."""
import os
import pathlib
import pickletools

# File names only: an artifact should not tell where it was built.
os.environ.setdefault("JAX_HLO_SOURCE_FILE_CANONICALIZATION_REGEX", ".*/")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from jax.experimental.serialize_executable import serialize  # noqa: E402
from jax.sharding import SingleDeviceSharding  # noqa: E402

TARGETS = pathlib.Path(__file__).parent / "targets"
RIEGELI = bytes.fromhex("83af70d10d884a3f0000000000000000")


def targets():
    """Names of the targets that come with the exporter."""
    return sorted(p.stem for p in TARGETS.glob("*.txtpb"))


def _topology(target):
    path = TARGETS / f"{target}.txtpb"
    if not path.exists():
        raise ValueError(f"no target {target!r}; there are {', '.join(targets())}")
    return topologies.get_topology_desc(platform="cuda", target_config=path.read_text(), topology="1x1x1")


def _varint(data):
    value = shift = 0
    for i, c in enumerate(data):
        value |= (c & 127) << shift
        shift += 7
        if c < 128:
            return value, i + 1
    raise ValueError("unfinished varint")


def _executable_bytes(compiled):
    """The PJRT executable inside JAX's pickle: its one long byte string, less IFRT's header."""
    pickled, _, _ = serialize(compiled)
    payload = max((a for _, a, _ in pickletools.genops(pickled) if isinstance(a, bytes)), key=len)
    if payload.startswith(RIEGELI):
        return payload
    length, used = _varint(payload)
    return payload[used + length :]


def compile_for(target, fn, args, compiler_options=None):
    """Compile fn for args (arrays or shapes with dtypes); every argument stays a parameter."""
    device = _topology(target).devices[0]
    specs = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=SingleDeviceSharding(device)) for a in args]
    lowered = jax.jit(fn, keep_unused=True).trace(*specs).lower(lowering_platforms=("cuda",))
    options = {"compiler_options": compiler_options} if compiler_options else {}
    return _executable_bytes(lowered.compile(**options))
