#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints docs/handlers.md from the rows of runtime/host/handlers/table.c and runtime/cuda/custom.c:
# tools/gen_handlers.sh > docs/handlers.md
set -euo pipefail
cd "$(dirname "$0")/.."
table=runtime/host/handlers/table.c
cuda=runtime/cuda/custom.c
rows=$(awk -F'"' '
  FNR == 1 { file++ }
  file == 1 && /^ *(SOLVER|OTHER)\("/ { how[$2] = $4 }
  file == 2 && /^ *ROW\("/ { if (!($2 in how)) exit 1; print "| `" $2 "` | " $4 " | " how[$2] " |" }
' "$cuda" "$table") || { echo "$cuda: a target of $table is missing, or a row is not on one line" >&2; exit 1; }
[ "$(grep -c '^ *ROW("' "$table")" = "$(wc -l <<<"$rows")" ] || { echo "$table: a row is not on one line" >&2; exit 1; }
cat <<'EOF'
# Built-in custom-call handlers

Custom-call targets that thunkd implements itself, in place of the ones that XLA and JAX's CUDA plugin register. A
handler that the user loads under the same name goes first ([ffi.md](ffi.md)). Every other target is refused when the
program is loaded.

Matrices are f32, f64, c64 or c128, with any number of leading batch dimensions, column-major in the last two
dimensions unless the target says otherwise. Shapes, layouts and attributes are checked at load; operands are never
written. The buffers of each stand in `runtime/ffi/linalg.h` and at the top of its file in `runtime/host/handlers/`.

Made by `tools/gen_handlers.sh` from `runtime/host/handlers/table.c` and `runtime/cuda/custom.c`; do not edit.

| target | what it computes | on a CUDA device |
|---|---|---|
EOF
printf '%s\n' "$rows"
cat <<'EOF'

Where the host differs from a GPU library: signs of reflectors and singular vectors are LAPACK's; inputs that are not
finite give NaN and info -4 in eigenvalue and singular value problems; the three singular value targets share one
algorithm, as do the eigenvalue algorithms; sparse systems are solved densely; scans add one after the other.

On a CUDA device the libraries are loaded when a program first needs them; without them the program is refused, with
what to install. *Own kernel*: `runtime/cuda/kernels.cu`, compiled by the driver. *Host; waits*: the operands go to the
host device and the results come back while the stream's thread waits, as jaxlib's hybrid handlers do; correct, but no
place for a hot loop, and the pinned copies of the arrays are outside the store's budget. So is what the libraries take
for themselves. Indices of sparse matrices are checked before cuSPARSE sees them: entries outside the matrix count as
zeros. Matrices in a batch are one call where the table names a batched function, else a call each. All of this runs in
the tests on stand-ins for the libraries that compute with LAPACK and FFTW; the real libraries' own numbers have not been
compared on a card.
EOF
