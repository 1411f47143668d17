# SPDX-License-Identifier: Apache-2.0
"""The soak tests, for seconds instead of minutes."""
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "soak")]

import soak  # noqa: E402


class Soak(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="thunkd-soak-"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.work)

    def test_memory_of_a_large_artifact(self):
        soak.large(self.work, 0.125)

    def test_cycles_of_loads(self):
        soak.cycles(self.work, 0.03)

    def test_more_models_than_room(self):
        soak.evict(self.work, 0.04)

    def test_being_killed(self):
        soak.kill(self.work, 0.06)


if __name__ == "__main__":
    unittest.main()
