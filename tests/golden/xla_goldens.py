# SPDX-License-Identifier: Apache-2.0
"""OpenXLA's own golden executables, which stay outside this repository: $THUNKD_XLA_GOLDENS names their folder.

They are text (HumanReadableAotExecutable), made for two devices, with names that newer schemas have reserved.
Each is checked, and written as a Riegeli file and as text and read again, twice: the second pair must be the
first, byte by byte. A kind of thunk that this runtime does not run is a rightful answer of check, if named.
"""

import os
import pathlib
import tempfile

from goldens import call


def checked(ctl, path):
    code, said, error = call([ctl, "check", path])
    if code == 0 or (code == 1 and "unsupported:" in said + error and "thunk kind" in said + error):
        return None
    return f"check: exit {code}: {error or said.strip()}"


def converted(ctl, source, form, result):
    code, _, error = call([ctl, "convert", "--verify", "--form", form, source, result])
    if code:
        raise ValueError(f"convert to {form}: exit {code}: {error}")
    return result


def round_trip(ctl, path):
    """Text read, written in both forms, and those written in both forms again."""
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        first = converted(ctl, path, "riegeli-split", tmp / "1.aot")
        text = converted(ctl, first, "text", tmp / "1.pbtxt")
        second = converted(ctl, text, "riegeli-split", tmp / "2.aot")
        again = converted(ctl, second, "text", tmp / "2.pbtxt")
        if text.read_bytes() != again.read_bytes():
            return "text, Riegeli, text: not the same text"
        if first.read_bytes() != second.read_bytes():
            return "Riegeli, text, Riegeli: not the same bytes"
    return None


def test_all(tally, ctl, jobs):
    folder = os.environ.get("THUNKD_XLA_GOLDENS")
    if not folder:
        tally.skip("OpenXLA's goldens", "THUNKD_XLA_GOLDENS is not set")
        return
    root = pathlib.Path(folder)
    work = [(str(p.relative_to(root)), p) for p in sorted(root.rglob("*.pbtxt"))]
    if not work:
        tally.add(f"OpenXLA's goldens in {folder}", "no .pbtxt there")
    tally.each(jobs, [(f"{name} checked", p) for name, p in work], lambda p: checked(ctl, p))
    if call([ctl, "convert", "--help"])[0]:
        tally.skip("OpenXLA's goldens, round trip", "thunkctl has no verb convert")
        return
    tally.each(jobs, [(f"{name} round trip", p) for name, p in work], lambda p: round_trip(ctl, p))
