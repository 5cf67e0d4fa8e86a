/*
 * Work that is captured once and replayed; a counter on the device distinguishes the replays.
 *
 *   cc -o capture_replay capture_replay.c $(pkg-config --cflags --libs cushim)
 *   ./capture_replay kernels.ptx
 *
 * A graph repeats its arguments unchanged, so values that change from launch to launch have to be
 * in memory: here a counter, which the kernel reads as the index to write to, and increments.  The
 * block that is allocated in the capture belongs to the graph: no other request gets it while the
 * graph lives.  It prints:
 *
 *   captured: 2 nodes
 *   8 launches, counter 8, log 100 101 102 103 104 105 106 107
 */
#include <cushim/cushim.h>

#include "try.h"

enum { LAUNCHES = 8 };

int main(int argc, char **argv) {
    struct cushim_module *module;
    struct cushim_function *advance;
    struct cushim_prepared *call;
    struct cushim_stream *s;
    struct cushim_pool *pool;
    TRY(cushim_module_load_file(NULL, argc > 1 ? argv[1] : "kernels.ptx", NULL, &module));
    TRY(cushim_module_function(module, "advance", &advance));
    TRY(cushim_function_prepare(advance, "PP", &call));
    TRY(cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &s));
    TRY(cushim_pool_create(NULL, &pool));

    cushim_devptr counter, log, scratch;
    TRY(cushim_pool_alloc_on(pool, sizeof(uint32_t), s, &counter));
    TRY(cushim_pool_alloc_on(pool, LAUNCHES * sizeof(uint32_t), s, &log));
    TRY(cushim_memory_set32_async(counter, 0, 1, s));

    struct cushim_graph_options options;
    struct cushim_launch launch;
    const void *args[] = {&counter, &log};
    cushim_graph_options_default(&options);
    options.pools = &pool;
    options.n_pools = 1;
    cushim_launch_default(&launch);
    launch.stream = s;
    TRY(cushim_graph_begin(s, &options));
    TRY(cushim_pool_alloc_on(pool, 4096, s, &scratch));
    TRY(cushim_memory_set8_async(scratch, 0, 4096, s));
    TRY(cushim_prepared_launch(call, &launch, args));
    TRY(cushim_pool_free_on(pool, scratch, s));
    struct cushim_graph *graph;
    TRY(cushim_graph_end(s, &graph));

    struct cushim_graphexec *exec;
    struct cushim_graph_info info = {.struct_size = sizeof info};
    TRY(cushim_graph_info(graph, &info));
    CHECK(info.kernels == 1 && info.sets == 1);
    printf("captured: %d nodes\n", (int)info.nodes);
    TRY(cushim_graph_instantiate(graph, 0, &exec));
    for (int i = 0; i < LAUNCHES; i++)
        TRY(cushim_graphexec_launch(exec, s));
    TRY(cushim_stream_synchronize(s));

    uint32_t count = 0, words[LAUNCHES] = {0};
    TRY(cushim_memory_d2h(&count, counter, sizeof count));
    TRY(cushim_memory_d2h(words, log, sizeof words));
    CHECK(count == LAUNCHES);
    printf("%d launches, counter %d, log", LAUNCHES, (int)count);
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        CHECK(words[i] == 100 + i);
        printf(" %d", (int)words[i]);
    }
    puts("");

    TRY(cushim_graphexec_destroy(exec));
    TRY(cushim_graph_destroy(graph));
    TRY(cushim_pool_free_on(pool, counter, s));
    TRY(cushim_pool_free_on(pool, log, s));
    TRY(cushim_pool_destroy(pool));
    TRY(cushim_stream_destroy(s));
    TRY(cushim_prepared_destroy(call));
    TRY(cushim_module_unload(module));
    return 0;
}
