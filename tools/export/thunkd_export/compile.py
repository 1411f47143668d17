# SPDX-License-Identifier: Apache-2.0
"""Compile for a GPU that is not there: a text file describes it to the compiler."""
import contextlib
import importlib.util
import os
import pickletools
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")  # there is no GPU to ask

import jax  # noqa: E402
import jax.export  # noqa: E402
from jax._src import lib as jax_lib  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from jax.experimental.serialize_executable import serialize  # noqa: E402
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding  # noqa: E402

from .target import target_text  # noqa: E402

# An artifact should not tell where it was built: file names only.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
RIEGELI = bytes.fromhex("83af70d10d884a3f0000000000000000")


def _devices(target, count):
    text = target_text(target, jax.__version__)
    return topologies.get_topology_desc(platform="cuda", target_config=text, topology=f"1x1x{count}").devices


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


def _on_mesh(fn, devices, specs, out):
    """fn for one device's share -> (fn for whole arrays, their shardings)."""
    mesh = Mesh(devices, ("d",))
    whole = jax.shard_map(fn, mesh=mesh, in_specs=tuple(specs), out_specs=out, check_vma=False)
    return whole, [NamedSharding(mesh, spec) for spec in specs]


def compile_for(target, fn, args, compiler_options=None, donate=(), devices=1, specs=(), out=None):
    """Compile fn for args (arrays or shapes with dtypes); every argument stays a parameter.

    donate: positions of arguments whose memory results may take.
    devices > 1: fn computes one device's share on the mesh axis "d"; specs has the PartitionSpec of each
    argument, out that of the results. Arguments are whole arrays."""
    found = _devices(target, devices)
    if devices > 1:
        fn, shardings = _on_mesh(fn, found, specs, out)
    else:
        shardings = [SingleDeviceSharding(found[0])] * len(args)
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s) for a, s in zip(args, shardings)]
    lowered = jax.jit(fn, keep_unused=True, donate_argnums=donate).trace(*shapes).lower(lowering_platforms=("cuda",))
    options = {"compiler_options": compiler_options} if compiler_options else {}
    with _cuda_files():
        return _executable_bytes(lowered.compile(**options))


def source_for(fn, args):
    """StableHLO of fn in its portable, versioned form (jax.export reads it): what a later compiler can start from."""
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in args]
    return jax.export.export(jax.jit(fn, keep_unused=True), platforms=["cuda"])(*shapes).mlir_module_serialized
