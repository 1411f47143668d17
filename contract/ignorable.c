/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/ignorable.h"

#include <string.h>

#include "executable.pb-c.h"

#define ALWAYS TD_IGNORE_ALWAYS
#define EMPTY TD_IGNORE_EMPTY

const td_ignorable_t td_ignorables[] = {
    /* What the compiler was told, and descriptions of the device. */
    {"xla.ExecutableAndOptionsProto.compile_options", ALWAYS, "options of the compilation"},
    {"xla.HloModuleConfigProto.debug_options", ALWAYS, "options of the compilation"},
    {"xla.HloModuleConfigProto.partition_size", ALWAYS, "an option of the compilation"},
    {"xla.HloModuleConfigProto.page_size_kib", ALWAYS, "an option of the compilation"},
    {"xla.gpu.GpuExecutableProto.gpu_topology", ALWAYS, "describes the target; the capability is a field of its own"},
    {"xla.gpu.GpuExecutableProto.executable_abi_version", ALWAYS, "minimum versions, compared when they are known"},
    {"xla.gpu.GpuExecutableProto.cpu_target_machine_options", ALWAYS, "without it the host's own are used"},
    {"xla.gpu.GpuExecutableProto.buffer_allocations_debug_summary", ALWAYS, "text for people"},
    {"xla.BufferAssignmentProto.peak_buffers", ALWAYS, "statistics"},
    {"xla.BufferAllocationProto.Assigned.element_type", ALWAYS, "the value's shape has it"},
    {"xla.BufferAssignmentProto.heap_simulator_traces", ALWAYS, "statistics"},
    /* The module: what only a compiler or a person reads. */
    {"xla.HloModuleProto.stack_frame_index", ALWAYS, "source lines"},
    {"xla.HloModuleProto.profile_info", ALWAYS, "profiles"},
    {"xla.HloModuleProto.original_value_recovery_table", ALWAYS, "debugging"},
    {"xla.HloModuleProto.device_type", ALWAYS, "describes the target"},
    {"xla.HloModuleProto.pjrt_id", ALWAYS, "a number for logs"},
    {"xla.HloModuleProto.debug_attributes", ALWAYS, "debugging"},
    {"xla.HloModuleProto.backend_config", ALWAYS, "opaque to the runtime"},
    {"xla.HloModuleProto.spmd_output_sharding", ALWAYS, "consumed by the partitioner"},
    {"xla.HloModuleProto.spmd_parameters_shardings", ALWAYS, "consumed by the partitioner"},
    {"xla.HloComputationProto.backend_config", ALWAYS, "opaque to the runtime"},
    {"xla.HloInstructionProto.metadata", ALWAYS, "source lines"},
    {"xla.HloInstructionProto.sharding", ALWAYS, "consumed by the partitioner"},
    {"xla.HloInstructionProto.domain_entry_sharding", ALWAYS, "consumed by the partitioner"},
    {"xla.HloInstructionProto.domain_exit_sharding", ALWAYS, "consumed by the partitioner"},
    {"xla.HloInstructionProto.statistics_viz", ALWAYS, "debugging"},
    {"xla.HloInstructionProto.original_value", ALWAYS, "debugging"},
    {"xla.HloInstructionProto.frontend_attributes", ALWAYS, "consumed by the compiler"},
    {"xla.HloInstructionProto.custom_call_schedule", ALWAYS, "consumed by the scheduler"},
    {"xla.HloInstructionProto.result_accuracy", EMPTY, "no demand on accuracy"},
    {"xla.HloInstructionProto.conv_kind", EMPTY, "a plain convolution"},
    {"xla.HloInstructionProto.sparsity_config", EMPTY, "a dense product"},
    {"xla.HloInstructionProto.has_dynamic_root", EMPTY, "a fixed root"},
    {"xla.HloInstructionProto.block_scaling_config", EMPTY, "no scales"},
    {"xla.HloInstructionProto.comparison_order", TD_IGNORE_ORDER, "says what the reader assumes anyway"},
    /* Thunks: how, not what. */
    {"xla.gpu.ThunkInfoProto.concurrent_region_id", ALWAYS, "a hint for the order of capture"},
    {"xla.gpu.AllGatherThunkProto.collectives_mode", ALWAYS, "how, not what"},
    {"xla.gpu.CollectivePermuteThunkProto.collectives_mode", ALWAYS, "how, not what"},
    {"xla.gpu.AllGatherThunkProto.enable_gxl", ALWAYS, "the plain operation has the same result"},
    {"xla.gpu.RaggedAllToAllThunkProto.one_shot_kernel_enabled", ALWAYS, "how, not what"},
    {"xla.gpu.RaggedAllToAllThunkProto.use_multi_gpu_barrier_with_nccl_in_one_shot_kernel", ALWAYS, "how, not what"},
    {"xla.gpu.RaggedAllToAllThunkProto.fast_interconnect_slice_size_override", ALWAYS, "how, not what"},
    {"xla.gpu.RaggedAllToAllThunkProto.zero_copy_in_one_shot_kernel", ALWAYS, "how, not what"},
    {"xla.gpu.RaggedAllToAllThunkProto.collectives_mode", ALWAYS, "how, not what"},
    {"xla.gpu.RaggedAllToAllThunkProto.use_device_kernel", ALWAYS, "how, not what"},
    {"xla.gpu.RaggedAllToAllThunkProto.allow_fallback_to_nccl", ALWAYS, "without it the fallback is allowed"},
    {"xla.gpu.RaggedAllToAllThunkProto.enable_gxl", ALWAYS, "the plain operation has the same result"},
    {"xla.gpu.AllReduceThunkProto.is_multimem_enabled", ALWAYS, "of a kernel that may replace the call"},
    {"xla.gpu.AllReduceThunkProto.shmem_bytes", ALWAYS, "of a kernel that may replace the call"},
    {"xla.gpu.AllReduceThunkProto.kernel_name", ALWAYS, "of a kernel that may replace the call"},
    {"xla.gpu.AllReduceThunkProto.collective_kernel_enabled", ALWAYS, "of a kernel that may replace the call"},
    {"xla.gpu.AllReduceThunkProto.is_async", ALWAYS, "the async thunk around it chooses the stream"},
    {"xla.gpu.AllReduceThunkProto.launch_dimensions", ALWAYS, "of a kernel that may replace the call"},
    {"xla.gpu.AllReduceThunkProto.use_pdl", ALWAYS, "of a kernel that may replace the call"},
    {"xla.gpu.AllReduceThunkProto.cubin", ALWAYS, "of a kernel that may replace the call"},
    {"xla.gpu.CollectiveKernelThunkProto.is_async", ALWAYS, "the async thunk around it chooses the stream"},
    {"xla.gpu.CollectiveKernelThunkProto.use_pdl", ALWAYS, "an earlier start at most"},
    {"xla.gpu.CollectiveKernelSpecProto.copy_input_to_scratch", EMPTY, "no copy"},
    {"xla.gpu.CollectiveKernelSpecProto.device_sync_count", EMPTY, "the host counts"},
    {"xla.gpu.CollectiveGroupThunkProto.thunk_kind", ALWAYS, "a name for logs"},
    {"xla.gpu.KernelThunkProto.use_pdl", ALWAYS, "an earlier start at most"},
    {"xla.gpu.CustomKernelThunkProto.use_pdl", ALWAYS, "an earlier start at most"},
    {"xla.gpu.CustomKernelThunkProto.tma_metadata", EMPTY, "no tensor maps"},
    {"xla.gpu.CustomCallThunkProto.use_pdl", ALWAYS, "an earlier start at most"},
    {"xla.gpu.CudnnThunkProto.should_memzero", EMPTY, "nothing to clear"},
    {"xla.gpu.HostExecuteDoneThunkProto.results", ALWAYS, "a dependency; the done thunk waits anyway"},
    {"xla.gpu.HostSendDoneThunkProto.buffer", ALWAYS, "a dependency; the done thunk waits anyway"},
    {"xla.gpu.HostRecvDoneThunkProto.buffer", ALWAYS, "a dependency; the done thunk waits anyway"},
    {"xla.gpu.DynamicSliceConfig.linear", TD_IGNORE_LINEAR, "the former fields say the same"},
    {"xla.gpu.DynamicSliceFusionThunkProto.verify_offsets", ALWAYS, "a check of the compiler's work"},
    {"xla.gpu.DynamicSliceFusionThunkProto.ParameterProto.slice_offsets", ALWAYS, "for the check of offsets"},
    {"xla.gpu.DynamicSliceFusionThunkProto.ResultProto.update_offsets", ALWAYS, "for the check of offsets"},
    {"xla.GemmConfigProto.scale_mode", EMPTY, "no scales"},
    {"xla.GemmConfigProto.has_d_scale", ALWAYS, "the scale's own field decides"},
};
const uint32_t td_ignorable_count = sizeof td_ignorables / sizeof *td_ignorables;

static bool same_offsets(const Xla__Gpu__DynamicSliceConfig *c) {
    return c->offsets_case == XLA__GPU__DYNAMIC_SLICE_CONFIG__OFFSETS_LINEAR &&
           c->byte_offset == c->linear->byte_offset && c->byte_stride == c->linear->byte_stride;
}

static const Xla__HloInstructionProto *by_id(const Xla__HloComputationProto *c, int64_t id, uint64_t *steps) {
    for (size_t i = 0; i < c->n_instructions && *steps; i++, --*steps)
        if (c->instructions[i]->id == id) return c->instructions[i];
    return NULL;
}

/* Floats compare partially ordered by default, everything else totally. */
static bool default_order(const Xla__HloInstructionProto *in, const Xla__HloComputationProto *c, uint64_t *steps) {
    if (in->comparison_type && *in->comparison_type) return true;
    const Xla__HloInstructionProto *op = c && in->n_operand_ids ? by_id(c, in->operand_ids[0], steps) : NULL;
    if (!op || !op->shape || !in->comparison_order) return false;
    bool whole = false;
    switch (op->shape->element_type) {
    case XLA__PRIMITIVE_TYPE__PRED:
    case XLA__PRIMITIVE_TYPE__S1:
    case XLA__PRIMITIVE_TYPE__S2:
    case XLA__PRIMITIVE_TYPE__S4:
    case XLA__PRIMITIVE_TYPE__S8:
    case XLA__PRIMITIVE_TYPE__S16:
    case XLA__PRIMITIVE_TYPE__S32:
    case XLA__PRIMITIVE_TYPE__S64:
    case XLA__PRIMITIVE_TYPE__U1:
    case XLA__PRIMITIVE_TYPE__U2:
    case XLA__PRIMITIVE_TYPE__U4:
    case XLA__PRIMITIVE_TYPE__U8:
    case XLA__PRIMITIVE_TYPE__U16:
    case XLA__PRIMITIVE_TYPE__U32:
    case XLA__PRIMITIVE_TYPE__U64: whole = true; break;
    default: break;
    }
    return !strcmp(in->comparison_order, whole ? "TOTAL" : "PARTIAL");
}

bool td_ignorable_here(td_ignore_when_t when, const ProtobufCMessage *parent, const ProtobufCMessage *scope,
                       uint64_t *steps) {
    if (!parent) return when == TD_IGNORE_ALWAYS;
    switch (when) {
    case TD_IGNORE_ALWAYS: return true;
    case TD_IGNORE_LINEAR:
        return parent->descriptor == &xla__gpu__dynamic_slice_config__descriptor &&
               same_offsets((const Xla__Gpu__DynamicSliceConfig *)parent);
    case TD_IGNORE_ORDER:
        return parent->descriptor == &xla__hlo_instruction_proto__descriptor &&
               default_order((const Xla__HloInstructionProto *)parent, (const Xla__HloComputationProto *)scope, steps);
    default: return false;
    }
}
