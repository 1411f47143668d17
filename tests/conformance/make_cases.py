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

# modules of each family; `compiled` is made only when asked for
FAMILIES = {
    "float": ["cases_float"],
    "integer": ["cases_integer"],
    "complex": ["cases_complex"],
    "convert": ["cases_convert"],
    "move": ["cases_move"],
    "index": ["cases_index", "cases_sort"],
    "reduce": ["cases_reduce", "cases_window"],
    "linear": ["cases_linear", "cases_convolution"],
    "random": ["cases_random"],
    "flow": ["cases_flow", "cases_inside"],
    "library": ["cases_library", "cases_gemm", "cases_conv"],
    "compiled": ["cases_compiled"],
}


def main():
    for family in sys.argv[1:] or [f for f in FAMILIES if f != "compiled"]:
        for module in FAMILIES[family]:
            importlib.import_module(module).make()
        case.write_all(case.HERE / "cases", [family])
        path = case.HERE / "cases" / f"{family}.zip"
        print(f"{family}: {sum(c.family == family for c in case.cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
