#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/bench/run.sh BUILD_FOLDER
# Times executions on the host device: the sample, and with THUNKD_CORPUS a few artifacts of it.
set -euo pipefail
cd "$(dirname "$0")/../.."
B=${1:-build}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
time_one() {
  printf '%-44s ' "$1"
  shift
  "$B/thunkctl" run "$@" --outputs "$out" --repeat 200 | tail -1
}
if [ -n "${THUNKD_CORPUS:-}" ]; then
  for m in saxpy mlp transformer_f32 decode_step gemm_f32 net_minilm_b1; do
    a=$(ls "$THUNKD_CORPUS/$m"/*/h100_sxm.aot | sort -V | tail -1)
    time_one "$m/$(basename "$(dirname "$a")")" "$a" --inputs "$THUNKD_CORPUS/$m/inputs.safetensors"
  done
else
  echo "THUNKD_CORPUS is unset: nothing to time" >&2
fi
