# SPDX-License-Identifier: Apache-2.0
"""Assembles executables by hand: an entry computation, one kernel thunk without image per instruction.

The messages are those of proto/schema, compiled by protoc when this runs. An executable made here is a
plain ExecutableAndOptionsProto. Kernels without an image run on the host device only; library thunks
(`Module.thunk`) run on any.
"""

import functools
import pathlib
import subprocess
import tempfile

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import hlo_types as ty

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "proto" / "schema"


@functools.cache
def pool():
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "set"
        subprocess.run(
            [
                "protoc",
                f"-I{SCHEMA}",
                "--include_imports",
                f"--descriptor_set_out={out}",
                str(SCHEMA / "executable.proto"),
            ],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    p = descriptor_pool.DescriptorPool()
    for f in files.file:
        p.Add(f)
    return p


def new(name, /, **fields):
    return message_factory.GetMessageClass(pool().FindMessageTypeByName(name))(**fields)


def enum(name, value):
    return pool().FindEnumTypeByName(name).values_by_name[value].number


def default_layout(rank):
    return list(range(rank - 1, -1, -1))


class Shape:
    """An array: element type, dimensions, minor_to_major. Or, with elements, a tuple of shapes."""

    def __init__(self, type=None, dims=(), layout=None, elements=None):
        self.type, self.dims, self.elements = type, tuple(int(d) for d in dims), elements
        self.layout = list(layout) if layout is not None else default_layout(len(self.dims))

    @property
    def bytes(self):
        if self.elements is not None:
            return 8 * len(self.elements)
        count = int(np.prod(self.dims, dtype=np.int64))
        return (count * ty.bits_of(self.type) + 7) // 8

    def leaves(self):
        return [self] if self.elements is None else [l for e in self.elements for l in e.leaves()]

    def proto(self):
        if self.elements is not None:
            return new(
                "xla.ShapeProto",
                element_type=enum("xla.PrimitiveType", "TUPLE"),
                tuple_shapes=[e.proto() for e in self.elements],
            )
        layout = new("xla.LayoutProto", minor_to_major=self.layout)
        if ty.bits_of(self.type) < 8:
            layout.element_size_in_bits = ty.bits_of(self.type)
        return new(
            "xla.ShapeProto",
            element_type=enum("xla.PrimitiveType", self.type.upper()),
            dimensions=self.dims,
            layout=layout,
            is_dynamic_dimension=[False] * len(self.dims),
        )


def S(type, *dims, layout=None):
    return Shape(type, dims, layout)


def literal(array, shape):
    p = new("xla.LiteralProto", shape=shape.proto())
    flat, field = ty.in_layout(array, shape.layout), ty.TYPES[shape.type][2]
    if shape.type in ("c64", "c128"):
        getattr(p, field).extend(flat.view(np.float32 if shape.type == "c64" else np.float64).tolist())
    elif shape.type in ("pred", "s32", "s64", "u32", "u64", "f32", "f64"):
        getattr(p, field).extend(flat.tolist())
    else:
        setattr(p, field, ty.packed(flat))
    return p


class Value:
    """An instruction. buffers: one (allocation, bytes) per leaf when it has memory of its own."""

    def __init__(self, id, name, shape, message):
        self.id, self.name, self.shape, self.message, self.buffers = id, name, shape, message, None


class Computation:
    def __init__(self, module, name, id):
        self.module, self.name, self.id, self.values, self.n_params, self.root = module, name, id, [], 0, None

    def op(self, opcode, shape, operands=(), called=(), **fields):
        """Appends an instruction; fields as in HloInstructionProto, messages as dicts. The last one is the root."""
        id = self.module.next_id()
        m = new(
            "xla.HloInstructionProto",
            name=f"{opcode}.{id}",
            opcode=opcode,
            shape=shape.proto(),
            id=id,
            operand_ids=[o.id for o in operands],
            called_computation_ids=[c.id for c in called],
            **fields,
        )
        v = Value(id, m.name, shape, m)
        self.values.append(v)
        self.root = v
        return v

    def param(self, shape):
        v = self.op("parameter", shape, parameter_number=self.n_params)
        self.n_params += 1
        return v

    def const(self, array, layout=None):
        array = np.asarray(array)
        shape = Shape(ty.name_of(array), array.shape, layout)
        return self.op("constant", shape, literal=literal(array, shape))

    def tuple(self, values):
        return self.op("tuple", Shape(elements=[v.shape for v in values]), values)

    def proto(self):
        params = [v.shape.proto() for v in self.values if v.message.opcode == "parameter"]
        return new(
            "xla.HloComputationProto",
            name=self.name,
            id=self.id,
            root_id=self.root.id,
            instructions=[v.message for v in self.values],
            program_shape=new("xla.ProgramShapeProto", parameters=params, result=self.root.shape.proto()),
        )


class Module:
    def __init__(self, name):
        self.name, self._id, self.computations, self.allocations = name, 0, [], []
        self.thunks, self.constants, self.outputs = [], [], []
        self.entry = self.computation("entry")
        self.params = []

    def next_id(self):
        self._id += 1
        return self._id

    def computation(self, name):
        c = Computation(self, f"{name}.{self._id + 1}", self.next_id())
        self.computations.append(c)
        return c

    def scalar(self, opcode, type, **fields):
        """A computation of two scalars: opcode(a, b)."""
        c = self.computation(opcode.replace("-", "_"))
        a, b = c.param(S(type)), c.param(S(type))
        c.op(opcode, S("pred" if opcode == "compare" else type), [a, b], **fields)
        return c

    def alloc(self, size, **fields):
        a = new("xla.BufferAllocationProto", index=len(self.allocations), size=size, **fields)
        self.allocations.append(a)
        return (a.index, size)

    def param(self, shape):
        v = self.entry.param(shape)
        v.buffers = [self.alloc(shape.bytes, is_entry_computation_parameter=True, parameter_number=len(self.params))]
        self.params.append(v)
        return v

    def const(self, array, layout=None):
        """A constant with memory, named the way the compiler names its symbol."""
        v = self.entry.const(array, layout)
        v.buffers = [self.alloc(v.shape.bytes, is_constant=True)]
        self.constants.append(
            new(
                "xla.gpu.GpuExecutableProto.ConstantInfoProto",
                allocation_index=v.buffers[0][0],
                symbol_name="buffer_for_" + v.name.replace(".", "_").replace("-", "_"),
            )
        )
        return v

    def slice(self, buffer, shape, offset=0):
        s = new(
            "xla.buffer_assignment.BufferAllocationSliceProto",
            offset=offset,
            size=shape.bytes,
            buffer_allocation_index=buffer[0],
        )
        return new("xla.ShapedSliceProto", slice=s, shape=shape.proto())

    def slice_of(self, value, leaf=0):
        return self.slice(value.buffers[leaf], value.shape.leaves()[leaf])

    def kernel(self, name, ins, outs, to=None):
        """Thunk of the instruction `name`; ins and outs: lists of (buffer, shape)."""
        args = [self.slice(b, s) for b, s in ins + outs]
        written = [b in [o[0] for o in outs] for b, _ in ins] + [True] * len(outs)
        spec = new("xla.gpu.CustomKernelProto", name=name.replace(".", "_").replace("-", "_"))
        k = new("xla.gpu.CustomKernelThunkProto", args=args, written=written, custom_kernel=spec)
        self.thunk(to, name, custom_kernel_thunk=k)

    def thunk(self, to=None, annotation="", **impl):
        info = new("xla.gpu.ThunkInfoProto", profile_annotation=annotation, thunk_id=self.next_id())
        (self.thunks if to is None else to).append(new("xla.gpu.ThunkProto", thunk_info=info, **impl))

    def op(self, opcode, shape, operands=(), called=(), into=None, to=None, **fields):
        """An entry instruction as a kernel of its own; into: the value whose memory the result takes; to: a list
        of thunks (a loop's body…) in place of the program's."""
        v = self.entry.op(opcode, shape, operands, called, **fields)
        leaves = shape.leaves()
        v.buffers = list(into.buffers) if into else [self.alloc(l.bytes) for l in leaves]
        ins = [(b, s) for o in operands for b, s in zip(o.buffers, o.shape.leaves())]
        self.kernel(v.name, ins, list(zip(v.buffers, leaves)), to)
        return v

    def fusion(self, comp, operands, into=None, to=None):
        return self.op("fusion", comp.root.shape, operands, [comp], into, to, fusion_kind="kLoop")

    def copy(self, source, destination, to=None):
        """A copy thunk between values of the same size."""
        c = new(
            "xla.gpu.CopyThunkProto",
            source_buffer=self.slice_of(source),
            destination_buffer=self.slice_of(destination),
            mem_size=source.shape.bytes,
        )
        self.thunk(to, device_to_device_copy_thunk=new("xla.gpu.DeviceToDeviceCopyThunkProto", copy_thunk=c))

    def buffer(self, shape):
        """Memory that thunks write; in the HLO a call that stands for them."""
        v = self.entry.op("custom-call", shape, custom_call_target="written_by_thunks")
        v.buffers = [self.alloc(shape.bytes)]
        return v

    def result(self, value, leaf=0):
        self.outputs.append((value, leaf))

    def _root(self):
        parts = []
        for v, leaf in self.outputs:
            if v.shape.elements is not None:
                v = self.entry.op("get-tuple-element", v.shape.elements[leaf], [v], tuple_index=leaf)
            parts.append(v)
        return self.entry.tuple(parts)

    def executable(self):
        root = self._root()
        for i, (v, leaf) in enumerate(self.outputs):
            self.allocations[v.buffers[leaf][0]].maybe_live_out = True
        shape = new(
            "xla.ProgramShapeProto", parameters=[p.shape.proto() for p in self.params], result=root.shape.proto()
        )
        config = new("xla.HloModuleConfigProto", entry_computation_layout=shape, replica_count=1, num_partitions=1)
        hlo = new(
            "xla.HloModuleProto",
            name=self.name,
            entry_computation_name=self.entry.name,
            entry_computation_id=self.entry.id,
            computations=[c.proto() for c in self.computations[1:] + self.computations[:1]],
            host_program_shape=shape,
        )
        e = new(
            "xla.gpu.GpuExecutableProto",
            module_name=self.name,
            thunks=self.thunks,
            constants=self.constants,
            program_shape=shape,
            hlo_module_with_config=new("xla.HloModuleProtoWithConfig", hlo_module=hlo, config=config),
        )
        e.gpu_compute_capability.cuda_compute_capability.major = 9
        e.buffer_allocations.values.extend(self.allocations)
        for i, (v, leaf) in enumerate(self.outputs):
            a = self.allocations[v.buffers[leaf][0]]
            info = new("xla.gpu.GpuExecutableProto.OutputInfoProto", allocation_index=a.index)
            if a.is_entry_computation_parameter:
                info.alias_config.parameter_number = a.parameter_number
                info.alias_config.kind = enum("xla.Kind", "MUST_ALIAS")
                a.is_parameter_aliased_with_output = True
            e.output_info_map.append(
                new(
                    "xla.gpu.GpuExecutableProto.OutputInfoMapEntry",
                    output_info=info,
                    shape_index=new("xla.ShapeIndexProto", indexes=[i]),
                )
            )
        outer = new(
            "xla.ExecutableAndOptionsProto",
            serialized_executable=e.SerializeToString(deterministic=True),
            pjrt_client_name="PjRtStreamExecutorClient",
        )
        return outer.SerializeToString(deterministic=True)
