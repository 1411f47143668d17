#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/bench/dispatch.sh BUILD_FOLDER
# What launching a kernel costs thunkd itself, with the stand-in CUDA driver, whose kernels then do nothing.
# On a machine with a GPU, call dispatch-bench with artifacts for it instead.
set -euo pipefail
cd "$(dirname "$0")/../.."
B=${1:-build}
case $B in /*) ;; *) B=$PWD/$B ;; esac
files=(samples/store/digits/1/h100_sxm.aot tests/golden/executables/h100_sxm/v6/{attention,control}/executable.aot)
if [ -n "${THUNKD_CORPUS:-}" ]; then
  for m in net_minilm_b1 net_gpt2_decode_f32 decode_step; do
    files+=("$(ls "$THUNKD_CORPUS/$m"/*/h100_sxm.aot | sort -V | tail -1)")
  done
fi
LD_LIBRARY_PATH=$B/fakecuda FAKECUDA_CC=9.0 FAKECUDA_EMPTY=1 FAKECUDA_INLINE=1 FAKECUDA_RACES=0 FAKECUDA_FILL=0 \
  FAKECUDA_ARTIFACT=$(IFS=:; echo "${files[*]}") "$B/dispatch-bench" "${files[@]}"
