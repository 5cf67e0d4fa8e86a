/* Graphs built node by node: order, children, updates, launches in flight. */
#include "fixture.h"
#include "tests/unit/suite.h"

static CUgraphNode add_store(CUgraph graph, CUgraphNode after, int *target, int value) {
    CUgraphNode node;
    void *params[] = {&target, &value};
    CUDA_KERNEL_NODE_PARAMS kernel = {.func = fixture_kernel("store"),
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 1,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = params};
    ck_cuda(cuGraphAddKernelNode(&node, graph, after ? &after : NULL, after ? 1 : 0, &kernel));
    return node;
}

static void launch_and_wait(CUgraph graph) {
    CUgraphExec exec;
    ck_cuda(cuGraphInstantiate(&exec, graph, 0));
    ck_cuda(cuGraphLaunch(exec, NULL));
    ck_cuda(cuStreamSynchronize(NULL));
    ck_cuda(cuGraphExecDestroy(exec));
}

TEST(nodes_run_after_their_dependencies) {
    int value = 0;
    CUgraph graph;
    fixture_context();
    ck_cuda(cuGraphCreate(&graph, 0));
    CUgraphNode first = add_store(graph, NULL, &value, 1);
    CUgraphNode last = add_store(graph, NULL, &value, 3);
    CUgraphNode middle = add_store(graph, first, &value, 2);
    ck_cuda(cuGraphAddDependencies(graph, &middle, &last, NULL, 1));
    launch_and_wait(graph);
    ck_assert_int_eq(value, 3);
    ck_cuda(cuGraphDestroy(graph));
}

TEST(a_ring_of_nodes_cannot_be_instantiated) {
    int value;
    CUgraph graph;
    CUgraphExec exec;
    fixture_context();
    ck_cuda(cuGraphCreate(&graph, 0));
    CUgraphNode a = add_store(graph, NULL, &value, 1), b = add_store(graph, a, &value, 2);
    ck_cuda(cuGraphAddDependencies(graph, &b, &a, NULL, 1));
    ck_cuda_is(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuGraphDestroy(graph));
}

static void add_one(void *value) {
    ++*(int *)value;
}

TEST(copies_sets_host_functions_and_children_are_nodes) {
    int host = 0, copied = 0;
    CUgraph graph, child;
    CUgraphNode node, next;
    CUgraphNodeType type;
    fixture_context();
    CUdeviceptr a = fixture_alloc(sizeof(int));
    CUDA_HOST_NODE_PARAMS call = {add_one, &host};
    CUDA_MEMSET_NODE_PARAMS set = {.dst = a, .value = 7, .elementSize = 4, .width = 1, .height = 1};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = a,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = &copied,
                          .WidthInBytes = sizeof(int),
                          .Height = 1,
                          .Depth = 1};
    CUcontext context;
    ck_cuda(cuCtxGetCurrent(&context));
    ck_cuda(cuGraphCreate(&child, 0));
    ck_cuda(cuGraphAddMemsetNode(&node, child, NULL, 0, &set, context));
    ck_cuda(cuGraphAddMemcpyNode(&next, child, &node, 1, &copy, context));
    ck_cuda(cuGraphCreate(&graph, 0));
    ck_cuda(cuGraphAddHostNode(&node, graph, NULL, 0, &call));
    ck_cuda(cuGraphAddChildGraphNode(&next, graph, &node, 1, child));
    ck_cuda(cuGraphNodeGetType(next, &type));
    ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_GRAPH);
    ck_cuda(cuGraphDestroy(child));
    launch_and_wait(graph);
    ck_assert_int_eq(host, 1);
    ck_assert_int_eq(copied, 7);
    ck_cuda(cuGraphDestroy(graph));
}

static CUstreamBatchMemOpParams word_op(CUstreamBatchMemOpType type, CUdeviceptr at, int value) {
    CUstreamBatchMemOpParams op = {.pad = {0}}; /* all of the union */
    op.writeValue.operation = type;             /* a wait has its parameters in the same fields */
    op.writeValue.address = at;
    op.writeValue.value = (cuuint32_t)value;
    return op;
}

TEST(a_batch_memory_node_runs_its_operations_in_order_each_time) {
    CUgraph graph;
    CUgraphNode node;
    CUgraphNodeType type;
    CUgraphExec exec;
    CUcontext context;
    fixture_context();
    ck_cuda(cuCtxGetCurrent(&context));
    CUdeviceptr word = fixture_alloc(64);
    CUstreamBatchMemOpParams ops[] = {word_op(CU_STREAM_MEM_OP_WRITE_VALUE_32, word, 5),
                                      word_op(CU_STREAM_MEM_OP_WAIT_VALUE_32, word, 5),
                                      word_op(CU_STREAM_MEM_OP_WRITE_VALUE_32, word, 6),
                                      word_op(CU_STREAM_MEM_OP_WRITE_VALUE_32, word + 4, 7)};
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
    params.memOp = (CUDA_BATCH_MEM_OP_NODE_PARAMS_v2){context, 4, ops, 0};
    ck_cuda(cuGraphCreate(&graph, 0));
    ck_cuda(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    ck_cuda(cuGraphNodeGetType(node, &type));
    ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    ck_cuda(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; i++) {
        unsigned found[2] = {0, 0};
        ck_cuda(cuMemsetD8(word, 0, 64));
        ck_cuda(cuGraphLaunch(exec, NULL));
        ck_cuda(cuStreamSynchronize(NULL));
        ck_cuda(cuMemcpyDtoH(found, word, sizeof found));
        ck_assert_uint_eq(found[0], 6);
        ck_assert_uint_eq(found[1], 7);
    }
    params.memOp.paramArray = &ops[3];
    params.memOp.count = 1;
    ck_cuda(cuGraphExecNodeSetParams(exec, node, &params));
    ck_cuda(cuMemsetD8(word, 0, 64));
    ck_cuda(cuGraphLaunch(exec, NULL));
    ck_cuda(cuStreamSynchronize(NULL));
    unsigned first = 1;
    ck_cuda(cuMemcpyDtoH(&first, word, sizeof first));
    ck_assert_uint_eq(first, 0);
    ops[3].writeValue.address = word + 64;
    ck_cuda_is(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuGraphExecDestroy(exec));
    ck_cuda(cuGraphDestroy(graph));
}

TEST(an_executable_accepts_an_update_of_the_same_shape) {
    int value = 0;
    CUgraph one, two, other;
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;
    fixture_context();
    ck_cuda(cuGraphCreate(&one, 0));
    ck_cuda(cuGraphCreate(&two, 0));
    ck_cuda(cuGraphCreate(&other, 0));
    add_store(one, NULL, &value, 1);
    add_store(two, NULL, &value, 2);
    add_store(other, add_store(other, NULL, &value, 3), &value, 4);
    ck_cuda(cuGraphInstantiate(&exec, one, 0));
    ck_cuda(cuGraphExecUpdate(exec, two, &info));
    ck_cuda_is(cuGraphExecUpdate(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    ck_cuda(cuGraphLaunch(exec, NULL));
    ck_cuda(cuStreamSynchronize(NULL));
    ck_assert_int_eq(value, 2);
    ck_cuda(cuGraphExecDestroy(exec));
    ck_cuda(cuGraphDestroy(one));
    ck_cuda(cuGraphDestroy(two));
    ck_cuda(cuGraphDestroy(other));
}

TEST(a_launch_ends_though_its_executable_is_destroyed) {
    int value = 0;
    CUgraph graph;
    CUgraphExec exec;
    fixture_context();
    ck_cuda(cuGraphCreate(&graph, 0));
    add_store(graph, NULL, &value, 5);
    ck_cuda(cuGraphInstantiate(&exec, graph, 0));
    sim_hold();
    ck_cuda(cuGraphLaunch(exec, NULL));
    ck_cuda(cuGraphExecDestroy(exec));
    ck_cuda(cuGraphDestroy(graph));
    sim_release_hold();
    ck_cuda(cuStreamSynchronize(NULL));
    ck_assert_int_eq(value, 5);
    ck_cuda_is(cuGraphLaunch(exec, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* ---- user objects ---- */

static int n_gone;
static CUresult answer_of_destructor;

static void note_gone(void *data) {
    CUcontext context;
    n_gone += *(int *)data;
    answer_of_destructor = cuCtxGetCurrent(&context);
}

static int one = 1;

/* A graph of one node that owns an object. */
static CUgraph graph_with_object(int *target, CUuserObject *object) {
    CUgraph graph;
    fixture_context();
    ck_cuda(cuGraphCreate(&graph, 0));
    add_store(graph, NULL, target, 1);
    ck_cuda(cuUserObjectCreate(object, &one, note_gone, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    ck_cuda(cuGraphRetainUserObject(graph, *object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    return graph;
}

TEST(an_object_ends_with_the_last_copy_of_its_graph) {
    int value;
    CUuserObject object;
    CUgraph clone, parent;
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph graph = graph_with_object(&value, &object);
    ck_cuda(cuGraphClone(&clone, graph));
    ck_cuda(cuGraphCreate(&parent, 0));
    ck_cuda(cuGraphAddChildGraphNode(&node, parent, NULL, 0, graph));
    ck_cuda(cuGraphDestroy(graph));
    ck_cuda(cuGraphDestroy(clone));
    ck_assert_int_eq(n_gone, 0);
    ck_cuda(cuGraphInstantiate(&exec, parent, 0));
    ck_cuda(cuGraphDestroy(parent));
    ck_assert_int_eq(n_gone, 0);
    sim_hold();
    ck_cuda(cuGraphLaunch(exec, NULL));
    ck_cuda(cuGraphExecDestroy(exec));
    ck_assert_int_eq(n_gone, 0); /* the launch is in flight */
    sim_release_hold();
    ck_cuda(cuStreamSynchronize(NULL));
    ck_assert_int_eq(n_gone, 1);
    ck_cuda_is(answer_of_destructor, CUDA_ERROR_NOT_PERMITTED);
    ck_cuda_is(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST(an_update_takes_the_objects_of_the_new_graph) {
    int value;
    CUuserObject first, second;
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;
    CUgraph graph = graph_with_object(&value, &first);
    ck_cuda(cuGraphInstantiate(&exec, graph, 0));
    ck_cuda(cuGraphDestroy(graph));
    graph = graph_with_object(&value, &second);
    ck_cuda(cuGraphExecUpdate(exec, graph, &info));
    ck_assert_int_eq(n_gone, 1);
    ck_cuda(cuGraphDestroy(graph));
    ck_assert_int_eq(n_gone, 1);
    ck_cuda(cuGraphExecDestroy(exec));
    ck_assert_int_eq(n_gone, 2);
}

TEST(references_of_an_object_are_counted) {
    int value;
    CUuserObject object;
    CUgraph graph = graph_with_object(&value, &object);
    ck_cuda(cuUserObjectRetain(object, 2));
    ck_cuda(cuGraphRetainUserObject(graph, object, 1, 0));
    ck_cuda(cuGraphReleaseUserObject(graph, object, 2));
    ck_cuda_is(cuGraphReleaseUserObject(graph, object, 1), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuGraphDestroy(graph));
    ck_cuda(cuUserObjectRelease(object, 1));
    ck_assert_int_eq(n_gone, 0);
    ck_cuda(cuUserObjectRelease(object, 1));
    ck_assert_int_eq(n_gone, 1);
    ck_cuda_is(cuUserObjectCreate(&object, NULL, note_gone, 1, 0), CUDA_ERROR_INVALID_VALUE);
}

/* ---- memory of nodes ---- */

static cuuint64_t used_bytes(void) {
    cuuint64_t n_bytes;
    ck_cuda(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &n_bytes));
    return n_bytes;
}

static CUgraph capture_alloc(CUstream stream, bool is_freed, CUdeviceptr *address) {
    CUgraph graph;
    ck_cuda(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ck_cuda(cuMemAllocAsync(address, MIB, stream));
    if (is_freed)
        ck_cuda(cuMemFreeAsync(*address, stream));
    ck_cuda(cuStreamEndCapture(stream, &graph));
    return graph;
}

TEST(memory_that_a_launch_leaves_stays_until_it_is_freed) {
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr address;
    CUgraphExec exec;
    CUgraph graph = capture_alloc(stream, false, &address);
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    size_t n = 1;
    ck_cuda(cuGraphGetNodes(graph, &node, &n));
    ck_cuda(cuGraphMemAllocNodeGetParams(node, &params));
    ck_assert_uint_eq(params.dptr, address);
    ck_assert_uint_eq(params.bytesize, MIB);
    ck_cuda(cuGraphInstantiate(&exec, graph, 0));
    ck_cuda_is(cuMemFreeAsync(address, stream), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuGraphLaunch(exec, stream));
    ck_assert_uint_eq(used_bytes(), MIB);
    ck_cuda_is(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuMemFreeAsync(address, stream));
    ck_cuda(cuGraphLaunch(exec, stream));
    ck_cuda(cuGraphExecDestroy(exec));
    ck_cuda(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    ck_cuda(cuGraphLaunch(exec, stream));
    ck_cuda(cuGraphExecDestroy(exec));
    ck_cuda(cuGraphDestroy(graph));
    ck_assert_uint_eq(used_bytes(), MIB);
    ck_cuda(cuMemFree(address));
    ck_assert_uint_eq(used_bytes(), 0);
    ck_assert_uint_eq(sim_live_allocations(), 0);
    ck_cuda_is(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
}

TEST(memory_that_a_node_frees_is_not_left) {
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr address, freed;
    CUgraphExec exec;
    CUgraph graph = capture_alloc(stream, true, &address);
    CUgraphNode nodes[2];
    size_t n = 2;
    ck_cuda(cuGraphGetNodes(graph, nodes, &n));
    ck_cuda(cuGraphMemFreeNodeGetParams(nodes[1], &freed));
    ck_assert_uint_eq(freed, address);
    ck_cuda_is(cuGraphMemFreeNodeGetParams(nodes[0], &freed), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuGraphInstantiate(&exec, graph, 0));
    for (unsigned i = 0; i < 3; i++)
        ck_cuda(cuGraphLaunch(exec, stream));
    ck_assert_uint_eq(used_bytes(), 0);
    ck_cuda(cuGraphExecDestroy(exec));
    ck_cuda(cuGraphDestroy(graph));
    ck_cuda(cuStreamSynchronize(stream));
    ck_assert_uint_eq(sim_live_allocations(), 0);
}

SUITE() {
    return tests_run("sim graph");
}
