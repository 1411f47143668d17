#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/venv.sh BUILD_FOLDER
# The Python environment of the system tests, made once, in BUILD_FOLDER/venv.
set -euo pipefail
venv=$1/venv
[ -e "$venv/ready" ] && exit 0
rm -rf "$venv"
python3 -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check numpy ml_dtypes grpcio 'tritonclient[grpc]' grpcio-health-checking
touch "$venv/ready"
