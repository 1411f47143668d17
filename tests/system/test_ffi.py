# SPDX-License-Identifier: Apache-2.0
"""Custom calls with users' handlers: libraries built here, from jaxlib's public headers and from ours."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import numpy as np

from daemon_fixture import BUILD, ROOT, Daemon

sys.path.insert(0, str(ROOT / "tests/conformance"))
import build
from hlo_types import write_safetensors
from run import read_safetensors

HERE = pathlib.Path(__file__).resolve().parent / "ffi"
MODEL = ROOT / "tests/data/ffi_user_handler.aot"  # JAX 0.12.0.1: x * factor, factor 3, label "abc", axes [0, 1]
CTL = BUILD / "thunkctl"
# The releases whose headers speak the oldest and the newest FFI: 0.3 and 0.5.
RELEASES = {"0.10.0": "3.13", "0.12.0.1": "3.13"}


def headers(version):
    """The include folder of a jaxlib release; fetched once per build folder."""
    out = BUILD / "ffi-headers" / version
    if not (out / "ready").exists():
        with tempfile.TemporaryDirectory() as tmp:
            subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pip",
                    "download",
                    "-q",
                    "--disable-pip-version-check",
                    "--no-deps",
                    "--only-binary=:all:",
                    "--python-version",
                    RELEASES[version],
                    "-d",
                    tmp,
                    f"jaxlib=={version}",
                ],
                check=True,
            )
            (wheel,) = pathlib.Path(tmp).glob("*.whl")
            with zipfile.ZipFile(wheel) as z:
                z.extractall(out, [n for n in z.namelist() if n.startswith("jaxlib/include/xla/ffi/")])
        (out / "ready").touch()
    return out / "jaxlib/include"


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="thunkd-ffi-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)

    def ctl(self, *args):
        r = subprocess.run([CTL, *map(str, args)], capture_output=True, text=True, timeout=120)
        return r.returncode, r.stdout, r.stderr

    def run_model(self, artifact, inputs, *libraries, more=()):
        """Outputs, or the error text."""
        (self.dir / "in.st").write_bytes(write_safetensors(list(inputs.values())))
        ffi = [a for l in libraries for a in ("--ffi", l)]
        rc, _, err = self.ctl("run", "-i", self.dir / "in.st", "-o", self.dir / "out.st", *ffi, *more, artifact)
        if rc:
            return err
        out = read_safetensors((self.dir / "out.st").read_bytes())
        return [out[str(i)] for i in range(len(out))]

    def cc(self, name, *flags):
        out = self.dir / f"{name}.so"
        subprocess.run(
            [
                "cc",
                "-std=c17",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-shared",
                "-fPIC",
                f"-I{ROOT}/runtime/ffi",
                *flags,
                HERE / "every.c",
                "-o",
                out,
            ],
            check=True,
        )
        return out


@unittest.skipUnless(shutil.which("c++"), "no C++ compiler")
class PublicHeaders(Case):
    """scale.cc with the headers of two releases."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.x = np.random.default_rng(7).standard_normal((8, 4)).astype(np.float32)
        kinds = {
            "plain": [],
            "entry": ['-DTEST_ENTRY="Host"'],
            "cuda": ['-DTEST_ENTRY="CUDA"'],
            "static": ["-DTEST_STATIC"],
        }
        for v in RELEASES:
            for kind, flags in kinds.items():
                subprocess.run(
                    [
                        "c++",
                        "-w",
                        "-std=c++17",
                        "-shared",
                        "-fPIC",
                        f"-I{headers(v)}",
                        f"-I{ROOT}/runtime/ffi",
                        *flags,
                        HERE / "scale.cc",
                        "-o",
                        cls.dir / f"{kind}-{v}.so",
                    ],
                    check=True,
                )

    def each(self, kind):
        for v in RELEASES:
            with self.subTest(jaxlib=v):
                yield self.dir / f"{kind}-{v}.so"

    def multiplies(self, library, more=()):
        out = self.run_model(MODEL, {"0": self.x}, library, more=more)
        self.assertIsInstance(out, list, out)
        np.testing.assert_array_equal(out[0], self.x * np.float32(3))

    def test_symbol_of_the_targets_name(self):
        for lib in self.each("plain"):
            self.multiplies(lib)

    def test_map(self):
        for lib in self.each("plain"):
            self.multiplies(f"{lib}:other=Fail,thunkd_test_scale=Scale")

    def test_entry_point_with_state_scratch_pool_and_future(self):
        for lib in self.each("entry"):
            self.multiplies(lib, more=["--repeat", 20])

    def test_map_of_a_library_that_registers_types(self):
        for lib in self.each("entry"):
            self.multiplies(f"{lib}:thunkd_test_scale@instantiate=Instantiate,thunkd_test_scale=Stateful")

    def test_static_registration(self):
        for lib in self.each("static"):
            self.multiplies(lib)

    def test_errors_of_the_handler_and_the_binding(self):
        for lib in self.each("plain"):
            out = self.run_model(MODEL, {"0": self.x}, f"{lib}:thunkd_test_scale=Fail")
            self.assertIn("custom call 'ffi_call.1': thunkd_test_scale: execute: the handler says no (DATA_LOSS)", out)
            out = self.run_model(MODEL, {"0": self.x}, f"{lib}:thunkd_test_scale=WrongType")
            self.assertIn("Wrong number of attributes", out)

    def test_another_platform(self):
        for lib in self.each("cuda"):
            rc, out, _ = self.ctl("check", "--ffi", lib, MODEL)
            self.assertEqual(rc, 1)
            self.assertIn(
                "'thunkd_test_scale' on the host device; there is a handler for platform 'cuda' only",
                out,
            )

    def test_unregistered_state_type(self):
        for lib in self.each("plain"):
            out = self.run_model(MODEL, {"0": self.x}, f"{lib}:t@instantiate=Instantiate,t=Stateful")
            self.assertIn("handler 't' refuses the metadata query", out)

    def test_daemon(self):
        import grpc
        from tritonclient.grpc import service_pb2 as pb
        from tritonclient.grpc import service_pb2_grpc

        for lib in self.each("entry"):
            store = pathlib.Path(tempfile.mkdtemp(dir=self.dir))
            (store / "scale/1").mkdir(parents=True)
            shutil.copy(MODEL, store / "scale/1/model.aot")
            d = Daemon(store=store, ffi_libraries=json.dumps([str(lib)]), threads=4)
            try:
                with grpc.insecure_channel(d.target) as channel:
                    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
                    meta = stub.ModelMetadata(pb.ModelMetadataRequest(name="scale"))
                    r = pb.ModelInferRequest(model_name="scale")
                    r.inputs.add(name=meta.inputs[0].name, datatype="FP32", shape=self.x.shape)
                    r.raw_input_contents.append(self.x.tobytes())
                    answers = [f.result(30) for f in [stub.ModelInfer.future(r) for _ in range(32)]]
            finally:
                self.assertEqual(d.close(), 0)
            for a in answers:
                np.testing.assert_array_equal(
                    np.frombuffer(a.raw_output_contents[0], np.float32).reshape(8, 4), self.x * np.float32(3)
                )


class OurHeader(Case):
    """every.c, with executables made here."""

    def call(self, target, shape, attrs=None, api=4, operands=(), tokens=0, **fields):
        """An executable whose one result comes from a custom call."""
        m = build.Module("custom")
        params = [m.param(s) for s in operands]
        v = m.entry.op("custom-call", shape, params, custom_call_target=target)
        v.buffers = [m.alloc(shape.bytes)]
        wrap = lambda s: build.new("xla.NullableShapedSliceProto", shaped_slice=s)
        token = [build.new("xla.NullableShapedSliceProto")] * tokens
        t = build.new(
            "xla.gpu.CustomCallThunkProto",
            target_name=target,
            operands=token + [wrap(m.slice_of(p)) for p in params],
            results=[wrap(m.slice_of(v))] + token,
            api_version=api,
            **fields,
        )
        for name, value in (attrs or {}).items():
            t.attributes.attrs.add(key=name, value=value)
        m.thunk(None, v.name, custom_call_thunk=t)
        m.result(v)
        path = self.dir / "made.aot"
        path.write_bytes(m.executable())
        return path

    def test_attributes_of_every_kind(self):
        scalars = {
            "b": (1, True),
            "i8": (2, -128),
            "i16": (3, 32767),
            "i32": (4, -(2**31)),
            "i64": (5, 2**63 - 1),
            "u8": (6, 255),
            "u16": (7, 65535),
            "u32": (8, 2**32 - 1),
            "u64": (9, 2**64 - 1),
            "f32": (11, 0.5),
            "f64": (12, -1e300),
        }
        text = lambda v: str(v).lower() if isinstance(v, (bool, int)) else f"{v:.17g}"
        attrs, want = {}, {}
        for f, (number, v) in scalars.items():
            attrs["s_" + f] = build.new("xla.ffi.AttributeProto", scalar={f: v})
            want["s_" + f] = f"{number}={text(v)}"
            if f != "b":
                attrs["a_" + f] = build.new("xla.ffi.AttributeProto", array={f: {"values": [v, 1, 0]}})
                want["a_" + f] = f"{number}[3]={text(v)},1,0"
        attrs["empty"] = build.new("xla.ffi.AttributeProto", array={"f64": {}})
        want["empty"] = "12[0]="
        attrs["Z"] = build.new("xla.ffi.AttributeProto", str=b"\xfe\x00x")
        want["Z"] = "s3=fe0078"
        inner = build.new("xla.ffi.AttributeProto")
        inner.dict.attrs.add(key="y", value=build.new("xla.ffi.AttributeProto", str=b""))
        inner.dict.attrs.add(key="x", value=build.new("xla.ffi.AttributeProto", dict={}))
        attrs["d"] = inner
        want["d"] = "{x:{};y:s0=;}"
        body = "".join(f"{k}:{want[k]};" for k in sorted(want))
        aot = self.call(
            "dump",
            build.S("u8", 4096),
            attrs,
            operands=[build.S("f32", 2, 3, layout=[0, 1]), build.S("pred")],
            tokens=1,
        )
        inputs = {"0": np.zeros((2, 3), np.float32), "1": np.array(True)}
        for lib in (
            self.cc("every"),
            self.cc("old", "-DOLD", "-DVERSION=3"),
            self.cc("oldest", "-DOLD", "-DVERSION=1"),
        ):
            with self.subTest(library=lib.name):
                out = self.run_model(aot, inputs, lib)
                self.assertIsInstance(out, list, out)
                self.assertEqual(out[0].tobytes().rstrip(b"\0").decode(), "17 11:2x3 1 | 6:4096 17 | " + body)

    def test_numbers_out_of_range(self):
        lib = self.cc("range")
        for f, v, name in (
            ("i8", 128, "s8"),
            ("i8", -129, "s8"),
            ("i16", 32768, "s16"),
            ("u8", 256, "u8"),
            ("u16", 65536, "u16"),
        ):
            for p in (
                build.new("xla.ffi.AttributeProto", scalar={f: v}),
                build.new("xla.ffi.AttributeProto", array={f: {"values": [0, v]}}),
            ):
                with self.subTest(attribute=str(p)):
                    out = self.run_model(self.call("dump", build.S("u8", 64), {"k": p}), {}, lib)
                    self.assertIn("attribute 'k': ", out)
                    self.assertIn(f"{v} is out of the range of {name}", out)
        out = self.run_model(self.call("dump", build.S("u8", 64), {"k": build.new("xla.ffi.AttributeProto")}), {}, lib)
        self.assertIn("attribute 'k': no value of a known kind", out)

    def test_states_of_all_stages(self):
        lib = self.cc("states")
        out = self.run_model(self.call("states", build.S("s32", 2)), {}, lib, more=["--repeat", 5])
        np.testing.assert_array_equal(out[0], [123, 3])

    def test_errors(self):
        lib = self.cc("errors")
        want = {
            1: "code 1 (CANCELLED)",
            2: "code 2 (UNKNOWN)",
            16: "code 16 (UNAUTHENTICATED)",
            99: "code 99 (error of an unknown code)",
            -1: "alignment 24 is not a power of two up to 256 (INVALID_ARGUMENT)",
            -2: "struct_size 24, expected at least 32 (INVALID_ARGUMENT)",
            -3: "(NOT_FOUND)",
            -4: "the instantiate stage set no state (NOT_FOUND)",
            -5: "text (INVALID_ARGUMENT)",
            -6: "handlers are registered while their library is being loaded (FAILED_PRECONDITION)",
        }
        for code, text in want.items():
            with self.subTest(code=code):
                aot = self.call(
                    "refuse", build.S("u8", 1), {"code": build.new("xla.ffi.AttributeProto", scalar={"i64": code})}
                )
                self.assertIn(f"{text}\n", self.run_model(aot, {}, lib))

    def test_versions(self):
        aot = self.call("dump", build.S("u8", 64))
        for n in (6, 99):
            rc, _, err = self.ctl("check", "--ffi", self.cc(f"v{n}", f"-DVERSION={n}"), aot)
            self.assertEqual(rc, 1)
            self.assertIn(f"is built for XLA FFI 0.{n}; this build accepts 0.1 to 0.5", err)
        rc, _, err = self.ctl("check", "--ffi", self.cc("v0", "-DVERSION=0"), aot)
        self.assertEqual(rc, 1)
        self.assertIn("does not answer the metadata query", err)
        self.assertEqual(self.ctl("check", "--ffi", self.cc("v3", "-DVERSION=3"), aot)[0], 0)

    def test_two_libraries_for_one_target(self):
        aot = self.call("dump", build.S("u8", 64))
        for flags, text in (
            ([], "type 'test counter' is already registered"),
            (["-DOLD"], "target 'dump' has two handlers"),
        ):
            a, b = self.cc("a", *flags), self.cc("b", *flags)
            rc, _, err = self.ctl("check", "--ffi", a, "--ffi", b, aot)
            self.assertEqual(rc, 1)
            self.assertIn(text, err)
        self.assertEqual(self.ctl("check", "--ffi", a, "--ffi", a, aot)[0], 0)

    def test_check_tells_what_is_missing(self):
        aot = self.call("dump", build.S("u8", 64))
        rc, out, _ = self.ctl("check", "--json", aot)
        self.assertEqual(rc, 1)
        (r,) = json.loads(out)
        self.assertFalse(r["loads"])
        self.assertIn("no handler for target 'dump' on the host device", r["reason"])
        rc, out, _ = self.ctl("check", "--json", "--ffi", self.cc("check"), aot)
        self.assertEqual((rc, json.loads(out)[0]["loads"]), (0, True))

    def test_libraries_that_are_none(self):
        aot = self.call("dump", build.S("u8", 64))
        (self.dir / "text.so").write_text("no library")
        for lib, rc, text in (
            (self.dir / "none.so", 2, "none.so: "),
            (self.dir / "text.so", 2, "text.so: "),
            ("", 2, "a library needs a path"),
            (f"{self.cc('sym')}:t=nope", 1, "there is no symbol 'nope' for target 't'"),
            (f"{self.dir}/sym.so:t", 2, "expected LIBRARY"),
            (f"{self.dir}/sym.so:t=", 2, "expected LIBRARY"),
            (f"{self.dir}/sym.so:t@prepare=thunkd_ffi_handlers", 2, "no execute handler"),
        ):
            with self.subTest(library=str(lib)):
                got, _, err = self.ctl("check", "--ffi", lib, aot)
                self.assertEqual(got, rc, err)
                self.assertIn(text, err)

    def test_refused_thunks(self):
        lib = self.cc("refused")
        shape = build.S("u8", 64)
        for want, aot in (
            ("only the typed FFI (4) is supported", lambda: self.call("dump", shape, api=1)),
            ("status-returning interface (API version 2)", lambda: self.call("dump", shape, api=2)),
            ("unified status-returning interface (API version 3)", lambda: self.call("dump", shape, api=3)),
            ("typed, but with 2 opaque bytes", lambda: self.call("dump", shape, opaque=b"ab")),
            (
                "called computation 'nowhere' is not in the module",
                lambda: self.call("dump", shape, called_computation="nowhere"),
            ),
            ("custom call without a target", lambda: self.call("", shape)),
            ("run it on a CUDA device", lambda: self.call("mosaic_gpu_v2", shape)),
            ("run it on a CUDA device", lambda: self.call("triton_kernel_call_ffi", shape)),
            ("calls back into the Python process", lambda: self.call("xla_ffi_python_gpu_callback", shape)),
        ):
            with self.subTest(want=want):
                rc, out, _ = self.ctl("check", "--ffi", lib, aot())
                self.assertEqual(rc, 1)
                self.assertIn(want, out)


if __name__ == "__main__":
    unittest.main()
