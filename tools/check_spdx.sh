#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every source file names its licence in its first five lines.
set -uo pipefail
cd "$(dirname "$0")/.."
rc=0
while IFS= read -r f; do
  [ -s "$f" ] || continue
  if ! head -n 5 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0'; then
    echo "$f: no SPDX line"
    rc=1
  fi
done < <(git ls-files -co --exclude-standard -- '*.c' '*.h' '*.py' '*.sh' '*.proto' '*.mk' Makefile .ci/run)
exit $rc
