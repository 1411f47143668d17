# SPDX-License-Identifier: Apache-2.0
"""What the CUDA device says when it is given something that it does not do: a refusal is neither right nor wrong."""
import re

SAID = (
    "which this build does not call yet",
    "which this build does not have yet",
    "no handler for target",
    "has no algorithm for it",
    "holds no thunks (written before",
    "is not supported",
)


def reason(text):
    """What is refused, without what differs from one artifact to the next; None if it is no refusal."""
    if not any(s in text for s in SAID):
        return None
    text = next(line for line in text.splitlines() if any(s in line for s in SAID))
    text = re.sub(r"^(exit \d+: )?(thunkctl: )?(\S+: )?(device \(cuda\): )?", "", text)
    text = re.sub(r"^((thunks|body|condition|embedded|branch)[^:]*: )+", "", text)
    text = re.sub(r"'[^']*'", "'…'", text)
    return re.sub(r"\d{2,}|0x[0-9a-f]+", "N", text)[:110]
