#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/bench/load.sh BUILD_FOLDER [SIZE]
# Memory and time of loading a made artifact of that many bytes of constants (512M), compressed as compilers do it and
# otherwise, and of a second version that shares 95 % of them.
set -euo pipefail
B=${1:-build}
size=${2:-512M}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for c in snappy none zstd; do
  echo "== $size of constants, $c"
  "$B/make-artifact" --bytes "$size" --constants 40 --compression "$c" --seed 1 "$dir/one.aot"
  "$B/make-artifact" --bytes "$size" --constants 40 --compression "$c" --seed 2 --share 0.95 --of 1 "$dir/two.aot"
  "$B/load-bench" "$dir/one.aot" "$dir/two.aot"
done
