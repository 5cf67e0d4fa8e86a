/* Graphs and executables: launches, updates, node memory, queries, handles. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cushim/device.h"
#include "tests/unit/companion/graph/graph_fixture.h"

TEST(flags_are_checked_without_a_driver_call) {
    struct cushim_stream *stream = make_stream();
    struct cushim_graph *graph = capture_set(stream, make_block(), 1);
    struct cushim_graphexec *exec;
    SIM(sim_calls_reset)();
    ck_assert_int_eq(cushim_graph_instantiate(graph, 16, &exec), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_graph_instantiate(graph, 1 | 4, &exec), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_graph_instantiate(NULL, 0, &exec), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_graph_instantiate(graph, 0, NULL), CUSHIM_INVALID);
    ck_assert_uint_eq(SIM(sim_calls_total)(), 0);
    ck_assert_int_eq(cushim_graph_instantiate(graph, 2 | 8, &exec), CUSHIM_OK);
    ck_assert_uint_eq(SIM(sim_calls)("cuGraphUpload"), 1);
    ck_assert_int_eq(cushim_graphexec_upload(exec, stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_begin(stream, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_graphexec_upload(exec, stream), CUSHIM_CAPTURE);
    ck_assert_int_eq(status_of(stream), 1);
    ck_assert_int_eq(cushim_graph_abort(stream), CUSHIM_OK);
}

TEST(a_launch_is_one_driver_call_beside_the_context_check) {
    struct cushim_stream *stream = make_stream();
    struct cushim_graphexec *exec;
    ck_assert_int_eq(cushim_device_set(0), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_instantiate(capture_set(stream, make_block(), 1), 0, &exec),
                     CUSHIM_OK);
    SIM(sim_calls_reset)();
    ck_assert_int_eq(cushim_graphexec_launch(exec, stream), CUSHIM_OK);
    ck_assert_uint_eq(SIM(sim_calls)("cuGraphLaunch"), 1);
    ck_assert_uint_le(SIM(sim_calls_total)(), 2);
}

TEST(a_stream_of_another_context_is_refused) {
    struct cushim_context *other;
    struct cushim_stream *here = make_stream(), *there;
    struct cushim_graphexec *exec;
    struct cushim_graph *graph;
    cushim_devptr block = make_block(), elsewhere;
    ck_assert_int_eq(cushim_graph_instantiate(capture_set(here, block, 1), 0, &exec), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_create(0, 0, &other), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_create(other, 0, 0, &there), CUSHIM_OK);
    ck_assert_int_eq(cushim_graphexec_launch(exec, there), CUSHIM_BADDEVICE);
    ck_assert_int_eq(cushim_graphexec_launch(exec, (struct cushim_stream *)0x1234),
                     CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_graphexec_launch((struct cushim_graphexec *)0x1234, here),
                     CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_graphexec_launch(NULL, here), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_graph_end(there, &graph), CUSHIM_STATE);
    ck_assert_int_eq(cushim_memory_alloc(other, N_WORDS * sizeof(uint32_t), &elsewhere), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_begin(there, NULL), CUSHIM_OK);
    set(there, elsewhere, 1);
    ck_assert_int_eq(cushim_graph_end(there, &graph), CUSHIM_OK);
    ck_assert_int_eq(cushim_graphexec_update(exec, graph, NULL), CUSHIM_BADDEVICE);
}

TEST(an_update_sets_new_parameters_or_changes_nothing) {
    struct cushim_stream *stream = make_stream();
    cushim_devptr block = make_block();
    struct cushim_graphexec *exec;
    struct cushim_graph *first = capture_set(stream, block, 1),
                        *second = capture_set(stream, block, 2), *longer;
    int why = -1;
    ck_assert_int_eq(cushim_graph_begin(stream, NULL), CUSHIM_OK);
    set(stream, block, 3);
    set(stream, block, 4);
    ck_assert_int_eq(cushim_graph_end(stream, &longer), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_instantiate(first, 0, &exec), CUSHIM_OK);
    ck_assert_int_eq(cushim_graphexec_update(exec, longer, &why), CUSHIM_UPDATE);
    ck_assert_int_ne(why, 0);
    run(exec, stream);
    ck_assert_uint_eq(first_word(block), 1);
    ck_assert_int_eq(cushim_graphexec_update(exec, second, &why), CUSHIM_OK);
    ck_assert_int_eq(why, 0);
    run(exec, stream);
    ck_assert_uint_eq(first_word(block), 2);
    ck_assert_int_eq(cushim_graphexec_update(exec, NULL, NULL), CUSHIM_INVALID);
    cushim_graph_destroy(second);
    ck_assert_int_eq(cushim_graphexec_update(exec, second, &why), CUSHIM_BADHANDLE);
}

static cushim_devptr capture_nodes(struct cushim_stream *stream, struct cushim_graph **graph) {
    cushim_devptr block;
    ck_assert_int_eq(cushim_graph_begin(stream, NULL), CUSHIM_OK);
    struct CUstream_st *handle;
    cushim_stream_handle(stream, &handle);
    CUdeviceptr address;
    ck_assert_int_eq(SIM(cuMemAllocAsync)(&address, N_BYTES, handle), CUDA_SUCCESS);
    block = address;
    ck_assert_int_eq(SIM(cuMemsetD32Async)(address, 6, N_WORDS, handle), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_graph_end(stream, graph), CUSHIM_OK);
    return block;
}

TEST(node_memory_allows_one_executable_and_one_unfreed_launch) {
    struct cushim_stream *stream = make_stream();
    struct cushim_graph *graph;
    struct cushim_graphexec *exec, *second;
    size_t used;
    cushim_devptr block = capture_nodes(stream, &graph);
    ck_assert_int_eq(cushim_graph_instantiate(graph, 0, &exec), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_instantiate(graph, 0, &second), CUSHIM_STATE);
    run(exec, stream);
    ck_assert_uint_eq(first_word(block), 6);
    ck_assert_int_eq(cushim_graph_memory(0, &used, NULL), CUSHIM_OK);
    ck_assert_uint_ge(used, N_BYTES);
    ck_assert_int_eq(cushim_graphexec_launch(exec, stream), CUSHIM_STATE);
    ck_assert_int_eq(SIM(cuMemFree_v2)(block), CUDA_SUCCESS);
    run(exec, stream);
    ck_assert_int_eq(SIM(cuMemFree_v2)(block), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_graphexec_destroy(exec), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_instantiate(graph, CUSHIM_GRAPH_FLAG_AUTO_FREE, &exec),
                     CUSHIM_OK);
    for (unsigned i = 0; i < 3; i++)
        run(exec, stream);
    ck_assert_int_eq(SIM(cuMemFree_v2)(block), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_graph_memory(0, &used, NULL), CUSHIM_OK);
    ck_assert_uint_eq(used, 0);
    ck_assert_int_eq(cushim_graph_memory_trim(-1), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_memory(9, &used, NULL), CUSHIM_BADDEVICE);
}

/* Memory of an allocation node can be freed after a launch like other memory, and the next launch
 * allocates it again. */
TEST(memory_that_a_launch_left_is_freed_in_stream_order) {
    struct cushim_stream *stream = make_stream();
    struct cushim_graph *graph;
    struct cushim_graphexec *exec;
    cushim_devptr block;
    size_t n_bytes;
    ck_assert_int_eq(cushim_graph_begin(stream, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_alloc_async(stream, N_BYTES, &block), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_set32_async(block, 6, N_WORDS, stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_end(stream, &graph), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_instantiate(graph, 0, &exec), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_free_async(block, stream), CUSHIM_STATE); /* not launched */
    for (unsigned i = 0; i < 3; i++) {
        run(exec, stream);
        ck_assert_uint_eq(first_word(block), 6);
        ck_assert_int_eq(cushim_memory_free_async(block, stream), CUSHIM_OK);
        ck_assert_int_eq(cushim_memory_free_async(block, stream), CUSHIM_STATE);
        /* still owned by the graph */
        ck_assert_int_eq(cushim_memory_size(block, &n_bytes), CUSHIM_OK);
    }
    ck_assert_int_eq(cushim_graphexec_destroy(exec), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_OK);
}

/* ---- queries and handles ---- */

TEST(nodes_are_counted_by_kind_and_written_as_dot) {
    struct cushim_stream *stream = make_stream();
    cushim_devptr a = make_block(), b = make_block();
    struct cushim_graph *graph;
    struct cushim_graph_info info = {.struct_size = sizeof info};
    char path[] = "/tmp/cushim-graph-XXXXXX", text[64] = "";
    ck_assert_int_eq(cushim_graph_begin(stream, NULL), CUSHIM_OK);
    set(stream, a, 1);
    set(stream, b, 1);
    ck_assert_int_eq(cushim_memory_d2d_async(a, b, N_BYTES, stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_end(stream, &graph), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_info(graph, &info), CUSHIM_OK);
    ck_assert_uint_eq(info.nodes, 3);
    ck_assert_uint_eq(info.sets, 2);
    ck_assert_uint_eq(info.copies, 1);
    ck_assert_uint_eq(info.kernels + info.hosts + info.children + info.others, 0);
    info.struct_size = 4;
    ck_assert_int_eq(cushim_graph_info(graph, &info), CUSHIM_ABI);
    close(mkstemp(path));
    ck_assert_int_eq(cushim_graph_dot(graph, path, 1), CUSHIM_OK);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(fgets(text, sizeof text, file));
    ck_assert_ptr_nonnull(strstr(text, "digraph"));
    fclose(file);
    unlink(path);
    ck_assert_int_eq(cushim_graph_dot(graph, "/nowhere/graph.dot", 0), CUSHIM_NOFILE);
    ck_assert_int_eq(cushim_graph_dot(graph, NULL, 0), CUSHIM_INVALID);
}

TEST(a_wrapped_graph_still_belongs_to_its_creator) {
    struct cushim_graph *graph;
    struct cushim_graphexec *exec;
    struct CUgraph_st *handle;
    struct CUgraphExec_st *of_exec;
    CUgraph made;
    CUgraphNode node;
    size_t n = 0;
    ck_assert_int_eq(cushim_device_set(0), CUSHIM_OK);
    ck_assert_int_eq(SIM(cuGraphCreate)(&made, 0), CUDA_SUCCESS);
    ck_assert_int_eq(SIM(cuGraphAddEmptyNode)(&node, made, NULL, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_graph_wrap(NULL, &graph), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_graph_wrap(made, &graph), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_handle(graph, &handle), CUSHIM_OK);
    ck_assert_ptr_eq(handle, made);
    ck_assert_int_eq(cushim_graph_instantiate(graph, 0, &exec), CUSHIM_OK);
    ck_assert_int_eq(cushim_graphexec_handle(exec, &of_exec), CUSHIM_OK);
    ck_assert_int_eq(SIM(cuGraphLaunch)(of_exec, NULL), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_OK);
    ck_assert_int_eq(cushim_graphexec_destroy(exec), CUSHIM_OK);
    ck_assert_int_eq(SIM(cuGraphGetNodes)(made, NULL, &n), CUDA_SUCCESS);
    ck_assert_uint_eq(n, 1);
    ck_assert_int_eq(SIM(cuGraphDestroy)(made), CUDA_SUCCESS);
}

TEST(a_dead_context_ends_its_captures_and_its_graphs) {
    struct cushim_context *context;
    struct cushim_stream *stream, *other;
    struct cushim_graphexec *exec;
    struct cushim_graph *graph, *none;
    cushim_devptr block;
    ck_assert_int_eq(cushim_context_create(0, CUSHIM_CONTEXT_FLAG_PUSH, &context), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_create(context, 0, 0, &stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_create(context, 0, 0, &other), CUSHIM_OK);
    block = make_block();
    graph = capture_set(stream, block, 1);
    ck_assert_int_eq(cushim_graph_instantiate(graph, 0, &exec), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_begin(other, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_destroy(context), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_end(other, &none), CUSHIM_DEADCONTEXT);
    ck_assert_int_eq(cushim_graphexec_launch(exec, stream), CUSHIM_DEADCONTEXT);
    ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_OK);
    ck_assert_int_eq(cushim_graphexec_destroy(exec), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_BADHANDLE);
}

/* Create a graph and destroy it; the n-th driver call of the end fails (0: none does). */
static void make_and_end(struct cushim_stream *stream, cushim_devptr block, unsigned long n) {
    struct cushim_graph *graph = capture_set(stream, block, 1);
    struct cushim_graphexec *exec;
    ck_assert_int_eq(cushim_graph_instantiate(graph, 0, &exec), CUSHIM_OK);
    SIM(sim_calls_reset)();
    SIM(sim_fail_at)(n, CUDA_ERROR_INVALID_VALUE);
    cushim_graphexec_destroy(exec);
    cushim_graph_destroy(graph);
    ck_assert_int_eq(SIM(sim_has_failed)(), n != 0);
    ck_assert_uint_eq(SIM(sim_calls)("cuGraphExecDestroy"), 1);
    ck_assert_uint_eq(SIM(sim_calls)("cuGraphDestroy"), 1);
}

/* The error may come from earlier work although the object is gone, and its handle may belong to
 * another object by then. */
TEST(whatever_the_driver_returns_it_is_asked_only_once_to_destroy_a_graph) {
    struct cushim_stream *stream = make_stream();
    cushim_devptr block = make_block();
    unsigned long places[2] = {0, 0};
    const char *name;
    make_and_end(stream, block, 0);
    for (unsigned long i = 0; (name = SIM(sim_call_name)(i)); i++) {
        if (strcmp(name, "cuGraphExecDestroy") == 0)
            places[0] = i + 1;
        if (strcmp(name, "cuGraphDestroy") == 0)
            places[1] = i + 1;
    }
    make_and_end(stream, block, places[0]);
    make_and_end(stream, block, places[1]);
}

SUITE() {
    return tests_run("graph_exec");
}
