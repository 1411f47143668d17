#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the repository with the contract's ledger (contract/ledger_table.inc).

usage: check_contract.py THUNKCTL [LEDGER.json]   compare; with the ledger, its table too (exit 1 on a difference)
       check_contract.py --reserve                write the missing `reserved` lines into proto/schema

1. Former forms: each row that `thunkctl contract --json` prints has a construct of the ledger, the month that follows
   from its last release, a month that has not passed on TODAY, and a comment in proto/ or runtime/ that names it with
   that month; each such comment has a row.
2. Schema: a field or value that was removed and that we do not read is `reserved`, by number and, unless the name is
   in use, by name; nothing else is.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCHEMA = ROOT / "proto/schema"
TODAY = "2026-11-30"  # of the ledger: its last entries are 41 days older
MONTHS = ("January February March April May June July August September October November December").split()


def ledger():
    text = (ROOT / "contract/ledger_table.inc").read_text()
    releases = re.findall(r'^RELEASE\("(.+)", (\d+)\)', text, re.M)
    types = re.findall(r'^TYPE\("(.+)", (\d), (-?\d+), (-?\d+), \d+, \d+, (\d+), (\d+)\)', text, re.M)
    items = re.findall(r'^ITEM\("(.+)", (\d+), -?\d+, (-?\d+), (-?\d+), \d+, \d+, \d+\)', text, re.M)
    rows = [(name, int(number), int(last)) for name, number, _, last in items]
    return releases, {t[0]: rows[int(t[4]):int(t[4]) + int(t[5])] for t in types}


def schema_blocks():
    """Yields (file, line of the closing brace, indent, full name, {number: name}, reserved numbers, reserved names)."""
    for path in sorted(SCHEMA.glob("*.proto")):
        if path.name == "full.proto":  # generated; it folds the names
            continue
        package, stack = "", []
        for at, line in enumerate(path.read_text().splitlines()):
            code = line.split("//")[0].strip()
            if m := re.match(r"package ([\w.]+);", code):
                package = m[1]
            elif m := re.match(r"(message|enum|oneof|service) (\w+) \{(\})?", code):
                if not m[3]:
                    stack.append((m[1], m[2], {}, set(), set()))
            elif code == "}":
                kind, name, fields, numbers, names = stack.pop()
                if kind != "oneof":
                    full = ".".join([package] + [s[1] for s in stack if s[0] != "oneof"] + [name])
                    yield path, at, len(line) - 1, full, fields, numbers, names
            elif m := re.match(r"reserved (.+);", code):
                own = [s for s in stack if s[0] != "oneof"][-1]
                own[4].update(re.findall(r'"(\w+)"', m[1]))
                own[3].update(int(n) for n in re.findall(r"\b(\d+)\b", re.sub(r'"\w+"', "", m[1])))
            elif stack and (m := re.match(r"(?:(?:optional|repeated) )?(?:\.?[\w.]+ )?(\w+) = (-?\d+)", code)):
                [s for s in stack if s[0] != "oneof"][-1][2][int(m[2])] = m[1]


def wanted(items, fields, newest):
    """Numbers and names that must be reserved in a message or enum with these fields."""
    alive = {number for _, number, last in items if last == newest}
    gone = [(name, number) for name, number, last in items if 0 <= last < newest and number not in alive]
    used = set(fields.values()) | {name for name, _, last in items if last == newest}
    numbers = {number for _, number in gone if number not in fields}
    return numbers, {name for name, number in gone if number in numbers and name not in used}


def check_schema(say):
    releases, types = ledger()
    for path, _, _, full, fields, numbers, names in schema_blocks():
        if full not in types:
            continue
        want_numbers, want_names = wanted(types[full], fields, len(releases) - 1)
        if want_numbers != numbers or want_names != names:
            say(f"{path.name}: {full}: reserved {sorted(numbers)} {sorted(names)}; "
                f"the ledger wants {sorted(want_numbers)} {sorted(want_names)}")


def statements(values):
    """`reserved` statements of at most 100 columns."""
    lines = []
    for v in map(str, values):
        if lines and len(lines[-1]) + len(v) < 98:
            lines[-1] += f", {v}"
        else:
            lines.append(f"reserved {v}")
    return [line + ";" for line in lines]


def reserve():
    releases, types = ledger()
    edits = {}
    for path, at, indent, full, fields, numbers, names in schema_blocks():
        n, m = wanted(types.get(full, []), fields, len(releases) - 1)
        lines = statements(sorted(n - numbers)) + statements([f'"{x}"' for x in sorted(m - names)])
        if lines:
            edits.setdefault(path, []).append((at, [" " * (indent + 2) + x for x in lines]))
    for path, todo in edits.items():
        text = path.read_text().splitlines()
        for at, lines in sorted(todo, reverse=True):
            text[at:at] = lines
        path.write_text("\n".join(text) + "\n")


def month_after(built):
    year, month = int(built[:4]), int(built[4:6]) + 7  # six months of window, and the month after
    return (year + (month - 1) // 12) * 100 + (month - 1) % 12 + 1


def check_fallbacks(thunkctl, say):
    built = dict(ledger()[0])
    printed = subprocess.run([thunkctl, "contract", "--json"], capture_output=True, check=True).stdout
    rows = json.loads(printed)["fallbacks"]
    cited = {}
    for folder in ("proto", "runtime"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            text = re.sub(r"\s*\n\s*\*?\s*", " ", path.read_text(errors="replace"))
            for name, month in re.findall(r"Fallback ([\w-]+): [^*]*?Can be removed in (\w+ \d{4})\.", text):
                cited.setdefault(name, []).append((path.relative_to(ROOT), month))
    for row in rows:
        name, month = row["name"], row["month"]
        if not row["in_ledger"]:
            say(f"fallback {name}: {row['construct']} is not in the ledger")
        if row["last_release"] not in built or month != month_after(built[row["last_release"]]):
            say(f"fallback {name}: month {month} does not follow from release {row['last_release']}")
        if month < int(TODAY[:4] + TODAY[5:7]):
            say(f"fallback {name}: its month {row['can_be_removed_in']} has passed on {TODAY}")
        if row["can_be_removed_in"] != f"{MONTHS[month % 100 - 1]} {month // 100}":
            say(f"fallback {name}: {row['can_be_removed_in']} is not {month}")
        if name not in cited:
            say(f"fallback {name}: no code names it")
        for path, text in cited.pop(name, []):
            if text != row["can_be_removed_in"]:
                say(f"{path}: fallback {name}: {text}, the table says {row['can_be_removed_in']}")
    for name, places in cited.items():
        say(f"{places[0][0]}: fallback {name} has no row in contract/fallbacks.c")
    return len(rows)


def main(args):
    if args == ["--reserve"]:
        reserve()
        return 0
    if len(args) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    bad = []
    check_schema(bad.append)
    n = check_fallbacks(args[0], bad.append)
    if len(args) == 2:
        table = ROOT / "contract/ledger_table.inc"
        command = [sys.executable, ROOT / "tools/gen_ledger.py", "--check", args[1], table]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode:
            bad.append(made.stdout.strip() or made.stderr.strip())
    for line in bad:
        print(line)
    print(f"{n} former forms, {len(bad)} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
