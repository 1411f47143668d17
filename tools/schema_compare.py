#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares proto/schema with what released compilers declare: number, type, label, name of each field.

usage: schema_compare.py SUMMARY                         compare (exit 1 on a difference)
       schema_compare.py --make SUMMARY DESCRIPTORS…     write the summary from descriptor sets (needs protobuf)

The summary holds one line a field: message, number, name, label, type, as any of the releases
declares it. Fields that the schema keeps as raw bytes (messages nobody reads) match any message type;
asm_text and PTX, strings on the wire, are bytes here because they may be large.
"""
import pathlib, re, sys

SCHEMA = pathlib.Path(__file__).resolve().parents[1] / "proto/schema"
PAYLOAD_BASE = 536860000
SCALARS = {1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool", 9: "string",
           12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64"}


def declared():
    """Yields (message, number, name, label, type) of every field in proto/schema."""
    for path in sorted(SCHEMA.glob("*.proto")):
        package, stack = "", []
        for line in path.read_text().splitlines():
            line = line.split("//")[0].strip()
            if m := re.match(r"package ([\w.]+);", line):
                package = m[1]
            elif m := re.match(r"(message|enum|oneof|service) (\w+) \{(\})?", line):
                if not m[3]:
                    stack.append((m[1], m[2]))
            elif line == "}":
                stack.pop()
            elif stack and stack[-1][0] != "enum" and (m := re.match(r"(?:(optional|repeated) )?(\.?[\w.]+) (\w+) = (\d+)", line)):
                message = ".".join([package] + [n for k, n in stack if k == "message"])
                if int(m[4]) < PAYLOAD_BASE and package.split(".")[0] in ("xla", "stream_executor"):
                    yield message, int(m[4]), m[3], m[1] or "optional", m[2].lstrip(".")


def facts(paths):
    from google.protobuf import descriptor_pb2

    out = set()

    def walk(prefix, message):
        name = f"{prefix}.{message.name}"
        for f in message.field:
            kind = f.type_name.lstrip(".") if f.type_name else SCALARS[f.type]
            mark = "enum " if f.type == 14 else ""
            out.add((name, f.number, f.name, "repeated" if f.label == 3 else "optional", mark + kind))
        for n in message.nested_type:
            walk(name, n)

    for path in paths:
        files = descriptor_pb2.FileDescriptorSet()
        files.ParseFromString(pathlib.Path(path).read_bytes())
        for f in files.file:
            for m in f.message_type:
                walk(f.package, m)
    return out


def same_type(ours, theirs):
    enum, theirs = theirs.startswith("enum "), theirs.removeprefix("enum ")
    if ours == theirs or (ours == "bytes" and theirs == "string") or (enum and ours == "int32"):
        return True
    return ours == "bytes" and "." in theirs and not enum


def compare(summary):
    known = {}
    for line in pathlib.Path(summary).read_text().splitlines():
        message, number, name, label, kind = line.split("\t")
        known.setdefault((message, int(number)), []).append((name, label, kind))
    bad = n = 0
    for message, number, name, label, kind in declared():
        n += 1
        rows = known.get((message, number), [])
        if not any(name in (r[0], "old_" + r[0]) and label == r[1] and same_type(kind, r[2]) for r in rows):
            bad += 1
            print(f"{message}.{name} = {number}: {label} {kind}; the releases say {rows or 'nothing'}")
    print(f"{n} fields compared, {bad} differ")
    return 1 if bad or not n else 0


def main(args):
    if len(args) == 1 and not args[0].startswith("-"):
        return compare(args[0])
    if len(args) >= 3 and args[0] == "--make":
        ours = {(m, n) for m, n, *_ in declared()}
        rows = sorted(r for r in facts(args[2:]) if (r[0], r[1]) in ours)
        pathlib.Path(args[1]).write_text("".join("\t".join(map(str, r)) + "\n" for r in rows))
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
