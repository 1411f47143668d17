# SPDX-License-Identifier: Apache-2.0
"""Control flow and plumbing: thunks that order others, move bytes or slices."""

import numpy as np

from build import S, new
from case import Case

SIGNED = dict(comparison_order="TOTAL", comparison_type="SIGNED")


def seq(thunks):
    return new("xla.gpu.ThunkSequenceProto", thunks=thunks)


def slice_of(c, v, leaf=0, offset=0, shape=None):
    return c.m.slice(v.buffers[leaf], shape or v.shape.leaves()[leaf], offset).slice


def add_into(c, target, other, to):
    """target += other, in place."""
    return c.m.op("add", target.shape, [target, other], into=target, to=to)


def make_while():
    c = Case(
        "flow",
        "while_condition",
        "while compare add",
        "until the condition's byte is 0; no iteration when it is at once",
    )
    for n in (0, 1, 7):
        i, x = c.m.buffer(S("s32")), c.m.buffer(S("f32", 3))
        one, limit, zero = c.m.const(np.int32(1)), c.m.const(np.int32(n)), c.m.const(np.int32(0))
        start, step = c.input(np.array([1, 2, 3], np.float32)), c.input(np.array([0.5, 0.25, -1], np.float32))
        c.m.copy(zero, i)
        c.m.copy(start, x)
        cond, body = [], []
        p = c.m.op("compare", S("pred"), [i, limit], to=cond, comparison_direction="LT", **SIGNED)
        add_into(c, x, step, body)
        add_into(c, i, one, body)
        c.m.thunk(
            while_thunk=new(
                "xla.gpu.WhileThunkProto",
                condition_result_buffer_index=slice_of(c, p),
                condition_thunk_sequence=seq(cond),
                body_thunk_sequence=seq(body),
            )
        )
        c.output(x, np.array([1 + n / 2, 2 + n / 4, 3 - n], np.float32), label=f"{n} times")
        c.output(i, np.int32(n), label="counter")
    c = Case("flow", "while_trip_count", "while", "as often as trip_count says, in and around another loop")
    x, y, step = c.m.buffer(S("s32", 2)), c.m.buffer(S("s32", 2)), c.input(np.array([1, 10], np.int32))
    never = c.m.buffer(S("pred"))
    for v in (x, y):
        c.m.copy(c.m.const(np.zeros(2, np.int32)), v)
    inner, body = [], []
    loop = lambda n, thunks, to: c.m.thunk(
        to,
        while_thunk=new(
            "xla.gpu.WhileThunkProto",
            trip_count=n,
            condition_result_buffer_index=slice_of(c, never),
            condition_thunk_sequence=seq([]),
            body_thunk_sequence=seq(thunks),
        ),
    )
    add_into(c, y, step, inner)
    loop(3, inner, body)
    add_into(c, x, step, body)
    loop(4, body, None)
    loop(0, inner, None)
    c.output(x, np.array([4, 40], np.int32), label="outer")
    c.output(y, np.array([12, 120], np.int32), label="inner")


def make_conditional():
    c = Case(
        "flow",
        "conditional",
        "conditional",
        "true takes branch 0; an index out of range, negative too, takes the last branch",
    )
    for index in [True, False] + [np.int32(v) for v in (0, 1, 2, 3, -1, 2**31 - 1)]:
        pred = isinstance(index, bool)
        x, start = c.m.buffer(S("s32", 2)), c.m.const(np.array([5, 7], np.int32))
        c.m.copy(start, x)
        branches, n = [], 2 if pred else 3
        for k in range(n):
            t = []
            add_into(c, x, c.m.const(np.array([10**k, -(10**k)], np.int32)), t)
            branches.append(seq(t))
        p = c.input(np.array(index))
        c.m.thunk(
            conditional_thunk=new(
                "xla.gpu.ConditionalThunkProto", branch_index_buffer=c.m.slice_of(p), branch_thunks=branches
            )
        )
        k = (0 if index else 1) if pred else int(index) if 0 <= index < n else n - 1
        c.output(x, np.array([5 + 10**k, 7 - 10**k], np.int32), label=f"index {index}")


def make_memory():
    c = Case("flow", "memory", "copy", "memzero, memset, copies, sequential, ids of the only device")
    x = c.input(np.arange(8, dtype=np.int32))
    for label, impl, want in [
        (
            "zero",
            dict(memzero_thunk=lambda v: new("xla.gpu.MemzeroThunkProto", dest_buffer=c.m.slice_of(v))),
            np.zeros(8, np.int32),
        ),
        (
            "word",
            dict(
                memset32bit_value_thunk=lambda v: new(
                    "xla.gpu.Memset32BitValueThunkProto", dest_buffer=slice_of(c, v), value=0x80000001
                )
            ),
            np.full(8, -(2**31) + 1, np.int32),
        ),
    ]:
        v = c.m.buffer(S("s32", 8))
        c.m.copy(x, v)
        c.m.thunk(**{k: f(v) for k, f in impl.items()})
        c.output(v, want, label=label)
    v, part = c.m.buffer(S("s32", 8)), S("s32", 3)
    c.m.copy(x, v)
    copy = new(
        "xla.gpu.CopyThunkProto",
        source_buffer=c.m.slice(x.buffers[0], part, 4),
        destination_buffer=c.m.slice(v.buffers[0], part, 20),
        mem_size=12,
    )
    c.m.thunk(device_to_device_copy_thunk=new("xla.gpu.DeviceToDeviceCopyThunkProto", copy_thunk=copy))
    c.output(v, np.array([0, 1, 2, 3, 4, 1, 2, 3], np.int32), label="part of a buffer")
    for kind in ("replica_id_thunk", "partition_id_thunk"):
        v = c.m.buffer(S("u32"))
        name = "xla.gpu.ReplicaIdThunkProto" if kind[0] == "r" else "xla.gpu.PartitionIdThunkProto"
        c.m.thunk(**{kind: new(name, dest_buffer=slice_of(c, v))})
        c.output(v, np.uint32(0), label=kind)
    v, inner = c.m.buffer(S("s32", 8)), []
    c.m.copy(x, v, inner)
    add_into(c, v, x, inner)
    c.m.thunk(sequential_thunk=new("xla.gpu.SequentialThunkProto", thunks=inner))
    c.output(v, np.arange(8, dtype=np.int32) * 2, label="sequential")
    c = Case("flow", "async", "add", "two bodies on two streams, each waited for; a body inside a body")
    x, parts = c.input(np.arange(5, dtype=np.float32)), []
    for k, stream in enumerate(
        [dict(computation_stream_id=1), dict(communication_stream_id=0), dict(memcpy_stream_id=2)]
    ):
        v, body = c.m.buffer(S("f32", 5)), []
        c.m.copy(x, v, body)
        for _ in range(k + 1):
            add_into(c, v, x, body)
        c.m.thunk(
            async_start_thunk=new(
                "xla.gpu.AsyncStartThunkProto", async_execution_id=100 + k, thunks=seq(body), **stream
            )
        )
        parts.append(v)
    for k in (2, 0, 1):
        c.m.thunk(async_done_thunk=new("xla.gpu.AsyncDoneThunkProto", async_execution_id=100 + k))
    total = c.m.op("add", x.shape, parts[:2])
    add_into(c, total, parts[2], None)
    c.output(total, np.arange(5, dtype=np.float32) * 9)


def make_slices():
    c = Case(
        "flow",
        "dynamic_slice_fusion",
        "dynamic-slice dynamic-update-slice",
        "slices that move with a loop's counter and are clamped at the ends",
    )
    x, never = c.input(np.arange(24, dtype=np.float32).reshape(6, 4)), c.m.buffer(S("pred"))
    for stride, offset, label in [
        (16, 0, "forward"),
        (-16, 80, "backward"),
        (32, 0, "past the end"),
        (16, -32, "before the start"),
    ]:
        y = c.m.buffer(S("f32", 6, 4))
        c.m.thunk(memzero_thunk=new("xla.gpu.MemzeroThunkProto", dest_buffer=c.m.slice_of(y)))
        row = S("f32", 1, 4)
        copy = new(
            "xla.gpu.CopyThunkProto",
            source_buffer=c.m.slice((0, 16), row),
            destination_buffer=c.m.slice((1, 16), row),
            mem_size=16,
        )
        inner = []
        c.m.thunk(inner, device_to_device_copy_thunk=new("xla.gpu.DeviceToDeviceCopyThunkProto", copy_thunk=copy))
        config = lambda o, s: new("xla.gpu.DynamicSliceConfig", loop_index=0, byte_offset=o, byte_stride=s)
        P = "xla.gpu.DynamicSliceFusionThunkProto."
        fusion = new(
            P[:-1],
            embedded_thunks=seq(inner),
            parameters=[
                new(
                    P + "ParameterProto",
                    parameter_number=0,
                    parameter_shape=x.shape.proto(),
                    slice_shape=row.proto(),
                    slice_config=config(offset, stride),
                )
            ],
            results=[
                new(
                    P + "ResultProto",
                    result_number=0,
                    result_shape=y.shape.proto(),
                    update_shape=row.proto(),
                    update_config=config(0, 16),
                )
            ],
            parameter_buffers=[slice_of(c, x)],
            result_buffers=[slice_of(c, y)],
            slice_allocations=[new("xla.BufferAllocationProto", index=i, size=16) for i in range(2)],
        )
        body = []
        c.m.thunk(body, dynamic_slice_fusion_thunk=fusion)
        c.m.thunk(
            while_thunk=new(
                "xla.gpu.WhileThunkProto",
                trip_count=6,
                condition_result_buffer_index=slice_of(c, never),
                condition_thunk_sequence=seq([]),
                body_thunk_sequence=seq(body),
            )
        )
        rows = [min(max((offset + i * stride) // 16, 0), 5) for i in range(6)]
        c.output(y, np.arange(24, dtype=np.float32).reshape(6, 4)[rows], label=label)
    c = Case("flow", "dynamic_memcpy", "dynamic-slice", "offsets of each iteration")
    y, body = c.m.buffer(S("s32", 4)), []
    x = c.input(np.array([10, 20, 30, 40], np.int32))
    never = c.m.buffer(S("pred"))
    offsets = new(
        "xla.gpu.DynamicMemcpyThunkProto.Offsets",
        depends_on_loop=True,
        src_offsets=[0, 4, 8, 12],
        dst_offsets=[12, 8, 4, 0],
    )
    c.m.thunk(
        body,
        dynamic_memcpy_thunk=new(
            "xla.gpu.DynamicMemcpyThunkProto",
            source_buffer=c.m.slice_of(x),
            destination_buffer=c.m.slice_of(y),
            mem_size=4,
            offsets=offsets,
        ),
    )
    c.m.thunk(
        while_thunk=new(
            "xla.gpu.WhileThunkProto",
            trip_count=4,
            condition_result_buffer_index=slice_of(c, never),
            condition_thunk_sequence=seq([]),
            body_thunk_sequence=seq(body),
        )
    )
    c.output(y, np.array([40, 30, 20, 10], np.int32))


def make():
    make_while()
    make_conditional()
    make_memory()
    make_slices()
