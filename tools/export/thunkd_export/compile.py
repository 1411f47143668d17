# SPDX-License-Identifier: Apache-2.0
"""Compile for a GPU that is not there: a text file describes it to the compiler."""
import contextlib
import importlib.util
import os
import pathlib
import pickletools
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
from jax._src import lib as jax_lib  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from jax.experimental.serialize_executable import serialize  # noqa: E402
from jax.sharding import SingleDeviceSharding  # noqa: E402

TARGETS = pathlib.Path(__file__).parent / "targets"
# An artifact should not tell where it was built: file names only.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
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


@contextlib.contextmanager
def _cuda_files():
    """Stand in a folder where "cuda" is the pip packages' ptxas and libdevice.

    XLA keeps the path of these files in the executable's options, so it had better be relative.
    """
    spec = importlib.util.find_spec("nvidia.cu13")
    if spec is None:
        raise RuntimeError("install nvidia-cuda-nvcc and nvidia-nvvm: they bring ptxas and libdevice")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.symlink(list(spec.submodule_search_locations)[0], "cuda")
        before, jax_lib.cuda_path = jax_lib.cuda_path, "cuda"
        try:
            yield
        finally:
            jax_lib.cuda_path = before


def compile_for(target, fn, args, compiler_options=None, donate=()):
    """Compile fn for args (arrays or shapes with dtypes); every argument stays a parameter.

    donate: positions of arguments whose memory results may take."""
    device = _topology(target).devices[0]
    specs = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=SingleDeviceSharding(device)) for a in args]
    lowered = jax.jit(fn, keep_unused=True, donate_argnums=donate).trace(*specs).lower(lowering_platforms=("cuda",))
    options = {"compiler_options": compiler_options} if compiler_options else {}
    with _cuda_files():
        return _executable_bytes(lowered.compile(**options))
