#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
LIMIT_KIB=10240

usage() {
  cat <<'TEXT'
usage: tools/golden_add.sh BUILD_FOLDER RELEASE [TARGET]      make golden-add RELEASE=X.Y.Z [TARGET=h100_sxm]

Adds a version of golden executables: tests/golden/executables/TARGET/v<N+1>, compiled by JAX's CUDA compiler of
that release from the models in tests/golden. Installs the release in a virtual environment, compiles (no GPU is
needed), runs the results with BUILD_FOLDER/thunkctl and keeps them only if all give the expected outputs.
Versions are numbered by age: a release that is there already, or older than the newest, is refused. So is
a version that would make the folder larger than 10 MiB; `git rm -r` the versions that have left the window.

Environment: PYTHON        Python that the release supports (python3)
             GOLDEN_VENVS  folder of virtual environments, one per release (BUILD_FOLDER/golden)
TEXT
}

die() {
  echo "golden-add: $*" >&2
  exit 1
}

case ${1:-} in -h | --help) usage; exit 0 ;; esac
build=${1:-} release=${2:-} target=${3:-h100_sxm}
if [ -z "$build" ] || ! [[ $release =~ ^[0-9]+(\.[0-9]+)+$ ]]; then
  usage >&2
  exit 2
fi
[ -x "$build/thunkctl" ] || die "no thunkctl in $build: make all"
folder=tests/golden/executables/$target
venv=${GOLDEN_VENVS:-$build/golden}/$release

newest=$({ find "$folder" -maxdepth 1 -name 'v[0-9]*' 2>/dev/null || true; } | sed 's/.*v//' | sort -n | tail -1)
next=v$((${newest:-0} + 1))
like=()
if [ -n "$newest" ]; then
  like=(--like "$folder/v$newest")
  known=$(sed -nE 's/^ "release": "(.*)",$/\1/p' "$folder/v$newest"/*/case.json | sort -Vu | tail -1)
  [ "$known" != "$release" ] || die "v$newest is of $release"
  [ "$(printf '%s\n' "$known" "$release" | sort -V | tail -1)" = "$release" ] ||
    die "$release is older than v$newest ($known): versions are numbered by age"
fi

if ! [ -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import jax, jax_plugins.xla_cuda13' 2>/dev/null; then
  echo "installing JAX $release"
  mkdir -p "$(dirname "$venv")"
  "${PYTHON:-python3}" -m venv "$venv"
  mapfile -t cuda < <(grep '^nvidia-' tools/export/requirements.txt)
  "$venv/bin/pip" install -q --disable-pip-version-check \
    "jax==$release" "jaxlib==$release" "jax-cuda13-plugin==$release" "jax-cuda13-pjrt==$release" "${cuda[@]}"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
made=$work/$target/$next
mkdir -p "$work/$target"
echo "compiling with JAX $release for $target"
export TF_CPP_MIN_LOG_LEVEL=3
if ! "$venv/bin/python" tests/golden/compile_cases.py "$made" --target "$target" "${like[@]}" 2>"$work/log"; then
  tail -20 "$work/log" >&2
  die "JAX $release does not compile the models"
fi
"$venv/bin/python" -B tests/golden/run.py "$build/thunkctl" host --folder "$work" --target "$target" --versions "$next"
mkdir -p "$folder"
kib=$(du -skc "$made" tests/golden/executables | tail -1 | cut -f1)
[ "$kib" -le $LIMIT_KIB ] || die "the goldens would be larger than $LIMIT_KIB KiB"
mv "$made" "$folder/$next"
echo "added $folder/$next: $(find "$folder/$next" -name executable.aot | wc -l) executables of $release; commit it"
