#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes runtime/cuda/kernels.ptx from kernels.cu with NVCC (default: nvcc). The PTX names the oldest version and GPU
# that its instructions need, so that drivers of CUDA 12.0 compile it for every GPU they serve from Turing on.
set -euo pipefail
cd "$(dirname "$0")/.."
nvcc=${NVCC:-nvcc}
out=runtime/cuda/kernels.ptx
"$nvcc" -I. -arch=compute_75 -fmad=false -ptx -o "$out.new" runtime/cuda/kernels.cu
{
  echo "// SPDX-License-Identifier: Apache-2.0"
  echo "// Made by tools/gen_kernels.sh from kernels.cu; do not edit."
  sed -E -e '/^\/\//d' -e '/^$/d' -e 's/^\.version .*/.version 8.0/' -e 's/[[:space:]]+$//' "$out.new"
} >"$out"
rm -f "$out.new"
