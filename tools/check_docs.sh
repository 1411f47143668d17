#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Are the generated documents what their generators print?
set -uo pipefail
cd "$(dirname "$0")/.."
rc=0
# same FILE GENERATOR
same() {
  if ! diff -u "$1" <("$2") >&2; then
    echo "$1 is out of date: $2 > $1"
    rc=1
  fi
}
same docs/handlers.md tools/gen_handlers.sh
exit $rc
