#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints docs/handlers.md from the rows of runtime/host/handlers/table.c: tools/gen_handlers.sh > docs/handlers.md
set -euo pipefail
cd "$(dirname "$0")/.."
table=runtime/host/handlers/table.c
rows=$(sed -nE 's/^ *ROW\("([^"]+)", [a-z0-9_]+, "([^"]*)"\),$/| `\1` | \2 |/p' "$table")
[ "$(grep -c '^ *ROW("' "$table")" = "$(wc -l <<<"$rows")" ] || { echo "$table: a row is not on one line" >&2; exit 1; }
cat <<'EOF'
# Built-in custom-call handlers

Custom-call targets that the host device implements itself, in place of the ones that XLA and JAX's CUDA plugin
register. A handler that the user loads under the same name goes first ([ffi.md](ffi.md)). Every other target is
refused when the program is loaded.

Matrices are f32, f64, c64 or c128, with any number of leading batch dimensions, column-major in the last two
dimensions unless the target says otherwise. Shapes, layouts and attributes are checked at load; operands are never
written. What a handler does with its buffers stands at the top of its file in `runtime/host/handlers/`.

Made by `tools/gen_handlers.sh` from `runtime/host/handlers/table.c`; do not edit.

| target | what it computes |
|---|---|
EOF
printf '%s\n' "$rows"
cat <<'EOF'

Where the host differs from a GPU library: signs of reflectors and singular vectors are LAPACK's; inputs that are not
finite give NaN and info -4 in eigenvalue and singular value problems; the three singular value targets share one
algorithm, as do the eigenvalue algorithms; sparse systems are solved densely; scans add one after the other.
EOF
