#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the conformance cases: tests/conformance/index.json and tests/conformance/cases/*.zip.

usage: make_cases.py [FAMILY...]

Needs numpy, scipy, ml_dtypes, protobuf and protoc; the family `compiled` also jax (see cases_compiled.py).
Same versions, same bytes: seeds are fixed, and so are the archives' times.
"""
import importlib
import sys

import case

# families of each module; `compiled` is made only when asked for
MODULES = {
    "cases_float": ["float"],
    "cases_integer": ["integer"],
    "cases_complex": ["complex"],
    "cases_convert": ["convert"],
    "cases_move": ["move"],
    "cases_index": ["index"],
    "cases_reduce": ["reduce"],
    "cases_linear": ["linear"],
    "cases_random": ["random"],
    "cases_flow": ["flow"],
    "cases_library": ["library"],
    "cases_compiled": ["compiled"],
}


def main():
    asked = sys.argv[1:]
    for module, families in MODULES.items():
        wanted = [f for f in families if (f in asked if asked else f != "compiled")]
        if not wanted:
            continue
        importlib.import_module(module).make()
        case.write_all(case.HERE / "cases", wanted)
        for f in wanted:
            path = case.HERE / "cases" / f"{f}.zip"
            print(f"{f}: {sum(c.family == f for c in case.cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
