# SPDX-License-Identifier: Apache-2.0
"""thunkctl inspect --streams: text, JSON and Graphviz tell the same plan, and it is the one that runs have."""

import json
import re
import shutil
import subprocess
import unittest

from daemon_fixture import BUILD, ROOT

GOLDEN = ROOT / "tests/golden/executables/h100_sxm/v6"


def inspect(case, *options):
    command = [BUILD / "thunkctl", "inspect", *options, GOLDEN / case / "executable.aot"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


class Streams(unittest.TestCase):
    def plan(self, case, *options):
        r = inspect(case, "--streams", "--json", *options)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        return json.loads(r.stdout)

    def test_steps_are_the_thunks(self):
        for case in ("control", "streams", "attention", "mlp"):
            plan = self.plan(case)
            thunks = json.loads(inspect(case, "--json").stdout)["thunks"]
            self.assertEqual([(s["kind"], s["name"], s["depth"]) for s in plan["steps"]],
                             [(t["kind"], t["annotation"], t["depth"]) for t in thunks])
            self.assertEqual([s["lane"] for s in plan["steps"]], self.lanes(plan["steps"], plan["pairs"]))
            for i, lane in enumerate(plan["lanes"]):
                self.assertEqual(lane["thunks"], sum(s["lane"] == i for s in plan["steps"]))
                self.assertEqual(lane["bodies"], sum(p["lane"] == i for p in plan["pairs"]))
            self.assertEqual(plan["lanes"][0]["use"], "main")

    @staticmethod
    def lanes(steps, pairs):
        """A thunk's lane is its parent's, unless that is the start of a pair."""
        lanes = []
        for s in steps:
            parent = steps[s["parent"]] if s["parent"] >= 0 else None
            if parent is None:
                lanes.append(0)
            elif parent["kind"] == "async_start":
                lanes.append(pairs[parent["pair"]]["lane"])
            else:
                lanes.append(lanes[s["parent"]])
        return lanes

    def test_pairs(self):
        plan = self.plan("streams")
        self.assertGreater(len(plan["pairs"]), 0)
        self.assertEqual(plan["events"], len(plan["pairs"]) + 1)
        for number, pair in enumerate(plan["pairs"]):
            start, done = plan["steps"][pair["start"]], plan["steps"][pair["done"]]
            self.assertEqual((start["kind"], start["pair"], done["kind"], done["pair"]),
                             ("async_start", number, "async_done", number))
            lane = plan["lanes"][pair["lane"]]
            self.assertEqual((lane["use"], lane["stream"]), (pair["use"], pair["stream"]))

    def test_light_bodies_stay_on_the_host_device(self):
        pair = self.plan("control")["pairs"][0]
        self.assertEqual((pair["light"], pair["lane"] > 0), (False, True))
        pair = self.plan("control", "--device", "host")["pairs"][0]
        self.assertEqual((pair["light"], pair["lane"]), (True, 0))
        self.assertFalse(self.plan("control", "--device", "host:delay=1")["pairs"][0]["light"])

    def test_lanes_are_limited(self):
        whole = self.plan("streams", "--device", "host:delay=1")
        self.assertEqual(len(whole["lanes"]), 2)
        for most in (1, 2, 16):
            plan = self.plan("streams", "--device", f"host:delay=1,lanes={most}")
            self.assertEqual(len(plan["lanes"]), min(most, 2))
            self.assertEqual([p["lane"] for p in plan["pairs"]], [min(most, 2) - 1])
            self.assertEqual([s["lane"] for s in plan["steps"]], self.lanes(plan["steps"], plan["pairs"]))
        self.assertIn(", shares a lane", inspect("streams", "--streams", "--device", "host:delay=1,lanes=1").stdout)
        self.assertEqual(inspect("streams", "--streams", "--device", "host:lanes=17").returncode, 2)

    def test_text(self):
        plan, lines = self.plan("streams"), inspect("streams", "--streams").stdout.splitlines()
        head = dict(line.split() for line in lines[:3])
        self.assertEqual(head, {"streams": str(len(plan["lanes"])), "pairs": str(len(plan["pairs"])),
                                "events": str(plan["events"])})
        steps = lines[lines.index("step  lane  thunk") + 1:]
        steps = [line.split()[:4] for line in steps if not line.endswith(":")]
        self.assertEqual([s[:3] for s in steps],
                         [[str(i), str(s["lane"]), s["kind"]] for i, s in enumerate(plan["steps"])])

    def test_dot(self):
        for case in ("control", "streams"):
            plan, dot = self.plan(case), inspect(case, "--streams", "--dot").stdout
            nodes = re.findall(r"^    s(\d+) \[tooltip=\"(\w+)\", label=\"[^\"]*\"(?:, shape=oval)?\];$", dot, re.M)
            self.assertEqual(sorted((int(n), kind) for n, kind in nodes),
                             [(i, s["kind"]) for i, s in enumerate(plan["steps"])])
            edges = re.findall(r"^  s(\d+) -> s(\d+)(?: \[style=(\w+), label=\"([^\"]*)\"\])?;$", dot, re.M)
            forks = [(int(a), label) for a, _, _, label in edges if label == "fork"]
            self.assertEqual(forks, [(p["start"], "fork") for p in plan["pairs"]])
            ends = {label: int(b) for _, b, _, label in edges if label.startswith("end ")}
            self.assertEqual(ends, {f"end {i}": p["done"] for i, p in enumerate(plan["pairs"])})
            for a, b, style, _ in edges:
                if not style:  # the order on a lane
                    self.assertEqual(plan["steps"][int(a)]["lane"], plan["steps"][int(b)]["lane"])
            self.assertEqual(dot.count("subgraph cluster_"), len(plan["lanes"]))
            self.assertEqual(dot.count("{"), dot.count("}"))
            if shutil.which("dot"):
                r = subprocess.run(["dot", "-Tcanon"], input=dot, capture_output=True, text=True, timeout=60)
                self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_usage(self):
        self.assertEqual(inspect("mlp", "--dot").returncode, 2)
        self.assertEqual(inspect("mlp", "--streams", "--dot", "--json").returncode, 2)
        r = inspect("mlp", "--streams", "--device", "host:nonsense")
        self.assertEqual(r.returncode, 2)
        self.assertIn("nonsense", r.stderr)
        damaged = subprocess.run([BUILD / "thunkctl", "inspect", "--streams", "/dev/null"], capture_output=True,
                                 text=True)
        self.assertNotEqual(damaged.returncode, 0)
        self.assertEqual(damaged.stdout, "")


if __name__ == "__main__":
    unittest.main()
