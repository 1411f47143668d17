# SPDX-License-Identifier: Apache-2.0
"""What the CUDA device says when it is given something that it does not do: a refusal is neither right nor wrong."""
import pathlib
import re

# tools/check_gpu.sh reads it too.
SAID = pathlib.Path(__file__).with_suffix(".txt").read_text().splitlines()


def reason(text):
    """What is refused, without what differs from one artifact to the next; None if it is no refusal."""
    if not any(s in text for s in SAID):
        return None
    text = next(line for line in text.splitlines() if any(s in line for s in SAID))
    text = re.sub(r"^(exit \d+: )?(thunkctl: )?(\S+: )?(device \(cuda\): )?", "", text)
    text = re.sub(r"^((thunks|body|condition|embedded|branch)[^:]*: )+", "", text)
    text = re.sub(r"'[^']*'", "'…'", text)
    return re.sub(r"\d{2,}|0x[0-9a-f]+", "N", text)[:110]
