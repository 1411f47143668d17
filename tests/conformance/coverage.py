#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the suite have a case for each opcode that the host device evaluates?

usage: coverage.py [COVERAGE.md]    prints what is missing; --types prints the element types of each opcode
"""

import collections
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent


def main():
    args = [a for a in sys.argv[1:] if a != "--types"]
    table = pathlib.Path(args[0]) if args else HERE.parents[1] / "docs" / "coverage.md"
    index = json.loads((HERE / "index.json").read_text())
    types = collections.defaultdict(set)
    for e in index:
        for opcode in e["opcodes"]:
            types[opcode] |= set(e["types"])
    if "--types" in sys.argv:
        for opcode in sorted(types):
            print(f"{opcode}: {' '.join(sorted(types[opcode]))}")
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (pointwise|macro op|structural)", table.read_text(), re.M)
    missing = [opcode for opcode, _ in rows if opcode not in types]
    if missing or not rows:
        print(f"no conformance case for {', '.join(missing)}" if rows else f"no opcodes in {table}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
