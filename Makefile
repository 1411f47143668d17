# SPDX-License-Identifier: Apache-2.0
# make            build build/thunkd, build/thunkctl, build/libthunk.a, build/thunkd-host.so
# make check      install packages, build, run all tests     make demo     the main job, shown
# SAN=address,undefined | SAN=thread    build and test with sanitizers, in a folder of its own
CC ?= cc
SAN ?=
Q := $(if $(V),,@)
PREFIX ?= /usr/local
DESTDIR ?=
ifeq ($(SAN),)
B ?= build
else
comma := ,
B ?= build/san-$(subst $(comma),-,$(SAN))
endif

PKGS := libprotobuf-c libuv libnghttp2 yaml-0.1 snappy libzstd libbrotlidec libbrotlienc zlib libxxhash jansson
CPPFLAGS += -I. -I$(B)/gen -D_GNU_SOURCE -DTD_PREFIX='"$(PREFIX)"'
CFLAGS ?= -O2 -g
CFLAGS += -std=c17 -fPIC -ffp-contract=off -fno-math-errno -fvisibility=hidden -pthread -MMD -MP \
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wold-style-definition -Wmissing-prototypes -Wimplicit-fallthrough \
  -Wformat=2 -Wundef -Wvla $(if $(CI),-Werror)
LDLIBS := -lhighwayhash -lsnappy -lzstd -lbrotlidec -lbrotlienc -lbrotlicommon -lz -lprotobuf-c -lxxhash -ljansson -lyaml -ldl -lm -pthread
FFI_EXPORT := -Wl,--export-dynamic-symbol=XLA_FFI_GetApi
HOSTLIBS := -lgomp -ldnnl -lfftw3 -lfftw3f -llapacke -lsleef -lopenblas -lm -pthread
ifneq ($(SAN),)
CFLAGS += -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all
LDFLAGS += -fsanitize=$(SAN)
MALLOC :=
else
MALLOC := -ljemalloc
endif

PROTOS := $(wildcard proto/schema/*.proto)
GEN_C := $(PROTOS:proto/schema/%.proto=$(B)/gen/schema/%.pb-c.c)
GEN_H := $(GEN_C:.c=.h)
LIB_SRC := $(wildcard base/*.c proto/*.c contract/*.c runtime/*.c runtime/hlo/*.c runtime/thunk/*.c runtime/ffi/*.c runtime/cuda/*.c store/*.c config/*.c) runtime/host/types.c
ISA_SRC := $(addprefix runtime/host/,pw_int.c pw_f32.c pw_f64.c pw_c64.c pw_c128.c convert.c small.c vec_table.c vec_pair.c vec_transpose.c)
ISAS := $(if $(filter x86_64,$(shell uname -m)),v3 v4)
HOST_SRC := $(filter-out $(ISA_SRC) runtime/host/types.c,$(wildcard runtime/host/*.c runtime/host/handlers/*.c))
ISA_O := $(foreach i,base $(ISAS),$(ISA_SRC:%.c=$(B)/%.$i.o))
DAEMON_SRC := $(wildcard daemon/*.c)
CTL_SRC := $(wildcard ctl/*.c)
TESTS := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/*_test.c))
obj = $(patsubst %.c,$(B)/%.o,$(1))
HOST_O = $(call obj,$(HOST_SRC)) $(ISA_O)
GEN_O := $(GEN_C:.c=.o)
LIB_O := $(call obj,$(LIB_SRC)) $(GEN_O)

.PHONY: all deps fakes check check-streams check-cuda check-fault check-gpu demo bench bench-host install clean headers check-unit check-system coverage
.SECONDARY:
all: $(B)/thunkd $(B)/thunkctl $(B)/libthunk.a $(B)/thunkd-host.so

include deps.mk

$(B)/gen/schema/%.pb-c.c $(B)/gen/schema/%.pb-c.h: proto/schema/%.proto | packages
	@mkdir -p $(B)/gen/schema
	$(Q)protoc-c -Iproto/schema --c_out=$(B)/gen/schema $< 2>&1 | { grep -v "is unused" || true; }
$(GEN_O): CFLAGS += -w
$(B)/runtime/cuda/own.o: runtime/cuda/kernels.ptx
$(B)/%.o: %.c | $(GEN_H)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
$(B)/gen/%.o: $(B)/gen/%.c $(GEN_H)
	$(Q)$(CC) $(CPPFLAGS) -I$(B)/gen/schema $(CFLAGS) -c $< -o $@
CPPFLAGS += -I$(B)/gen/schema
$(B)/runtime/host/%.o: CFLAGS += -O3
$(B)/runtime/host/vec.o: CPPFLAGS += $(if $(ISAS),-DTD_HAVE_ISAS)
$(B)/runtime/host/pool.o: CFLAGS += $(if $(findstring thread,$(SAN)),,-fopenmp) # its barriers are nothing that TSan sees
# files compiled once per instruction set: x.base.o, x.v3.o, x.v4.o
define isa_rule
$(B)/%.$(1).o: %.c | $(GEN_H)
	@mkdir -p $$(@D)
	$(Q)$$(CC) $$(CPPFLAGS) -DTD_ISA=_$(1) -DTD_ISA_NAME='"$(1)"' $$(CFLAGS) $(2) -c $$< -o $$@
endef
$(eval $(call isa_rule,base,))
$(eval $(call isa_rule,v3,-march=x86-64-v3))
$(eval $(call isa_rule,v4,-march=x86-64-v4 -mprefer-vector-width=512))

$(B)/libthunk.a: $(LIB_O)
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/libhost.a: $(HOST_O)
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/thunkd-host.so: $(HOST_O) $(B)/libthunk.a
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,--exclude-libs,ALL -o $@ $(HOST_O) $(B)/libthunk.a $(HOSTLIBS) $(LDLIBS)
$(B)/thunkd: $(call obj,$(DAEMON_SRC)) $(B)/libthunk.a
	$(Q)$(CC) $(LDFLAGS) $(FFI_EXPORT) -o $@ $^ -luv -lnghttp2 -lhttp_parser $(LDLIBS) $(MALLOC)
$(B)/thunkctl: $(call obj,$(CTL_SRC)) $(B)/libthunk.a
	$(Q)$(CC) $(LDFLAGS) $(FFI_EXPORT) -o $@ $^ -luv -lnghttp2 $(LDLIBS) $(MALLOC)
$(B)/tests/%: $(B)/tests/unit/%.o $(B)/libhost.a $(B)/libthunk.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $< $(B)/libhost.a $(B)/libthunk.a $(B)/libhost.a -lcheck -lsubunit -lrt $(HOSTLIBS) -luv -lnghttp2 -lhttp_parser $(LDLIBS) $(MALLOC)

# a CUDA driver for tests: tests/fakecuda/fakecuda.h
FAKE_SRC := $(filter-out tests/fakecuda/lib_%,$(wildcard tests/fakecuda/*.c))
$(B)/fakecuda/libcuda.so.1: $(call obj,$(FAKE_SRC)) $(B)/libhost.a $(B)/libthunk.a
	@mkdir -p $(@D)
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,libcuda.so.1 -Wl,--no-undefined -Wl,--exclude-libs,ALL -o $@ $(call obj,$(FAKE_SRC)) $(B)/libhost.a $(B)/libthunk.a $(B)/libhost.a $(HOSTLIBS) $(LDLIBS)
# and CUDA's libraries: file name, sources, what they are computed with
define fake_lib
FAKE_LIBS += $(B)/fakecuda/$(1)
$(B)/fakecuda/$(1): $(call obj,$(2)) $(B)/fakecuda/libcuda.so.1 $(B)/libthunk.a
	$$(Q)$$(CC) -shared $$(LDFLAGS) -Wl,-soname,$(1) -Wl,--no-undefined -Wl,--exclude-libs,ALL -Wl,-rpath,'$$$$ORIGIN' -Wl,-z,nodelete -o $$@ $$^ $(3) $$(LDLIBS)
endef
$(eval $(call fake_lib,libcufft.so.12,tests/fakecuda/lib_fft.c,-lfftw3 -lfftw3f))
$(eval $(call fake_lib,libcusolver.so.12,tests/fakecuda/lib_solver.c tests/fakecuda/lib_solver_values.c,-llapacke -lopenblas))
$(eval $(call fake_lib,libcusparse.so.12,tests/fakecuda/lib_sparse.c tests/fakecuda/lib_gtsv.c,-llapacke -lopenblas))
$(eval $(call fake_lib,libcublas.so.13,tests/fakecuda/lib_blas.c tests/fakecuda/lib_blas_factor.c,-llapacke -lopenblas))
$(eval $(call fake_lib,libcudnn.so.9,tests/fakecuda/lib_dnn.c tests/fakecuda/lib_dnn_rows.c tests/fakecuda/lib_dnn_graph.c tests/fakecuda/lib_dnn_attention.c tests/fakecuda/lib_dnn_run.c))
$(eval $(call fake_lib,libcublasLt.so.13,tests/fakecuda/lib_blaslt.c tests/fakecuda/lib_blaslt_run.c))
$(B)/tests/cuda_custom_test $(B)/tests/cuda_solver_test $(B)/tests/cuda_fft_test $(B)/tests/cuda_handlers_test $(B)/tests/cuda_handlers_more_test: | $(FAKE_LIBS)
$(B)/tests/cuda_attention_test $(B)/tests/cuda_dnn_test $(B)/tests/cuda_gemm_test $(B)/tests/cuda_blas_test $(B)/tests/cuda_topk_test: | $(FAKE_LIBS)
$(B)/tests/bind_device_test $(B)/tests/trace_test $(B)/tests/cuda_graph_test $(B)/tests/cuda_test $(B)/tests/fakecuda_test $(B)/tests/fakecuda_more_test $(B)/tests/fakecuda_run_test: | $(B)/fakecuda/libcuda.so.1

$(B)/demo-digits: tools/demo/digits.c $(B)/libthunk.a
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -o $@ $< $(B)/libthunk.a $(LDFLAGS) $(LDLIBS)

$(B)/make-artifact: $(B)/tests/bench/make_artifact.o $(B)/libthunk.a
$(B)/load-bench: $(B)/tests/bench/load_bench.o $(B)/libthunk.a
$(B)/dispatch-bench: $(B)/tests/bench/dispatch_bench.o $(B)/libthunk.a
$(B)/gpu-probe: $(B)/tests/bench/gpu_probe.o $(B)/libthunk.a
$(B)/make-artifact $(B)/load-bench $(B)/dispatch-bench $(B)/gpu-probe:
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS) $(MALLOC)

$(B)/coverage: tools/coverage.c $(B)/libhost.a $(B)/libthunk.a
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -o $@ $< $(LDFLAGS) $(B)/libhost.a $(B)/libthunk.a $(B)/libhost.a $(HOSTLIBS) $(LDLIBS)
coverage: $(B)/coverage
	$(B)/coverage > docs/coverage.md

-include $(shell find $(B) -name '*.d' 2>/dev/null)

# what stands in for CUDA
fakes: $(B)/fakecuda/libcuda.so.1 $(FAKE_LIBS)

tests: fakes $(B)/gpu-probe $(B)/dispatch-bench $(TESTS) $(B)/coverage $(B)/make-artifact
check: deps
	$(MAKE) B=$(B) all tests
	@tests/run.sh $(B)
# every artifact of THUNKD_CORPUS in every form and back
check-roundtrip: all $(B)/tests/roundtrip_test
	THUNKD_ROUNDTRIP=all $(B)/tests/roundtrip_test
# the store under load, at full length: some six minutes. ONLY="large evict", SCALE=0.1
soak: all $(B)/make-artifact $(B)/load-bench
	tests/venv.sh $(B)
	THUNKD_BUILD=$(abspath $(B)) $(B)/venv/bin/python tests/soak/soak.py --scale $(or $(SCALE),1) $(ONLY)
demo: deps
	$(MAKE) B=$(B) all $(B)/demo-digits
	@tools/demo.sh $(B)
# every program of the corpus fifty times on delayed streams: some ten minutes
check-streams: all
	@test -n "$(THUNKD_CORPUS)" || { echo "check-streams: set THUNKD_CORPUS to a folder of artifacts" >&2; exit 2; }
	python3 tools/check_streams.py $(B)/thunkctl "$(THUNKD_CORPUS)" --seeds 50 --rest all --rest-seeds 50
# every artifact of THUNKD_CORPUS on the CUDA device with the stand-in driver, with eight schedules: some ten minutes
check-cuda: all fakes
	@test -n "$(THUNKD_CORPUS)" || { echo "check-cuda: set THUNKD_CORPUS to a folder of artifacts" >&2; exit 2; }
	python3 tools/check_cuda.py $(B)/thunkctl "$(THUNKD_CORPUS)" --releases all --every 1 --seeds 20 --verify 1
# on a machine with a GPU: tools/check_gpu.sh
check-gpu: all $(B)/gpu-probe $(B)/dispatch-bench
	tools/check_gpu.sh $(B)
# every call of the driver failing, under thunkctl and under thunkd, not only a sample: some five minutes
check-fault: all fakes
	python3 tests/fault/sweep.py $(B)/thunkctl "$(THUNKD_CORPUS)" --step 1
	tests/venv.sh $(B)
	THUNKD_BUILD=$(abspath $(B)) $(B)/venv/bin/python tests/fault/daemon_faults.py
# RELEASE=X.Y.Z [TARGET=h100_sxm]: tests/golden/README.md
.PHONY: golden-add
golden-add: all
	@tools/golden_add.sh $(B) "$(RELEASE)" $(TARGET)
bench: all fakes $(B)/make-artifact $(B)/load-bench $(B)/dispatch-bench
	tests/bench/run.sh $(B)
	tests/bench/load.sh $(B)
	tests/bench/dispatch.sh $(B)
# NETS=folder GENERATOR=file.py JAX_PYTHON=python ONLY=net,... ROUNDS=n SECONDS=s JSON=file: tests/bench/host.py
bench-host: all
	@tests/bench/host.py $(B)/thunkctl $(if $(NETS),--nets $(NETS)) $(if $(GENERATOR),--generator $(GENERATOR)) \
	  $(if $(JAX_PYTHON),--jax $(JAX_PYTHON)) $(if $(ONLY),--only $(ONLY)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
	  $(if $(SECONDS),--seconds $(SECONDS)) $(if $(JSON),--json $(JSON))
install: all
	install -D -m755 $(B)/thunkd $(DESTDIR)$(PREFIX)/bin/thunkd
	install -D -m755 $(B)/thunkctl $(DESTDIR)$(PREFIX)/bin/thunkctl
	install -D -m755 $(B)/thunkd-host.so $(DESTDIR)$(PREFIX)/lib/thunkd/thunkd-host.so
	for h in abi entry; do install -D -m644 runtime/ffi/$$h.h $(DESTDIR)$(PREFIX)/include/thunkd/$$h.h; done
	install -D -m644 config/thunkd.yaml $(DESTDIR)/etc/thunkd/thunkd.yaml
	for u in systemd/*.service systemd/*.socket; do install -D -m644 $$u $(DESTDIR)$(PREFIX)/lib/systemd/system/$$(basename $$u); done
	for m in man/*.[1-8]; do install -D -m644 $$m $(DESTDIR)$(PREFIX)/share/man/man$${m##*.}/$$(basename $$m); done
clean:
	rm -rf build
