/*
 * Every entry point that copies, sets, writes or waits for a word, or takes a hint, is judged
 * separately (interposition.md C10), each by its own name, so that none is left out.  It is built
 * twice: with the names of the legacy default stream and, with PER_THREAD, with the per-thread
 * variants.
 */
#define __CUDA_API_VERSION_INTERNAL /* every name is its own, none is an alias */
#include "tests/preload/fixture/fixture.h"

/* Of drivers of 13.4. */
extern CUresult cuGraphAddNode_v3(CUgraphNode *, CUgraph, const CUgraphNode *,
                                  const CUgraphEdgeData *, size_t, CUgraphNodeParams *)
    __attribute__((weak));
extern CUresult cuGraphNodeSetParams_v2(CUgraphNode, CUgraphNodeParams *) __attribute__((weak));

#ifdef PER_THREAD
#define DS(abi) abi##_ptds
#define SZ(abi) abi##_ptsz
#else
#define DS(abi) abi
#define SZ(abi) abi
#endif

enum { PATTERN = 0x5a, UNIT = 16, N_ROWS = 2, MOST_BYTES = 3000000 + UNIT };
enum kind { DEVICE, PINNED, MANAGED };

static const size_t sizes[] = {1008, 700000, 3000000};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* Arguments of the calls besides the range by which they are judged. */
static unsigned char host[2 * MOST_BYTES];
static CUdeviceptr elsewhere; /* device memory with room for everything */
static CUarray array;
static CUstream stream;
static CUcontext context;
static CUgraph graph;
static CUgraphExec exec;
static CUgraphNode copy_node, set_node, word_node;
static const CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};

/* ---- shapes: two rows of a quarter of n bytes, of which the last byte is the n-th ---- */

static CUDA_MEMCPY2D shape_2d(CUdeviceptr to, CUdeviceptr from, size_t n) {
    size_t pitch = n - n / 4;
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = from,
                           .srcPitch = pitch,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = to,
                           .dstPitch = pitch,
                           .WidthInBytes = n / 4,
                           .Height = N_ROWS};
}

static CUDA_MEMCPY3D shape_3d(CUdeviceptr to, CUdeviceptr from, size_t n) {
    size_t pitch = n - n / 4;
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = from,
                           .srcPitch = pitch,
                           .srcHeight = N_ROWS,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = to,
                           .dstPitch = pitch,
                           .dstHeight = N_ROWS,
                           .WidthInBytes = n / 4,
                           .Height = N_ROWS,
                           .Depth = 1};
}

static CUDA_MEMCPY3D_PEER shape_peer(CUdeviceptr to, CUdeviceptr from, size_t n) {
    size_t pitch = n - n / 4;
    return (CUDA_MEMCPY3D_PEER){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = from,
                                .srcContext = context,
                                .srcPitch = pitch,
                                .srcHeight = N_ROWS,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = to,
                                .dstContext = context,
                                .dstPitch = pitch,
                                .dstHeight = N_ROWS,
                                .WidthInBytes = n / 4,
                                .Height = N_ROWS,
                                .Depth = 1};
}

static CUDA_MEMCPY3D_BATCH_OP shape_batch(CUdeviceptr to, CUdeviceptr from, size_t n) {
    return (CUDA_MEMCPY3D_BATCH_OP){
        .src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = from}},
        .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = to}},
        .extent = {n, 1, 1},
        .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
}

static CUDA_MEMSET_NODE_PARAMS shape_set(CUdeviceptr at, size_t n) {
    return (CUDA_MEMSET_NODE_PARAMS){.dst = at,
                                     .pitch = n - n / 4,
                                     .value = 1,
                                     .elementSize = 4,
                                     .width = n / 16,
                                     .height = N_ROWS};
}

static CUstreamBatchMemOpParams written(CUdeviceptr at) {
    CUstreamBatchMemOpParams word = {.pad = {0}}; /* all of the union */
    word.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    word.writeValue.address = at;
    word.writeValue.value64 = 1;
    return word;
}

static CUstreamBatchMemOpParams awaited(CUdeviceptr at) {
    CUstreamBatchMemOpParams word = {.pad = {0}}; /* all of the union */
    word.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    word.waitValue.address = at;
    word.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    return word;
}

static CUgraphNodeParams any_copy(CUdeviceptr to, CUdeviceptr from, size_t n) {
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    params.memcpy.copyCtx = context;
    params.memcpy.copyParams = shape_3d(to, from, n);
    return params;
}

static CUgraphNodeParams any_set(CUdeviceptr at, size_t n) {
    const CUDA_MEMSET_NODE_PARAMS set = shape_set(at, n);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    params.memset = (CUDA_MEMSET_NODE_PARAMS_v2){set.dst,   set.pitch,  set.value, set.elementSize,
                                                 set.width, set.height, context};
    return params;
}

static CUgraphNodeParams any_words(CUstreamBatchMemOpParams *word) {
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
    params.memOp = (CUDA_BATCH_MEM_OP_NODE_PARAMS_v2){context, 1, word, 0};
    return params;
}

/* ---- the calls: CALL(name, expression of `at` and `n`, the range that is judged) ---- */

#define CALL(name, ...)                                                                            \
    static CUresult name(CUdeviceptr at, size_t n) {                                               \
        return __VA_ARGS__;                                                                        \
    }
/* The same with a shape of its own in `shape`. */
#define SHAPED(name, make, ...)                                                                    \
    static CUresult name(CUdeviceptr at, size_t n) {                                               \
        __typeof__(make) shape = make;                                                             \
        return __VA_ARGS__;                                                                        \
    }

CALL(by_address_to, DS(cuMemcpy)(at, (CUdeviceptr)host, n))
CALL(by_address_from, DS(cuMemcpy)((CUdeviceptr)host, at, n))
CALL(peer, DS(cuMemcpyPeer)(at, context, elsewhere, context, n))
CALL(h_to_d, DS(cuMemcpyHtoD_v2)(at, host, n))
CALL(d_to_h, DS(cuMemcpyDtoH_v2)(host, at, n))
CALL(d_to_d_to, DS(cuMemcpyDtoD_v2)(at, elsewhere, n))
CALL(d_to_d_from, DS(cuMemcpyDtoD_v2)(elsewhere, at, n))
CALL(d_to_a, DS(cuMemcpyDtoA_v2)(array, 0, at, n))
CALL(a_to_d, DS(cuMemcpyAtoD_v2)(at, array, 0, n))
CALL(h_to_a, DS(cuMemcpyHtoA_v2)(array, 0, (void *)at, n))
CALL(a_to_h, DS(cuMemcpyAtoH_v2)((void *)at, array, 0, n))
SHAPED(rows, shape_2d(at, elsewhere, n), DS(cuMemcpy2D_v2)(&shape))
SHAPED(unaligned, shape_2d(elsewhere, at, n), DS(cuMemcpy2DUnaligned_v2)(&shape))
SHAPED(box, shape_3d(at, elsewhere, n), DS(cuMemcpy3D_v2)(&shape))
SHAPED(box_peer, shape_peer(at, elsewhere, n), DS(cuMemcpy3DPeer)(&shape))

CALL(by_address_async, SZ(cuMemcpyAsync)(at, (CUdeviceptr)host, n, stream))
CALL(peer_async, SZ(cuMemcpyPeerAsync)(elsewhere, context, at, context, n, stream))
CALL(h_to_d_async, SZ(cuMemcpyHtoDAsync_v2)(at, host, n, stream))
CALL(d_to_h_async, SZ(cuMemcpyDtoHAsync_v2)(host, at, n, stream))
CALL(d_to_d_async, SZ(cuMemcpyDtoDAsync_v2)(elsewhere, at, n, stream))
CALL(h_to_a_async, SZ(cuMemcpyHtoAAsync_v2)(array, 0, (void *)at, n, stream))
CALL(a_to_h_async, SZ(cuMemcpyAtoHAsync_v2)((void *)at, array, 0, n, stream))
SHAPED(rows_async, shape_2d(elsewhere, at, n), SZ(cuMemcpy2DAsync_v2)(&shape, stream))
SHAPED(box_async, shape_3d(elsewhere, at, n), SZ(cuMemcpy3DAsync_v2)(&shape, stream))
SHAPED(box_peer_async, shape_peer(elsewhere, at, n), SZ(cuMemcpy3DPeerAsync)(&shape, stream))

static CUmemcpyAttributes ordered = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
static size_t first, failed;
CALL(batch_old,
     SZ(cuMemcpyBatchAsync)(&at, &elsewhere, &n, 1, &ordered, &first, 1, &failed, stream))
CALL(batch, SZ(cuMemcpyBatchAsync_v2)(&elsewhere, &at, &n, 1, &ordered, &first, 1, stream))
SHAPED(boxes_old, shape_batch(at, elsewhere, n),
       SZ(cuMemcpy3DBatchAsync)(1, &shape, &failed, 0, stream))
SHAPED(boxes, shape_batch(elsewhere, at, n), SZ(cuMemcpy3DBatchAsync_v2)(1, &shape, 0, stream))

CALL(d8, DS(cuMemsetD8_v2)(at, 1, n))
CALL(d16, DS(cuMemsetD16_v2)(at, 1, n / 2))
CALL(d32, DS(cuMemsetD32_v2)(at, 1, n / 4))
CALL(d2d8, DS(cuMemsetD2D8_v2)(at, n - n / 4, 1, n / 4, N_ROWS))
CALL(d2d16, DS(cuMemsetD2D16_v2)(at, n - n / 4, 1, n / 8, N_ROWS))
CALL(d2d32, DS(cuMemsetD2D32_v2)(at, n - n / 4, 1, n / 16, N_ROWS))
CALL(d8_async, SZ(cuMemsetD8Async)(at, 1, n, stream))
CALL(d16_async, SZ(cuMemsetD16Async)(at, 1, n / 2, stream))
CALL(d32_async, SZ(cuMemsetD32Async)(at, 1, n / 4, stream))
CALL(d2d8_async, SZ(cuMemsetD2D8Async)(at, n - n / 4, 1, n / 4, N_ROWS, stream))
CALL(d2d16_async, SZ(cuMemsetD2D16Async)(at, n - n / 4, 1, n / 8, N_ROWS, stream))
CALL(d2d32_async, SZ(cuMemsetD2D32Async)(at, n - n / 4, 1, n / 16, N_ROWS, stream))

CALL(write_32_old, SZ(cuStreamWriteValue32)(stream, at + n - 4, 1, 0))
CALL(write_32, SZ(cuStreamWriteValue32_v2)(stream, at + n - 4, 1, 0))
CALL(write_64_old, SZ(cuStreamWriteValue64)(stream, at + n - 8, 1, 0))
CALL(write_64, SZ(cuStreamWriteValue64_v2)(stream, at + n - 8, 1, 0))
CALL(wait_32_old, SZ(cuStreamWaitValue32)(stream, at + n - 4, 0, CU_STREAM_WAIT_VALUE_GEQ))
CALL(wait_32, SZ(cuStreamWaitValue32_v2)(stream, at + n - 4, 0, CU_STREAM_WAIT_VALUE_GEQ))
CALL(wait_64_old, SZ(cuStreamWaitValue64)(stream, at + n - 8, 0, CU_STREAM_WAIT_VALUE_GEQ))
CALL(wait_64, SZ(cuStreamWaitValue64_v2)(stream, at + n - 8, 0, CU_STREAM_WAIT_VALUE_GEQ))
SHAPED(words_old, written(at + n - 8), SZ(cuStreamBatchMemOp)(stream, 1, &shape, 0))
SHAPED(words, written(at + n - 8), SZ(cuStreamBatchMemOp_v2)(stream, 1, &shape, 0))
SHAPED(words_awaited, awaited(at + n - 4), SZ(cuStreamBatchMemOp_v2)(stream, 1, &shape, 0))

CALL(prefetch_old, SZ(cuMemPrefetchAsync)(at, n, 0, stream))
CALL(prefetch, SZ(cuMemPrefetchAsync_v2)(at, n, device, 0, stream))
static CUmemLocation somewhere;
CALL(prefetch_many, SZ(cuMemPrefetchBatchAsync)(&at, &n, 1, &somewhere, &first, 1, 0, stream))
CALL(discard_many, SZ(cuMemDiscardBatchAsync)(&at, &n, 1, 0, stream))
CALL(renew_many,
     SZ(cuMemDiscardAndPrefetchBatchAsync)(&at, &n, 1, &somewhere, &first, 1, 0, stream))
CALL(attach, SZ(cuStreamAttachMemAsync)(stream, at + n - 1, 0, CU_MEM_ATTACH_GLOBAL))
CALL(advise_old, cuMemAdvise(at, n, CU_MEM_ADVISE_SET_READ_MOSTLY, 0))
CALL(advise, cuMemAdvise_v2(at, n, CU_MEM_ADVISE_SET_READ_MOSTLY, device))

/* ---- nodes, which have no per-thread variants ---- */

static CUgraphNode made;
SHAPED(add_copy, shape_3d(at, elsewhere, n),
       cuGraphAddMemcpyNode(&made, graph, NULL, 0, &shape, context))
SHAPED(set_copy, shape_3d(elsewhere, at, n), cuGraphMemcpyNodeSetParams(copy_node, &shape))
SHAPED(set_exec_copy, shape_3d(at, elsewhere, n),
       cuGraphExecMemcpyNodeSetParams(exec, copy_node, &shape, context))
SHAPED(add_set, shape_set(at, n), cuGraphAddMemsetNode(&made, graph, NULL, 0, &shape, context))
SHAPED(set_set, shape_set(at, n), cuGraphMemsetNodeSetParams(set_node, &shape))
SHAPED(set_exec_set, shape_set(at, n),
       cuGraphExecMemsetNodeSetParams(exec, set_node, &shape, context))

static CUresult add_words(CUdeviceptr at, size_t n) {
    CUstreamBatchMemOpParams word = written(at + n - 8);
    const CUDA_BATCH_MEM_OP_NODE_PARAMS params = {context, 1, &word, 0};
    return cuGraphAddBatchMemOpNode(&made, graph, NULL, 0, &params);
}

static CUresult set_words(CUdeviceptr at, size_t n) {
    CUstreamBatchMemOpParams word = awaited(at + n - 4);
    const CUDA_BATCH_MEM_OP_NODE_PARAMS params = {context, 1, &word, 0};
    return cuGraphBatchMemOpNodeSetParams(word_node, &params);
}

static CUresult set_exec_words(CUdeviceptr at, size_t n) {
    CUstreamBatchMemOpParams word = written(at + n - 8);
    const CUDA_BATCH_MEM_OP_NODE_PARAMS params = {context, 1, &word, 0};
    return cuGraphExecBatchMemOpNodeSetParams(exec, word_node, &params);
}

SHAPED(add_any_old, any_set(at, n), cuGraphAddNode(&made, graph, NULL, 0, &shape))
SHAPED(add_any, any_copy(elsewhere, at, n), cuGraphAddNode_v2(&made, graph, NULL, NULL, 0, &shape))
SHAPED(set_any, any_copy(at, elsewhere, n), cuGraphNodeSetParams(copy_node, &shape))
SHAPED(add_any_later, any_copy(elsewhere, at, n),
       (cuGraphAddNode_v3 ? cuGraphAddNode_v3 : cuGraphAddNode_v2)(&made, graph, NULL, NULL, 0,
                                                                   &shape))
SHAPED(set_any_later, any_copy(at, elsewhere, n),
       (cuGraphNodeSetParams_v2 ? cuGraphNodeSetParams_v2 : cuGraphNodeSetParams)(copy_node,
                                                                                  &shape))
SHAPED(set_exec_any, any_set(at, n), cuGraphExecNodeSetParams(exec, set_node, &shape))

static CUresult add_any_words(CUdeviceptr at, size_t n) {
    CUstreamBatchMemOpParams word = written(at + n - 8);
    CUgraphNodeParams params = any_words(&word);
    return cuGraphAddNode_v2(&made, graph, NULL, NULL, 0, &params);
}

static const struct call {
    const char *name;
    CUresult (*run)(CUdeviceptr at, size_t n);
    enum kind kind; /* of the memory on which it is tried */
} calls[] = {
#define ROW(name, kind)                                                                            \
    { #name, name, kind }
    ROW(by_address_to, DEVICE),
    ROW(by_address_from, DEVICE),
    ROW(peer, DEVICE),
    ROW(h_to_d, DEVICE),
    ROW(d_to_h, DEVICE),
    ROW(d_to_d_to, DEVICE),
    ROW(d_to_d_from, DEVICE),
    ROW(d_to_a, DEVICE),
    ROW(a_to_d, DEVICE),
    ROW(h_to_a, PINNED),
    ROW(a_to_h, PINNED),
    ROW(rows, DEVICE),
    ROW(unaligned, DEVICE),
    ROW(box, DEVICE),
    ROW(box_peer, DEVICE),
    ROW(by_address_async, DEVICE),
    ROW(peer_async, DEVICE),
    ROW(h_to_d_async, DEVICE),
    ROW(d_to_h_async, DEVICE),
    ROW(d_to_d_async, DEVICE),
    ROW(h_to_a_async, PINNED),
    ROW(a_to_h_async, PINNED),
    ROW(rows_async, DEVICE),
    ROW(box_async, DEVICE),
    ROW(box_peer_async, DEVICE),
    ROW(batch_old, DEVICE),
    ROW(batch, DEVICE),
    ROW(boxes_old, DEVICE),
    ROW(boxes, DEVICE),
    ROW(d8, DEVICE),
    ROW(d16, DEVICE),
    ROW(d32, DEVICE),
    ROW(d2d8, DEVICE),
    ROW(d2d16, DEVICE),
    ROW(d2d32, DEVICE),
    ROW(d8_async, DEVICE),
    ROW(d16_async, DEVICE),
    ROW(d32_async, DEVICE),
    ROW(d2d8_async, DEVICE),
    ROW(d2d16_async, DEVICE),
    ROW(d2d32_async, DEVICE),
    ROW(write_32_old, DEVICE),
    ROW(write_32, DEVICE),
    ROW(write_64_old, DEVICE),
    ROW(write_64, DEVICE),
    ROW(wait_32_old, DEVICE),
    ROW(wait_32, DEVICE),
    ROW(wait_64_old, DEVICE),
    ROW(wait_64, DEVICE),
    ROW(words_old, DEVICE),
    ROW(words, DEVICE),
    ROW(words_awaited, DEVICE),
    ROW(prefetch_old, MANAGED),
    ROW(prefetch, MANAGED),
    ROW(prefetch_many, MANAGED),
    ROW(discard_many, MANAGED),
    ROW(renew_many, MANAGED),
    ROW(attach, MANAGED),
    ROW(advise_old, MANAGED),
    ROW(advise, MANAGED),
    ROW(add_copy, DEVICE),
    ROW(set_copy, DEVICE),
    ROW(set_exec_copy, DEVICE),
    ROW(add_set, DEVICE),
    ROW(set_set, DEVICE),
    ROW(set_exec_set, DEVICE),
    ROW(add_words, DEVICE),
    ROW(set_words, DEVICE),
    ROW(set_exec_words, DEVICE),
    ROW(add_any_old, DEVICE),
    ROW(add_any, DEVICE),
    ROW(set_any, DEVICE),
    ROW(add_any_later, DEVICE),
    ROW(set_any_later, DEVICE),
    ROW(set_exec_any, DEVICE),
    ROW(add_any_words, DEVICE),
};
enum { N_CALLS = sizeof calls / sizeof *calls };

/* ---- blocks of one kind ---- */

static CUdeviceptr alloc(enum kind kind, size_t n) {
    void *pinned = NULL;
    CUdeviceptr block = 0;
    if (kind == DEVICE)
        return fixture_alloc(n);
    if (kind == MANAGED)
        OK(cuMemAllocManaged(&block, n, CU_MEM_ATTACH_GLOBAL));
    else
        OK(cuMemHostAlloc(&pinned, n, 0));
    return kind == MANAGED ? block : (CUdeviceptr)pinned;
}

static void release(enum kind kind, CUdeviceptr block) {
    OK(kind == PINNED ? cuMemFreeHost((void *)block) : cuMemFree_v2(block));
}

static void set_up(void) {
    const CUDA_ARRAY_DESCRIPTOR descriptor = {.Width = 2 * MOST_BYTES,
                                              .Height = 1,
                                              .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                              .NumChannels = 1};
    context = fixture_use_device(0);
    stream = fixture_stream();
    elsewhere = fixture_alloc(2 * MOST_BYTES);
    somewhere = device;
    OK(cuArrayCreate_v2(&array, &descriptor));
    const CUDA_MEMCPY3D copy = shape_3d(elsewhere, elsewhere + MOST_BYTES, UNIT * 4);
    const CUDA_MEMSET_NODE_PARAMS set = shape_set(elsewhere, UNIT * 4);
    CUstreamBatchMemOpParams word = written(elsewhere);
    const CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {context, 1, &word, 0};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemcpyNode(&copy_node, graph, NULL, 0, &copy, context));
    OK(cuGraphAddMemsetNode(&set_node, graph, NULL, 0, &set, context));
    OK(cuGraphAddBatchMemOpNode(&word_node, graph, NULL, 0, &batch));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
}

/* A block between two that hold a pattern. */
static CUdeviceptr blocks[3];

static void fill(enum kind kind, size_t n) {
    for (int i = 0; i < 3; i++) {
        blocks[i] = alloc(kind, n);
        if (kind == DEVICE)
            fixture_fill(blocks[i], PATTERN, n);
    }
}

static void check(const struct call *call, size_t n) {
    OK(cuCtxSynchronize());
    for (int i = 0; call->kind == DEVICE && i < 3; i += 2)
        ck_assert_msg(fixture_is_filled(blocks[i], PATTERN, n), "%s hurt a neighbour", call->name);
}

TEST(each_ends_with_its_block, .n = N_SIZES) {
    size_t n = sizes[_i];
    set_up();
    for (int i = 0; i < N_CALLS; i++) {
        const struct call *call = &calls[i];
        fill(call->kind, n);
        CUresult answer = call->run(blocks[1], n);
        ck_assert_msg(answer == CUDA_SUCCESS, "%s gave %d", call->name, answer);
        answer = call->run(blocks[1], n + UNIT);
        ck_assert_msg(answer == CUDA_ERROR_INVALID_VALUE, "%s beyond gave %d", call->name, answer);
        check(call, n);
        release(call->kind, blocks[1]);
        answer = call->run(blocks[1], UNIT * 4);
        ck_assert_msg(answer == CUDA_ERROR_INVALID_VALUE, "%s freed gave %d", call->name, answer);
        check(call, n);
        release(call->kind, blocks[0]);
        release(call->kind, blocks[2]);
    }
}

/* ---- is any left out? ---- */

static bool begins(const char *name, const char *with) {
    return strncmp(name, with, strlen(with)) == 0;
}

/* A hook with an address of a copy, a set, a word or a hint, of this build's default stream. */
static bool is_due(const char *abi) {
    static const char *const families[] = {
        "cuMemcpy",          "cuMemset",         "cuStreamWriteValue", "cuStreamWaitValue",
        "cuStreamBatchMem",  "cuMemPrefetch",    "cuMemDiscard",       "cuMemAdvise",
        "cuStreamAttachMem", "cuGraphAddMemcpy", "cuGraphMemcpy",      "cuGraphExecMemcpy",
        "cuGraphAddMemset",  "cuGraphMemset",    "cuGraphExecMems",    "cuGraphAddBatch",
        "cuGraphBatch",      "cuGraphExecBatch", "cuGraphAddNode",     "cuGraphNodeSet",
        "cuGraphExecNode"};
    const char *suffix = strrchr(abi, '_');
    bool is_per_thread = suffix && begins(suffix, "_pt"), is_found = false;
    bool has_per_thread = !begins(abi, "cuGraph") && !begins(abi, "cuMemAdvise");
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        is_found = is_found || begins(abi, families[i]);
#ifdef PER_THREAD
    return is_found && (is_per_thread || !has_per_thread) && !begins(abi, "cuMemcpyAtoA");
#else
    return is_found && (!is_per_thread || !has_per_thread) && !begins(abi, "cuMemcpyAtoA");
#endif
}

TEST(none_that_is_hooked_is_left_out) {
    set_up();
    for (int i = 0; i < N_CALLS; i++) {
        CUdeviceptr block = alloc(calls[i].kind, 4096);
        calls[i].run(block, 4096);
        OK(cuCtxSynchronize());
        release(calls[i].kind, block);
    }
#define NAME_HOOK(abi)   #abi
#define NAME_CALL(abi)   ""
#define NAME_NATIVE(abi) ""
#define SYM(role, api, abi, asked_as, since, need)                                                 \
    ck_assert_msg(!is_due(NAME_##role(abi)) || sim_calls(#abi), "%s is not tried", #abi);
#include "cuda/symbols.def"
#undef SYM
}

int main(void) {
    return fixture_run("entry_points");
}
