#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tools/check_gpu.sh BUILD_FOLDER [--stand-in] [--minutes N] [--results FILE]
# Everything that has to be seen on a real GPU, in under eight minutes: the conformance cases, the artifacts of
# THUNKD_CORPUS that fit the card, each thunk against the host device on a sample, memory left on the card, what
# launches cost. Writes FILE (docs/gpu-results.md), and a copy into $OUT if that is set; exit 1 when anything is wrong.
# It builds first, unless the folder has all that is needed: so a folder that was built elsewhere can be brought along.
# --stand-in: a short rehearsal with the stand-in driver. Parts that need Python's numpy and ml_dtypes, or the host
# device's libraries, are left out where there are none, and the table says so.
set -uo pipefail
cd "$(dirname "$0")/.."
B=${1:?usage: tools/check_gpu.sh BUILD_FOLDER [--stand-in] [--minutes N] [--results FILE]}
shift
case $B in /*) ;; *) B=$PWD/$B ;; esac
stand_in='' minutes=7 results=docs/gpu-results.md corpus=${THUNKD_CORPUS:-}
while [ $# -gt 0 ]; do
  case $1 in
    --stand-in) stand_in=1 ;;
    --minutes) minutes=$2; shift ;;
    --results) results=$2; shift ;;
    *) echo "check_gpu: unknown word $1" >&2; exit 2 ;;
  esac
  shift
done
deadline=$((SECONDS + minutes * 60))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
: >"$work/table"
: >"$work/details"
: >"$work/memory"

row() { printf '| %s | %s |\n' "$1" "$2" | tee -a "$work/table"; } # what was done, what came of it
left() { # seconds that a part may take: the given ones, or what is left
  local s=$((deadline - SECONDS))
  [ "$s" -lt "$1" ] || s=$1
  echo $((s > 1 ? s : 1))
}
# part NAME SECONDS COMMAND…: its last line is the row; lines that tell of single artifacts are kept. A function looks
# at the time itself.
part() {
  local name=$1 limit rc
  limit=$(left "$2")
  shift 2
  if [ "$(type -t "$1")" = function ]; then "$@" >"$work/log" 2>&1; else timeout "$limit" "$@" >"$work/log" 2>&1; fi
  rc=$?
  [ "$name" != "memory of the card" ] || cp "$work/log" "$work/memory"
  grep -aE '^(FAIL|refused|left [1-9-])| bytes allocated$' "$work/log" | sed "s#$PWD/##; s#$corpus/##" | cut -c1-240 |
    tail -60 | tee -a "$work/details"
  if [ "$rc" = 124 ]; then
    row "$name" "stopped after $limit s: $(tail -1 "$work/log" | cut -c1-160)"
  else
    row "$name" "$(tail -1 "$work/log" | cut -c1-200)"
    [ "$rc" = 0 ] || bad=1
  fi
}

programs="thunkctl gpu-probe dispatch-bench thunkd-host.so"
for p in $programs; do
  [ -e "$B/$p" ] || { make B="$B" all "$B/gpu-probe" "$B/dispatch-bench" ${stand_in:+fakes} >"$work/make" 2>&1 ||
    { tail -20 "$work/make"; echo "check_gpu: the build failed" >&2; exit 1; }; }
done
if [ -n "$stand_in" ]; then
  export LD_LIBRARY_PATH=$B/fakecuda FAKECUDA_CC=9.0
fi

# ---- the card ----
"$B/gpu-probe" >"$work/probe" 2>"$work/log" || { cat "$work/log" >&2; echo "check_gpu: no GPU" >&2; exit 2; }
value() { sed -n "s/^$1 //p" "$work/probe"; }
card=$(value card) driver=$(($(value driver) / 1000)).$(($(value driver) % 1000 / 10)) capability=$(value capability)
case $capability in 9.0) target=h100_sxm ;; 10.0) target=b200 ;; 8.0) target=a100_sxm_80 ;; *) target=none ;; esac
echo "$card, compute capability $capability, driver for CUDA $driver"

# ---- what there is to run ----
files=()
if [ "$target" = h100_sxm ]; then
  files=(samples/store/digits/1/h100_sxm.aot tests/golden/executables/h100_sxm/v*/*/executable.aot)
fi
if [ -n "$corpus" ]; then
  for m in "$corpus"/*/case.json; do
    f=$(find "$(dirname "$m")" -name "$target.aot" | sort -V | tail -1)
    [ -z "$f" ] || ! grep -q '"devices": 1,' "$m" || files+=("$f")
  done
fi
step=1
[ -n "$stand_in" ] && step=40
sample=()
for ((i = 0; i < ${#files[@]}; i += step)); do sample+=("${files[i]}"); done
[ ${#sample[@]} -gt 0 ] || { echo "check_gpu: no artifacts for compute capability $capability" >&2; exit 2; }
[ -n "$stand_in" ] && export FAKECUDA_ARTIFACT=$(IFS=:; echo "${sample[*]}")

python=
for p in "$B/venv/bin/python" python3; do
  [ -z "$python" ] && "$p" -c 'import numpy, ml_dtypes' 2>/dev/null && python=$p
done

# ---- the parts ----
if [ -z "$python" ]; then
  row "conformance" "left out: no Python with numpy and ml_dtypes"
elif [ "$target" = h100_sxm ]; then
  part "conformance" 90 "$python" tests/conformance/run.py "$B/thunkctl" cuda --jobs 4 ${stand_in:+--only sort,fft}
fi

probe_all() {
  timeout "$(left 60)" "$B/gpu-probe" "${sample[@]}"
  local rc=$?
  local what=nothing
  [ "$rc" = 0 ] || what="exit $rc: something"
  echo "$what left behind by five rounds of load, run and unload"
  return $rc
}
part "memory of the card" 60 probe_all

launches() {
  local files
  mapfile -t files < <(for f in "${sample[@]}"; do grep -qF "left 0 $f" "$work/memory" && echo "$f"; done | head -8)
  timeout "$(left 60)" env ${stand_in:+FAKECUDA_INLINE=1 FAKECUDA_EMPTY=1 FAKECUDA_RACES=0 FAKECUDA_FILL=0} \
    "$B/dispatch-bench" --most ${stand_in:+20}150 "${files[@]}" | tee "$work/launches"
  local rc=${PIPESTATUS[0]}
  sort -t: -k2 "$work/launches" | sed -E 's/.*(all .*)/\1, in the best of them/' | head -1
  return "$rc"
}
part "a launch" 60 launches
row "CUDA graphs" "not in this build"

verify_all() {
  local equal=0 differ=0 refused=0 failed=0 f rc early='' end=$((SECONDS + $(left 150)))
  for f in "${sample[@]}"; do
    [ "$SECONDS" -lt "$end" ] || { early=', stopped early'; break; }
    timeout 60 "$B/thunkctl" verify "$f" >"$work/one" 2>&1
    rc=$?
    if [ "$rc" = 0 ]; then equal=$((equal + 1))
    elif grep -q ' thunks differ$' "$work/one"; then
      differ=$((differ + 1))
      echo "FAIL $f: $(grep -A1 '^first' "$work/one" | tr '\n' ' ')"
    elif [ "$rc" = 1 ] && grep -qFf tools/refused.txt "$work/one"; then
      refused=$((refused + 1))
    else
      failed=$((failed + 1))
      echo "FAIL $f: exit $rc: $(grep -a '^thunkctl' "$work/one" | tail -1 | sed "s#$f##")"
    fi
  done
  echo "$equal equal thunk by thunk, $differ differ, $failed failed, $refused refused$early"
  [ "$differ" = 0 ] && [ "$failed" = 0 ]
}
if "$B/thunkctl" run "${sample[0]}" --device host 2>&1 | grep -q 'host.so'; then
  row "verify against the host device" "left out: the host device does not load here"
else
  part "verify against the host device" 150 verify_all
fi

if [ -z "$python" ]; then
  row "corpus, answers" "left out: no Python with numpy and ml_dtypes"
elif [ -n "$corpus" ]; then
  part "corpus, answers" 150 "$python" tools/check_cuda.py "$B/thunkctl" "$corpus" --seeds 0 --jobs 4 \
    --target "$target" --every $step $([ -n "$stand_in" ] || echo --real)
else
  row "corpus, answers" "left out: THUNKD_CORPUS is not set"
fi


# ---- the page ----
page() {
  echo '# Results on GPUs'
  echo
  echo "\`make check-gpu\` wrote this page$([ -n "$stand_in" ] && echo ', in a rehearsal with the stand-in driver')."
  echo
  printf '| | |\n|---|---|\n'
  printf '| card | %s, compute capability %s |\n' "$card" "$capability"
  printf '| driver | CUDA %s |\n| date | %s |\n' "$driver" "$(date -u +%F)"
  cat "$work/table"
  if [ -s "$work/details" ]; then
    printf '\nSingle artifacts:\n\n```\n'
    cat "$work/details"
    printf '```\n'
  fi
}
page >"$work/page"
cp "$work/page" "$results"
[ -z "${OUT:-}" ] || cp "$work/page" "$OUT/gpu-results.md"
echo "$([ "$bad" = 0 ] && echo "all right" || echo "something is wrong") after $SECONDS s; $results has the table"
exit "$bad"
