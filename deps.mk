# SPDX-License-Identifier: Apache-2.0
# Debian 12 packages: `make deps` installs them, `make` names the missing ones in one line.
DEB := build-essential pkg-config protobuf-compiler protobuf-c-compiler libprotobuf-c-dev libuv1-dev libnghttp2-dev \
  libyaml-dev libsnappy-dev libzstd-dev libbrotli-dev zlib1g-dev libhighwayhash-dev libxxhash-dev libjansson-dev \
  libjemalloc-dev libhttp-parser-dev libopenblas-dev liblapacke-dev libdnnl-dev libfftw3-dev libsleef-dev check libsubunit-dev
DEB_TEST := python3 python3-venv systemd mandoc
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
.PHONY: packages
packages:
	@missing=""; for p in $(DEB); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then echo "thunkd: missing Debian packages:$$missing (make deps installs them)" >&2; exit 1; fi
deps:
	@missing=""; for p in $(DEB) $(DEB_TEST); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then $(SUDO) apt-get update -qq && DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends $$missing; fi
