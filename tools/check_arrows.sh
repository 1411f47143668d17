#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The folders depend on each other in one direction; an include against it fails the build.
set -uo pipefail
cd "$(dirname "$0")/.."

rc=0
# allow FOLDER OTHER…: files in FOLDER may include from FOLDER and the others only.
allow() {
  local dir=$1 bad
  shift
  [ -d "$dir" ] || return 0
  bad=$(grep -rnE --include='*.[ch]' '^[[:space:]]*#[[:space:]]*include[[:space:]]+"' "$dir" |
    awk -v allowed=" $dir $* " '
      {
        path = $0
        sub(/^[^"]*"/, "", path)
        sub(/".*/, "", path)
        top = path
        if (path ~ /\.pb-c\.h$/) top = "proto"        # generated from proto/schema
        else if (!sub(/\/.*/, "", top)) next          # a file beside the including one
        if (top == "..") print $0 "   (write paths from the root)"
        else if (top ~ /^(base|proto|runtime|contract|store|config|daemon|ctl)$/ && index(allowed, " " top " ") == 0) print
      }')
  if [ -n "$bad" ]; then
    echo "$dir may include from: $dir $*"
    echo "$bad"
    rc=1
  fi
}
allow base
allow proto base
allow runtime base proto
allow contract base proto runtime
allow store base proto runtime contract
allow config base
allow daemon base proto runtime contract store config
allow ctl base proto runtime contract store config
exit $rc
