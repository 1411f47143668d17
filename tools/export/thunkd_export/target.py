# SPDX-License-Identifier: Apache-2.0
"""The description of a target GPU in the words that the installed compiler knows.

The files under targets/ use the fields of the newest release. An older compiler refuses a text with a field
that it does not know, so those are left out: field numbers and releases from the descriptors embedded in each
release's plugin (GpuTargetConfigProto and the messages below it).
"""
import pathlib
import re

TARGETS = pathlib.Path(__file__).parent / "targets"
# scalar field -> first release that knows it
SINCE = {
    "collective_memory_granularity": (0, 11, 0),
    "max_blocks_per_multiprocessor": (0, 11, 0),
    "mem_clock_ghz": (0, 11, 0),
    "reserved_shared_memory_per_block": (0, 11, 0),
    "confidential_computing_enabled": (0, 12, 0),
    "oversized_shared_memory_per_block": (0, 12, 0),
}
# The version of cuDNN was a message of its own, beside the text, before this release.
DNN_MESSAGE_BEFORE = (0, 11, 1)


def targets():
    """Names of the targets that come with the exporter."""
    return sorted(p.stem for p in TARGETS.glob("*.txtpb"))


def release_key(release):
    """"0.12.0.1" -> (0, 12, 0, 1): releases in their order."""
    return tuple(int(n) for n in re.findall(r"\d+", release)[:4])


def target_text(target, release):
    """The text that describes target, for the compiler of a release such as "0.10.2"."""
    path = TARGETS / f"{target}.txtpb"
    if not path.exists():
        raise ValueError(f"no target {target!r}; there are {', '.join(targets())}")
    known = release_key(release)
    lines = []
    for line in path.read_text().splitlines():
        field = line.strip().partition(":")[0]
        if SINCE.get(field, known) <= known:
            lines.append(line)
    text = "\n".join(lines) + "\n"
    version = re.search(r'dnn_version: "(\d+)\.(\d+)\.(\d+)"', text)
    if known < DNN_MESSAGE_BEFORE and version:
        text += "dnn_version_info {{ major: {} minor: {} patch: {} }}\n".format(*version.groups())
    return text
