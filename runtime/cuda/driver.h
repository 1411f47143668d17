/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA Driver API as far as thunkd calls it: our own declarations, so that no CUDA header is needed to build and
 * no library to link. libcuda.so.1 is opened at run time and its functions are found by name.
 *
 * Types, values and symbol versions are facts of the public Driver API (cuda.h). Handles are opaque pointers, device
 * pointers 64-bit numbers, as in all 64-bit drivers. TD_CUDA_SYMBOLS is the one list of functions: it declares the
 * members of td_cuda_t and fills them; a stand-in driver for tests can define its entry points from the same list.
 * Thread: the table is read-only once it is open; td_cuda_fail may be called from any thread. */
#ifndef TD_RUNTIME_CUDA_DRIVER_H
#define TD_RUNTIME_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUuuid { unsigned char bytes[16]; } CUuuid;
_Static_assert(sizeof(CUdeviceptr) == sizeof(void *), "a device pointer is as wide as a host pointer");

/* Enums of the API are passed as int: same size, same registers, and no trap on values newer than this list. */
typedef int CUresult;
enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_STUB_LIBRARY = 34,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_INVALID_PTX = 218,
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_CONTAINED = 226,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
    CUDA_ERROR_MISALIGNED_ADDRESS = 716,
    CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
    CUDA_ERROR_INVALID_PC = 718,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_ERROR_UNKNOWN = 999,
};

enum { /* CUdevice_attribute */
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH = 120,
};
enum { CU_COMPUTEMODE_DEFAULT = 0, CU_COMPUTEMODE_PROHIBITED = 2 };
enum { /* CUfunction_attribute */
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1, /* static */
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
};
enum { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum { CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2 };
enum { CU_EVENT_WAIT_DEFAULT = 0 };
enum { CU_MEMHOSTREGISTER_PORTABLE = 1, CU_MEMHOSTREGISTER_DEVICEMAP = 2 };
enum { CU_JIT_INFO_LOG_BUFFER = 3, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4, CU_JIT_ERROR_LOG_BUFFER = 5,
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 };
enum { CU_STREAM_CAPTURE_MODE_GLOBAL = 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1, CU_STREAM_CAPTURE_MODE_RELAXED = 2 };
enum { CU_STREAM_CAPTURE_STATUS_NONE = 0, CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
      CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2 };

/* CUlaunchAttribute: the value is a union of 64 bytes, of which we fill two forms. */
enum { CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6 };
typedef struct CUlaunchAttribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        struct { unsigned x, y, z; } clusterDim;
        int programmaticStreamSerializationAllowed;
    } value;
} CUlaunchAttribute;
_Static_assert(sizeof(CUlaunchAttribute) == 72, "layout of cuda.h");
typedef struct CUlaunchConfig {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;
_Static_assert(sizeof(CUlaunchConfig) == 56, "layout of cuda.h");
typedef struct CUtensorMap { _Alignas(128) uint64_t opaque[16]; } CUtensorMap; /* newer headers ask for 128 */
_Static_assert(sizeof(CUtensorMap) == 128, "layout of cuda.h");
typedef struct CUgraphExecUpdateResultInfo {
    int result; /* CUgraphExecUpdateResult, 0: updated */
    CUgraphNode errorNode, errorFromNode;
} CUgraphExecUpdateResultInfo;
enum { CU_TENSOR_MAP_MAX_RANK = 5 };

/* X(needed, name, (argument types)): needed 1: the driver must have it; 0: its absence is found out when it is
 * wanted. Every function returns a CUresult. */
#define TD_CUDA_SYMBOLS(X)                                                                                             \
    X(1, cuInit, (unsigned flags))                                                                                     \
    X(1, cuDriverGetVersion, (int *version))                                                                           \
    X(1, cuGetErrorName, (CUresult error, const char **out))                                                           \
    X(1, cuGetErrorString, (CUresult error, const char **out))                                                         \
    X(1, cuDeviceGetCount, (int *count))                                                                               \
    X(1, cuDeviceGet, (CUdevice *device, int ordinal))                                                                 \
    X(1, cuDeviceGetName, (char *name, int size, CUdevice device))                                                     \
    X(1, cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice device))                                                          \
    X(1, cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                                           \
    X(1, cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device))                                                        \
    X(1, cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device))                                              \
    X(1, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                                              \
    X(1, cuCtxSetCurrent, (CUcontext context))                                                                         \
    X(1, cuCtxGetCurrent, (CUcontext *context))                                                                        \
    X(1, cuCtxSynchronize, (void))                                                                                     \
    X(1, cuCtxGetStreamPriorityRange, (int *least, int *greatest))                                                     \
    X(1, cuMemGetInfo_v2, (size_t *free_bytes, size_t *total_bytes))                                                   \
    X(1, cuMemAlloc_v2, (CUdeviceptr *p, size_t bytes))                                                                \
    X(1, cuMemFree_v2, (CUdeviceptr p))                                                                                \
    X(1, cuMemAllocHost_v2, (void **p, size_t bytes))                                                                  \
    X(1, cuMemFreeHost, (void *p))                                                                                     \
    X(1, cuMemHostRegister_v2, (void *p, size_t bytes, unsigned flags))                                                \
    X(1, cuMemHostUnregister, (void *p))                                                                               \
    X(1, cuMemHostGetDevicePointer_v2, (CUdeviceptr *device, void *p, unsigned flags))                                 \
    X(1, cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream))                      \
    X(1, cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream))                            \
    X(1, cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream))                      \
    X(1, cuMemsetD8Async, (CUdeviceptr dst, unsigned char value, size_t count, CUstream stream))                       \
    X(1, cuMemsetD32Async, (CUdeviceptr dst, unsigned value, size_t count, CUstream stream))                           \
    X(1, cuStreamCreateWithPriority, (CUstream *stream, unsigned flags, int priority))                                 \
    X(1, cuStreamDestroy_v2, (CUstream stream))                                                                        \
    X(1, cuStreamSynchronize, (CUstream stream))                                                                       \
    X(1, cuStreamQuery, (CUstream stream))                                                                             \
    X(1, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                          \
    X(1, cuEventCreate, (CUevent *event, unsigned flags))                                                              \
    X(1, cuEventDestroy_v2, (CUevent event))                                                                           \
    X(1, cuEventRecord, (CUevent event, CUstream stream))                                                              \
    X(1, cuEventQuery, (CUevent event))                                                                                \
    X(1, cuEventSynchronize, (CUevent event))                                                                          \
    X(1, cuEventElapsedTime, (float *ms, CUevent start, CUevent end))                                                  \
    X(1, cuModuleLoadDataEx, (CUmodule *module, const void *image, unsigned n, int *options, void **values))           \
    X(1, cuModuleUnload, (CUmodule module))                                                                            \
    X(1, cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name))                               \
    X(1, cuModuleGetGlobal_v2, (CUdeviceptr *p, size_t *bytes, CUmodule module, const char *name))                     \
    X(1, cuFuncGetAttribute, (int *value, int attribute, CUfunction function))                                         \
    X(1, cuFuncSetAttribute, (CUfunction function, int attribute, int value))                                          \
    X(1, cuLaunchKernel, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,    \
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,                  \
                          void **params, void **extra))                                                                \
    X(0, cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction function, void **params, void **extra))           \
    X(0, cuFuncGetParamInfo, (CUfunction function, size_t index, size_t *offset, size_t *size))                        \
    X(0, cuTensorMapEncodeTiled, (CUtensorMap *map, int data_type, uint32_t rank, void *global_address,                \
                                  const uint64_t *global_dim, const uint64_t *global_strides,                          \
                                  const uint32_t *box_dim, const uint32_t *element_strides, int interleave,            \
                                  int swizzle, int l2_promotion, int oob_fill))                                        \
    X(0, cuStreamBeginCapture_v2, (CUstream stream, int mode))                                                         \
    X(0, cuStreamEndCapture, (CUstream stream, CUgraph *graph))                                                        \
    X(0, cuStreamIsCapturing, (CUstream stream, int *status))                                                          \
    X(0, cuGraphInstantiateWithFlags, (CUgraphExec *exec, CUgraph graph, uint64_t flags))                              \
    X(0, cuGraphExecUpdate_v2, (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info))                   \
    X(0, cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                                           \
    X(0, cuGraphExecDestroy, (CUgraphExec exec))                                                                       \
    X(0, cuGraphDestroy, (CUgraph graph))

typedef struct td_cuda {
#define TD_CUDA_MEMBER(needed, name, args) CUresult(*name) args;
    TD_CUDA_SYMBOLS(TD_CUDA_MEMBER)
#undef TD_CUDA_MEMBER
    void *library; /* dlopen's handle */
    int version;   /* of the driver: 1000 * major + 10 * minor of the CUDA release it serves */
} td_cuda_t;

/* The oldest driver that works: CUDA 12.0, whose drivers know sm_90, clusters and tensor maps. */
enum { TD_CUDA_DRIVER_LEAST = 12000 };

/* Opens the driver and calls cuInit. path: a library file, or NULL for libcuda.so.1. Errors: TD_NOTFOUND when there
 * is no driver or no device, TD_UNSUPPORTED when a needed function is missing or the driver is too old. The library
 * stays loaded for the life of the process (drivers do not survive dlclose). */
td_status_t td_cuda_open(const char *path, td_cuda_t *out, td_err_t *err);
/* "what: cuFoo: CUDA_ERROR_X (n): text" with the matching status: out of memory is TD_NOMEM, images the device cannot
 * run TD_MISMATCH, damaged ones TD_MALFORMED, what the driver lacks TD_UNSUPPORTED, a missing name TD_NOTFOUND, all else
 * TD_DEVICE. Returns that status. */
td_status_t td_cuda_fail(const td_cuda_t *cu, CUresult r, const char *call, const char *what, td_err_t *err);
/* Errors after which every further call in the context fails: the process must start anew. */
bool td_cuda_sticky(CUresult r);

#endif
