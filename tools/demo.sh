#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tools/demo.sh BUILD_FOLDER
# Starts thunkd on the sample store without a GPU, sends it handwritten digits and draws the answers.
set -euo pipefail
cd "$(dirname "$0")/.."
B=${1:-build}
case $B in /*) ;; *) B=$PWD/$B ;; esac

run=$(mktemp -d)
pid=
finish() {
  if [ -n "$pid" ]; then
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  fi
  rm -rf "$run"
}
trap finish EXIT

cat >"$run/thunkd.yaml" <<YAML
socket: $run/thunkd.sock
admin_socket: ""
store: $PWD/samples/store
device: host
YAML

"$B/thunkd" --config "$run/thunkd.yaml" >"$run/log" 2>&1 &
pid=$!
for _ in $(seq 100); do
  "$B/thunkctl" health --socket "$run/thunkd.sock" >/dev/null 2>&1 && break
  kill -0 "$pid" 2>/dev/null || { cat "$run/log" >&2; echo "demo: thunkd did not start" >&2; exit 1; }
  sleep 0.1
done
"$B/thunkctl" health --socket "$run/thunkd.sock" || { cat "$run/log" >&2; exit 1; }
"$B/thunkctl" ls --socket "$run/thunkd.sock"
"$B/demo-digits" "$B/thunkctl" "$run/thunkd.sock" samples/digits-test.safetensors "$run" || { cat "$run/log" >&2; exit 1; }

kill "$pid"
wait "$pid" || { cat "$run/log" >&2; echo "demo: thunkd did not stop cleanly" >&2; exit 1; }
pid=
