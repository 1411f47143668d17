#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/run.sh BUILD_FOLDER
# Runs all tests on a finished build; the last line is "N passed, N failed", and any failure is exit 1.
# Artifacts of released compilers are tested too when THUNKD_CORPUS names a folder of them.
# THUNKD_LEDGER, when set, names the ledger that contract/ledger_table.inc is made from.
set -uo pipefail
cd "$(dirname "$0")/.."
B=${1:-build}
case $B in /*) ABS=$B ;; *) ABS=$PWD/$B ;; esac
export B THUNKD_BUILD=$ABS
pass=0
fail=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

say() { printf '== %s\n' "$*"; }
add() { pass=$((pass + $1)); fail=$((fail + $2)); }

# one NAME COMMAND…: a check that counts as one test.
one() {
  local name=$1
  shift
  if "$@" >"$log" 2>&1; then
    add 1 0
    echo "ok   $name"
  else
    add 0 1
    cat "$log"
    echo "FAIL $name"
  fi
}

# Counts come from Check's own summary; a binary that dies before it is one failure.
unit() {
  local bin=$1 rc checks failures errors
  timeout 600 "$bin" >"$log" 2>&1
  rc=$?
  if read -r checks failures errors < <(sed -nE 's/^[0-9]+%: Checks: ([0-9]+), Failures: ([0-9]+), Errors: ([0-9]+).*/\1 \2 \3/p' "$log" |
    awk '{c += $1; f += $2; e += $3} END {if (NR) print c, f, e}'); then
    add $((checks - failures - errors)) $((failures + errors))
    if [ "$rc" != 0 ] && [ $((failures + errors)) = 0 ]; then
      cat "$log"
      echo "FAIL $bin: exit $rc"
      add 0 1
    elif [ $((failures + errors)) != 0 ]; then
      cat "$log"
    else
      echo "ok   $(basename "$bin"): $checks"
    fi
  else
    cat "$log"
    echo "FAIL $bin: exit $rc without a summary"
    add 0 1
  fi
}

# system [TESTS]: all tests of tests/system, or those modules.
# Counts come from unittest's summary: "Ran N tests", "FAILED (failures=1, errors=2, skipped=3)".
system() {
  local ran failures errors skipped bad last
  [ $# != 0 ] || set -- discover -s tests/system -p '*test*.py'
  PYTHONPATH=tests/system timeout 1800 "$ABS/venv/bin/python" -m unittest "$@" -v >"$log" 2>&1
  grep -E '\.\.\. |^(ERROR|FAIL):|^[A-Za-z]+Error|^Ran ' "$log"
  ran=$(sed -nE 's/^Ran ([0-9]+) tests?.*/\1/p' "$log" | tail -1)
  last=$(grep -E '^(OK|FAILED|NO TESTS RAN)' "$log" | tail -1)
  if [ -z "$ran" ] || [ -z "$last" ]; then
    tail -40 "$log"
    echo "FAIL tests/system: no summary"
    add 0 1
    return
  fi
  count() { sed -nE "s/.*[( ]$1=([0-9]+).*/\1/p" <<<"$last"; }
  failures=$(count failures)
  errors=$(count errors)
  skipped=$(count skipped)
  bad=$((${failures:-0} + ${errors:-0}))
  [ "$bad" = 0 ] || sed -n '/^=====/,$p' "$log"
  ran=$((ran - bad - ${skipped:-0}))
  add $((ran > 0 ? ran : 0)) "$bad"
}

# counted WORD SCRIPT [ARGUMENT]: runs it, on the corpus unless told otherwise.
# Its last line is "WORD: N right, N wrong".
counted() {
  local word=$1 script=$2 good bad
  "$ABS/venv/bin/python" "$script" "$ABS/thunkctl" "${3:-$THUNKD_CORPUS}" >"$log" 2>&1
  cat "$log"
  if read -r good bad < <(sed -nE "s/^$word: ([0-9]+) right, ([0-9]+) wrong\$/\1 \2/p" "$log"); then
    add "$good" "$bad"
  else
    echo "FAIL $script: no summary"
    add 0 1
  fi
}

units_ok() {
  local d f rc=0
  d=$(mktemp -d)
  for f in systemd/*.service systemd/*.socket; do
    sed -E "s#^(Exec[A-Za-z]*=[-@:+!|]*)/usr/(local/)?bin/#\1$ABS/#" "$f" >"$d/$(basename "$f")"
  done
  systemd-analyze verify --man=no "$d"/*.service "$d"/*.socket || rc=1
  rm -rf "$d"
  return $rc
}

say "unit tests"
found=
for t in "$B"/tests/*; do
  [ -f "$t" ] && [ -x "$t" ] || continue
  found=1
  unit "$t"
done
[ -n "$found" ] || { echo "FAIL no unit tests in $B/tests"; add 0 1; }

say "repository checks"
one "include arrows" tools/check_arrows.sh
one "SPDX lines" tools/check_spdx.sh
one "docs/coverage.md (make coverage writes it)" bash -o pipefail -c '"$B/coverage" | diff docs/coverage.md -'
one "generated documents" tools/check_docs.sh
one "schema against the releases" python3 tools/schema_compare.py tests/data/schema-summary.txt
one "the contract: former forms, reserved numbers" python3 tools/check_contract.py "$B/thunkctl" ${THUNKD_LEDGER:+"$THUNKD_LEDGER"}
one "made artifacts give what their maker says" tests/bench/made.sh "$B"
one "conformance cases for the opcodes" python3 tests/conformance/coverage.py
if command -v mandoc >/dev/null && compgen -G 'man/*.[1-8]' >/dev/null; then
  one "manual pages" mandoc -T lint -W error man/*.[1-8]
fi
if command -v systemd-analyze >/dev/null && compgen -G 'systemd/*.service' >/dev/null; then
  one "systemd units" units_ok
fi

if ! tests/venv.sh "$ABS" >"$log" 2>&1; then
  cat "$log"
  echo "FAIL no Python environment for the system and corpus tests"
  add 0 1
else
  if compgen -G 'tests/system/*test*.py' >/dev/null; then
    say "system tests"
    system
    say "system tests on the CUDA device, with the stand-in driver"
    THUNKD_TEST_DEVICE=cuda FAKECUDA_SEED=1 system test_daemon test_sequences test_lifecycle test_admin test_store
  fi
  say "conformance on ${THUNKD_DEVICE:-host}"
  "$ABS/venv/bin/python" tests/conformance/run.py "$ABS/thunkctl" "${THUNKD_DEVICE:-host}" >"$log" 2>&1
  cat "$log"
  if read -r good bad < <(sed -nE 's/^conformance: ([0-9]+) right, ([0-9]+) wrong$/\1 \2/p' "$log"); then
    add "$good" "$bad"
  else
    echo "FAIL tests/conformance/run.py: no summary"
    add 0 1
  fi
  one "make check-gpu, rehearsed with the stand-in driver" tools/check_gpu.sh "$ABS" --stand-in --results /dev/null
  say "each call of the CUDA driver failing"
  counted fault tests/fault/sweep.py "${THUNKD_CORPUS:-none}"
  if [ "${THUNKD_DEVICE:-host}" = host ]; then
    say "conformance on the CUDA device, with the stand-in driver"
    LD_LIBRARY_PATH=$ABS/fakecuda FAKECUDA_CC=9.0 counted conformance tests/conformance/run.py cuda
  fi
  say "golden executables on ${THUNKD_DEVICE:-host}"
  counted golden tests/golden/run.py "${THUNKD_DEVICE:-host}"
  if [ -n "${THUNKD_CORPUS:-}" ]; then
    say "artifacts of released compilers"
    counted corpus tools/check_corpus.py
    say "the same with delayed streams"
    counted streams tools/check_streams.py
    say "the same on the CUDA device, with the stand-in driver"
    counted cuda tools/check_cuda.py
  else
    echo "skip artifacts of released compilers: THUNKD_CORPUS is not set"
  fi
fi

echo "$pass passed, $fail failed"
[ "$fail" = 0 ]
