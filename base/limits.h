/* SPDX-License-Identifier: Apache-2.0 */
/* Every limit on input from outside, each with its reason. A module that needs
 * a new bound adds it here. */
#ifndef TD_BASE_LIMITS_H
#define TD_BASE_LIMITS_H

/* ---- containers and messages ---- */
/* One artifact on disk or decompressed: a protobuf record cannot pass 2 GiB (its sizes are varint32). */
#define TD_LIMIT_ARTIFACT_BYTES (2ull << 30)
/* Nesting of messages: real artifacts stay below 24; protobuf-c recurses without a bound of its own. */
#define TD_LIMIT_PROTO_DEPTH 96
/* Messages in one artifact: the largest known has about 300,000 instructions' worth. */
#define TD_LIMIT_PROTO_MESSAGES (16u << 20)
/* Unpacked structs may take this many times the wire bytes, plus a floor (an empty submessage is 2 bytes). */
#define TD_LIMIT_PROTO_AMPLIFICATION 64
#define TD_LIMIT_PROTO_FLOOR_BYTES (8u << 20)
/* Bytes fields up to this size stay in the message; larger ones become payloads. */
#define TD_LIMIT_INLINE_BYTES 64
/* Different unknown fields that are listed; a newer compiler adds a handful. */
#define TD_LIMIT_UNKNOWN_FIELDS 256
/* Riegeli records in one file: manifest + one per constant + a few. */
#define TD_LIMIT_RECORDS (1u << 20)
/* Manifest of a split file: some ten bytes a record. */
#define TD_LIMIT_MANIFEST_BYTES (32u << 20)

/* ---- the store ---- */
/* Entries of one folder of the store: more is a mistake, and each costs a stat at every look. */
#define TD_LIMIT_STORE_ENTRIES 4096
/* Set aside for each load thread to read an artifact's headers with: messages of the largest known take some 30 MiB. */
#define TD_LIMIT_STORE_SURVEY_BYTES (32ull << 20)
/* Artifacts of one version: targets and shape buckets. */
#define TD_LIMIT_STORE_ARTIFACTS 64
/* Files that replace those of a folder in one load request. */
#define TD_LIMIT_STORE_OVERRIDES 64

/* ---- requests ---- */
/* Set aside for buffers of up to SMALL_BUFFER bytes, so that a full budget does not shut out the calls that unload:
 * sixteen of the largest at a time. */
#define TD_LIMIT_SMALL_BUFFER_BYTES (64u << 10)
#define TD_LIMIT_SMALL_BUFFERS_BYTES (1u << 20)

/* ---- programs ---- */
#define TD_LIMIT_RANK 64         /* XLA itself stops far below */
#define TD_LIMIT_TUPLE_DEPTH 16
#define TD_LIMIT_STREAMS 256     /* logical streams per kind; real artifacts use fewer than 10 */
/* Streams that one execution really has, each with a queue on the device. Further logical ones share them. */
#define TD_LIMIT_LANES 16
#define TD_LIMIT_ASYNC_PAIRS 65536 /* an event each; real artifacts have fewer than 1000 */
#define TD_LIMIT_THUNK_DEPTH 32  /* nested while/conditional/async/sequence */
#define TD_LIMIT_COMP_DEPTH 64   /* HLO computations calling computations */
#define TD_LIMIT_ALLOCATION_BYTES (1ull << 46)
#define TD_LIMIT_KERNEL_ARGS 4096
/* Thunks told in one trace, a loop's once for each iteration: two events of the device each, and viewers get slow. */
#define TD_LIMIT_TRACE_EVENTS (1u << 20)
#define TD_LIMIT_TMA_ARGS 32 /* tensor maps of one kernel, 128 bytes each; parameters have 4 KiB, in all but the newest drivers */
#define TD_LIMIT_DEVICES 65536
/* A loop that never ends must not hold a device thread for ever: iterations of one while thunk without a trip count. */
#define TD_LIMIT_WHILE_ITERATIONS (1ull << 40)
/* Multiplications of one convolution: padding makes outputs of any size legal, and this many are hours. */
#define TD_LIMIT_CONV_STEPS (1ull << 50)
/* Sparse systems are solved densely: 8192 rows take half a GiB in f64. */
#define TD_LIMIT_SPSOLVE_ROWS 8192

/* ---- checks of answers on another device ---- */
/* That a load waits for a check which ends: between two thunks it does at once. */
#define TD_LIMIT_REFERENCE_WAIT_S 1
/* One part in so many of the host's budget stays free of them, for requests. */
#define TD_LIMIT_REFERENCE_ROOM 8
/* What a whole program may be off by, in tolerances of one thunk: errors of one become those of the next. */
#define TD_LIMIT_REFERENCE_TOLERANCES 8

/* ---- metrics and HTTP ---- */
/* Models and versions that requests are counted of; what comes after them is counted together. */
#define TD_LIMIT_STATS_ENTRIES 2048
/* Request line and headers of one HTTP/1.1 request: as nghttp2 is told for HTTP/2. */
#define TD_LIMIT_HTTP_HEADER_BYTES (16u << 10)
/* A body; no path wants one, but clients send empty JSON objects. */
#define TD_LIMIT_HTTP_BODY_BYTES (64u << 10)
/* An admin request: names only. */
#define TD_LIMIT_ADMIN_BYTES (64u << 10)

/* ---- mapped files and weights ---- */
/* Files mapped at a time, each with a descriptor; the largest models have some 200 shards. */
#define TD_LIMIT_GUARDS 4096
/* Files of one model's weights. */
#define TD_LIMIT_WEIGHT_FILES 1024
/* A safetensors header or index of JSON: the format's own limit, as its reference implementation has it… */
#define TD_LIMIT_ST_HEADER_BYTES (100u << 20)
/* …and what its values may take when parsed, some ten times the text: room for about 200,000 tensors. */
#define TD_LIMIT_ST_JSON_BYTES (256ull << 20)

/* ---- model.yaml ---- */
/* A list of 4096 long names fits many times. */
#define TD_LIMIT_YAML_BYTES (1u << 20)
/* Entries of one list, pairs of one map: a program cannot have more arguments. */
#define TD_LIMIT_YAML_ENTRIES 4096
/* Values, lists and maps of one file: 4096 inputs and outputs with their shapes. */
#define TD_LIMIT_YAML_NODES (1u << 17)
/* Maps and lists in each other; the schema has four. */
#define TD_LIMIT_YAML_DEPTH 8
/* Of any time in milliseconds: a year. */
#define TD_LIMIT_YAML_MS 31536000000ull

#endif
