# SPDX-License-Identifier: Apache-2.0
"""thunkctl convert: forms, compressions, strip, upgrades; answers before and after."""

import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from daemon_fixture import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tests/conformance"))
from hlo_types import write_safetensors

CTL = BUILD / "thunkctl"
DIGITS = ROOT / "samples/store/digits/1"
FORMS = ["riegeli-split", "riegeli", "plain", "plain-plain", "inner", "text"]
SIGNATURE = bytes.fromhex("83af70d10d884a3f0000000000000000400000000000000091bac23c9287e1a9")
# Every 40th artifact of the corpus; THUNKD_ROUNDTRIP=all takes all of them.
STEP = 1 if os.environ.get("THUNKD_ROUNDTRIP") == "all" else 40


def ctl(*args, code=0):
    r = subprocess.run([CTL, *args], capture_output=True, timeout=120)
    if r.returncode != code:
        raise AssertionError(f"thunkctl {args}: exit {r.returncode}, expected {code}: {r.stderr.decode()}")
    return r


class Convert(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="thunkd-convert-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 8, 8)
        (cls.dir / "in.st").write_bytes(write_safetensors([image]))
        cls.model = DIGITS / "h100_sxm.aot"
        cls.answer = cls.run_model(cls.model)

    @classmethod
    def run_model(cls, artifact):
        out = cls.dir / "answer.st"
        out.unlink(missing_ok=True)
        ctl("run", "--inputs", cls.dir / "in.st", "--weights", DIGITS / "weights.safetensors", "--outputs", out, artifact)
        return out.read_bytes()

    def convert(self, source, *options, to="out"):
        out = self.dir / to
        told = json.loads(ctl("convert", "--json", *options, source, out).stdout)
        self.assertEqual(told["bytes_written"], out.stat().st_size)
        self.assertEqual(told["bytes_saved"], told["bytes_read"] - told["bytes_written"])
        return out, told

    def test_every_form_and_back(self):
        for form in FORMS:
            with self.subTest(form=form):
                there, told = self.convert(self.model, "--form", form, "--verify", to=form)
                self.assertTrue(told["verified"])
                self.assertEqual(self.run_model(there), self.answer)
                back, _ = self.convert(there, "--verify", to="back")
                self.assertEqual(self.run_model(back), self.answer)
                ctl("check", there)

    def test_every_compression(self):
        sizes = {}
        for how in ["none", "snappy", "zstd", "zstd:19", "zstd:-3", "brotli:0", "brotli", "brotli:11"]:
            there, told = self.convert(self.model, "--compression", how, "--verify")
            self.assertEqual(told["compression"], how)
            self.assertEqual(there.read_bytes()[:32], SIGNATURE)
            self.assertEqual(self.run_model(there), self.answer)
            sizes[how] = told["bytes_written"]
        self.assertLess(sizes["zstd:19"], sizes["zstd:-3"])
        self.assertLess(sizes["brotli:11"], sizes["none"])

    def test_same_bytes_twice(self):
        for form in FORMS:
            one, _ = self.convert(self.model, "--form", form, to="one")
            two, _ = self.convert(one, "--form", form, to="two")
            self.assertEqual(one.read_bytes(), two.read_bytes(), form)

    def test_strip(self):
        whole, before = self.convert(self.model, to="whole")
        there, told = self.convert(self.model, "--strip", "hlo-metadata,debug", "--verify", to="small")
        self.assertEqual([s["class"] for s in told["stripped"]], ["hlo-metadata", "debug"])
        self.assertTrue(all(s["fields"] > 0 for s in told["stripped"]))
        self.assertLess(told["bytes_written"], before["bytes_written"])
        self.assertEqual(self.run_model(there), self.answer)
        _, again = self.convert(there, "--strip", "all", to="again")
        self.assertEqual(again["stripped"][0]["fields"], 0)
        text = self.convert(there, "--form", "text", to="t")[0].read_bytes()
        self.assertFalse(b" metadata {" in text or b"stack_frame_index" in text)

    def test_to_release(self):
        there, told = self.convert(self.model, "--to-release", "0.12.0.1", "--verify")
        self.assertEqual(self.run_model(there), self.answer)
        _, again = self.convert(there, "--to-release", "0.12.0", to="again")
        self.assertEqual(again["upgraded"], [])
        r = ctl("convert", "--to-release", "7.0", self.model, self.dir / "no", code=2)
        self.assertIn(b"no release", r.stderr)
        r = ctl("convert", "--to-release", "0.8.0", self.model, self.dir / "no", code=1)
        self.assertFalse((self.dir / "no").exists())

    def test_envelopes(self):
        inner = self.model.read_bytes()
        ifrt = b"\x02\x08\x01" + inner  # SerializedXlaExecutableMetadata { ifrt_version_number: 1 }

        class Exec:
            pass

        class Pickler(pickle.Pickler):
            def persistent_id(self, obj):
                return ("exec", ifrt) if isinstance(obj, Exec) else None

        with open(self.dir / "x.pickle", "wb") as f:
            Pickler(f, protocol=4).dump((Exec(), [], True))
        (self.dir / "x.ifrt").write_bytes(ifrt)
        want, _ = self.convert(self.model, to="want")
        for name, form in (("x.ifrt", "ifrt"), ("x.pickle", "pickle")):
            got, told = self.convert(self.dir / name, to="got")
            self.assertEqual(told["forms_read"][0], form)
            self.assertEqual(got.read_bytes(), want.read_bytes())

    def test_text_of_hand(self):
        text = self.convert(self.model, "--form", "text", to="t")[0].read_text()
        self.assertTrue(text.startswith("# proto-file: "))
        (self.dir / "hand").write_text("# a comment\n" + text.replace("{\n", "<\n").replace("}\n", ">;\n") + "executable_and_options { gone: 1 }\n")
        there, told = self.convert(self.dir / "hand")
        self.assertEqual(told["skipped_names"], 1)
        self.assertEqual(self.run_model(there), self.answer)
        (self.dir / "bad").write_text(text + "\ngpu_executable { module_name: 5 }\n")
        r = ctl("convert", self.dir / "bad", self.dir / "no", code=1)
        self.assertIn(f"line {text.count(chr(10)) + 2}, column ".encode(), r.stderr)

    def test_result_is_all_or_nothing(self):
        out = self.dir / "kept"
        out.write_bytes(b"before")
        damaged = bytearray(self.model.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        (self.dir / "damaged").write_bytes(damaged)
        ctl("convert", self.dir / "damaged", out, code=1)
        self.assertEqual(out.read_bytes(), b"before")
        ctl("convert", self.dir / "none-such", out, code=2)
        ctl("convert", self.model, self.dir / "no/such/folder", code=2)
        self.assertEqual([p.name for p in self.dir.glob("kept*")], ["kept"])
        shutil.copy(self.model, self.dir / "in-place")
        ctl("convert", "--form", "text", self.dir / "in-place", self.dir / "in-place")
        self.assertEqual(self.run_model(self.dir / "in-place"), self.answer)

    def test_standard_output(self):
        want = self.convert(self.model, to="want")[0].read_bytes()
        r = ctl("convert", self.model, "-")
        self.assertEqual(r.stdout, want)
        self.assertIn(b"written", r.stderr)

    def test_usage(self):
        for args in (
            [],
            [self.model],
            [self.model, "a", "b"],
            ["--form", "pickle", self.model, "a"],
            ["--compression", "lz4", self.model, "a"],
            ["--compression", "zstd:99", self.model, "a"],
            ["--compression", "zstd", "--form", "text", self.model, "a"],
            ["--strip", "thunks", self.model, "a"],
            ["--strip", "", self.model, "a"],
        ):
            r = ctl("convert", *args, code=2)
            self.assertIn(b"convert", r.stderr)
        self.assertIn(b"--to-release", ctl("convert", "--help").stdout)

    @unittest.skipUnless(os.environ.get("THUNKD_CORPUS"), "THUNKD_CORPUS is not set")
    def test_corpus(self):
        root = pathlib.Path(os.environ["THUNKD_CORPUS"])
        for path in sorted(root.glob("*/*/*.aot"))[::STEP]:
            if path.parent.name == "0.8.0" or "heavy" in path.name:
                continue
            with self.subTest(artifact=str(path.relative_to(root))):
                model = path.parents[1]
                run = ["run", "--inputs", model / "inputs.safetensors", "--outputs"]
                first = subprocess.run([CTL, *run, self.dir / "first.st", path], capture_output=True, timeout=300)
                for form in FORMS:
                    there, _ = self.convert(path, "--form", form, "--verify", to="there")
                    back, _ = self.convert(there, "--verify", to="back")
                    if first.returncode == 0 and form in ("riegeli-split", "text"):
                        ctl(*run, self.dir / "second.st", back)
                        self.assertEqual((self.dir / "first.st").read_bytes(), (self.dir / "second.st").read_bytes())


if __name__ == "__main__":
    unittest.main()
