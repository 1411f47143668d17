#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/bench/made.sh BUILD_FOLDER
# Made artifacts run on the host device and give what their maker says, however they are compressed.
set -euo pipefail
B=${1:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for c in snappy none zstd brotli:1; do
  "$B/make-artifact" --bytes 3M --constants 5 --compression "$c" --seed 3 --share 0.4 --of 2 \
    --expect "$dir/want.safetensors" --inputs "$dir/in.safetensors" "$dir/made.aot"
  "$B/thunkctl" run "$dir/made.aot" --inputs "$dir/in.safetensors" --outputs "$dir/got.safetensors"
  cmp "$dir/got.safetensors" "$dir/want.safetensors"
done
