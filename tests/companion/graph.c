/* Graphs: cases G1 to G8, and the other guarantees of 2.11. */
#include "tests/companion/fixture.h"

#include <pthread.h>
#include <string.h>

enum { N = 4, WORDS = 256, BYTES = 4 * WORDS, N_OUTSIDE = 1000, PATIENCE_MS = 2000 };

static struct cushim_stream *make_stream(void) {
    struct cushim_stream *stream;
    fixture_ok(cushim_device_set(0));
    fixture_ok(cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &stream));
    return stream;
}

static struct cushim_pool *make_pool(void) {
    struct cushim_pool *pool;
    fixture_ok(cushim_pool_create(NULL, &pool));
    return pool;
}

static struct cushim_pool_stats stats_of(struct cushim_pool *pool) {
    struct cushim_pool_stats stats = {.struct_size = sizeof stats};
    fixture_ok(cushim_pool_stats(pool, -1, CUSHIM_MEMORY_DEVICE, &stats));
    return stats;
}

static int n_frozen(struct cushim_pool *pool) {
    int n = -1;
    fixture_ok(cushim_pool_frozen(pool, &n));
    return n;
}

static cushim_devptr alloc_on(struct cushim_pool *pool, size_t bytes, struct cushim_stream *s) {
    cushim_devptr block = 0;
    fixture_ok(cushim_pool_alloc(pool, 0, CUSHIM_MEMORY_DEVICE, bytes, s, &block));
    ck_assert_uint_ne(block, 0);
    return block;
}

static void attach_pool(struct cushim_graph_options *options, struct cushim_pool *const *pool,
                        int memory) {
    cushim_graph_options_default(options);
    options->pools = pool;
    options->n_pools = 1;
    options->memory = memory;
}

static void launch(struct cushim_graphexec *exec, struct cushim_stream *stream) {
    fixture_ok(cushim_graphexec_launch(exec, stream));
    fixture_ok(cushim_stream_synchronize(stream));
}

static void fill(struct cushim_stream *stream, cushim_devptr dst, uint32_t value) {
    uint64_t n = WORDS;
    void *args[] = {&dst, &value, &n};
    fixture_launch(stream, "fill", 1, WORDS, args);
}

static uint32_t first_word(cushim_devptr block) {
    uint32_t word;
    fixture_ok(cushim_memory_d2h(&word, block, sizeof word));
    return word;
}

/* ---- G1 ---- */

static cushim_devptr floats(const float values[N]) {
    cushim_devptr block;
    fixture_ok(cushim_memory_alloc(NULL, N * sizeof *values, &block));
    fixture_ok(cushim_memory_h2d(block, values, N * sizeof *values));
    return block;
}

static void assert_floats(cushim_devptr block, const float wanted[N]) {
    float got[N];
    fixture_ok(cushim_memory_d2h(got, block, sizeof got));
    for (unsigned i = 0; i < N; i++)
        ck_assert_float_eq(got[i], wanted[i]);
}

TEST(case_G1_a_graph_computes_with_the_current_content_of_its_buffers) {
    struct cushim_stream *stream = make_stream();
    const float more[N] = {5, 6, 7, 8};
    cushim_devptr a = floats((const float[N]){1, 2, 3, 4}),
                  b = floats((const float[N]){10, 20, 30, 40}), c = floats((const float[N]){0}),
                  zeroed;
    uint64_t n = N;
    void *args[] = {&c, &a, &b, &n};
    struct cushim_graph *graph;
    struct cushim_graphexec *exec;
    fixture_kernel("add");
    fixture_ok(cushim_graph_begin(stream, NULL));
    fixture_launch(stream, "add", 1, 32, args);
    fixture_ok(cushim_graph_end(stream, &graph));
    fixture_ok(cushim_graph_instantiate(graph, 0, &exec));
    launch(exec, stream);
    assert_floats(c, (const float[N]){11, 22, 33, 44});
    fixture_ok(cushim_memory_h2d(a, more, sizeof more));
    launch(exec, stream);
    assert_floats(c, (const float[N]){15, 26, 37, 48});
    fixture_ok(cushim_graphexec_destroy(exec));
    fixture_ok(cushim_graph_destroy(graph));
    zeroed = floats((const float[N]){0});
    assert_floats(zeroed, (const float[N]){0});
    fixture_ok(cushim_memory_free(a));
    fixture_ok(cushim_memory_free(b));
    fixture_ok(cushim_memory_free(c));
    fixture_ok(cushim_memory_free(zeroed));
    fixture_ok(cushim_stream_destroy(stream));
}

/* ---- G2 ---- */

static int fill_and_fail(struct cushim_stream *stream, void *cookie) {
    fill(stream, *(cushim_devptr *)cookie, 1);
    return 7;
}

TEST(case_G2_a_callback_that_fails_ends_the_capture) {
    struct cushim_stream *stream = make_stream();
    struct cushim_pool *pool = make_pool();
    cushim_devptr block = alloc_on(pool, BYTES, stream);
    struct cushim_graph_options options;
    struct cushim_graph *graph;
    struct cushim_graphexec *exec;
    int result = 0, status = -1;
    fixture_kernel("fill");
    attach_pool(&options, &pool, CUSHIM_GRAPH_MEMORY_HOLD);
    fixture_is(
        cushim_graph_capture(stream, &options, fill_and_fail, &block, &result, &graph, &exec),
        CUSHIM_CALLBACK);
    ck_assert_int_eq(result, 7);
    ck_assert_ptr_null(graph);
    ck_assert_ptr_null(exec);
    fixture_ok(cushim_graph_status(stream, &status));
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(n_frozen(pool), 0);
    fixture_ok(cushim_pool_free(pool, 0, block, BYTES, stream));
    block = alloc_on(pool, BYTES, stream);
    fill(stream, block, 5);
    fixture_ok(cushim_stream_synchronize(stream));
    ck_assert_uint_eq(first_word(block), 5);
    fixture_ok(cushim_pool_free(pool, 0, block, BYTES, stream));
    fixture_ok(cushim_pool_destroy(pool));
}

/* ---- G3 ---- */

TEST(case_G3_an_empty_capture_is_an_error_unless_allowed) {
    struct cushim_stream *stream = make_stream();
    struct cushim_pool *pool = make_pool();
    struct cushim_graph_options options;
    struct cushim_graph *graph;
    fixture_ok(cushim_graph_begin(stream, NULL));
    fixture_is(cushim_graph_end(stream, &graph), CUSHIM_EMPTYGRAPH);
    attach_pool(&options, &pool, CUSHIM_GRAPH_MEMORY_HOLD);
    options.allow_empty = 1;
    fixture_ok(cushim_graph_begin(stream, &options));
    ck_assert_int_eq(n_frozen(pool), 1);
    fixture_ok(cushim_graph_end(stream, &graph));
    ck_assert_int_eq(n_frozen(pool), 0);
    fixture_ok(cushim_graph_destroy(graph));
    fixture_is(cushim_graph_begin(NULL, &options), CUSHIM_INVALID);
    ck_assert_int_eq(n_frozen(pool), 0);
    fixture_ok(cushim_pool_destroy(pool));
}

/* ---- G4 ---- */

TEST(case_G4_node_memory_never_enters_a_cache) {
    struct cushim_stream *stream = make_stream();
    struct cushim_pool *pool = make_pool();
    struct cushim_graph_options options;
    struct cushim_graph *graph;
    cushim_devptr node, other;
    attach_pool(&options, &pool, CUSHIM_GRAPH_MEMORY_NODES);
    fixture_ok(cushim_graph_begin(stream, &options));
    node = alloc_on(pool, 128, stream);
    fixture_ok(cushim_memory_set8_async(node, 1, 128, stream));
    fixture_ok(cushim_graph_end(stream, &graph));
    fixture_is(cushim_pool_free(pool, 0, node, 128, stream), CUSHIM_STATE);
    ck_assert_uint_eq(stats_of(pool).cached_blocks, 0);
    other = alloc_on(pool, 128, stream);
    ck_assert_uint_ne(other, node);
    fixture_ok(cushim_pool_free(pool, 0, other, 128, stream));
    fixture_ok(cushim_graph_destroy(graph));
    ck_assert_uint_eq(stats_of(pool).cached_blocks, 1);
    fixture_ok(cushim_pool_destroy(pool));
}

/* ---- G5 ---- */

/* The driver may report the end of a graph from another thread. */
static void wait_for_cached(struct cushim_pool *pool, uint64_t n_blocks) {
    double end_ms = fixture_now_ms() + PATIENCE_MS;
    while (stats_of(pool).cached_blocks != n_blocks && fixture_now_ms() < end_ms)
        ;
    ck_assert_uint_eq(stats_of(pool).cached_blocks, n_blocks);
    ck_assert_uint_eq(stats_of(pool).graph_blocks, 0);
}

TEST(case_G5_held_memory_belongs_to_the_graph_until_its_end) {
    static cushim_devptr outside[N_OUTSIDE];
    struct cushim_stream *stream = make_stream();
    struct cushim_pool *pool = make_pool();
    struct cushim_graph_options options;
    struct cushim_graph *graph;
    struct cushim_graphexec *exec;
    struct cushim_graph_info info = {.struct_size = sizeof info};
    fixture_kernel("fill");
    attach_pool(&options, &pool, CUSHIM_GRAPH_MEMORY_HOLD);
    fixture_ok(cushim_graph_begin(stream, &options));
    cushim_devptr held = alloc_on(pool, BYTES, stream);
    fill(stream, held, 77);
    fixture_ok(cushim_pool_free(pool, 0, held, BYTES, stream));
    fixture_ok(cushim_graph_end(stream, &graph));
    fixture_ok(cushim_graph_info(graph, &info));
    ck_assert_uint_eq(info.pool_bytes, BYTES);
    ck_assert_uint_eq(info.kernels, 1);
    fixture_ok(cushim_graph_instantiate(graph, 0, &exec));
    for (unsigned i = 0; i < N_OUTSIDE; i++) {
        outside[i] = alloc_on(pool, BYTES, stream);
        ck_assert_uint_ne(outside[i], held);
    }
    launch(exec, stream);
    ck_assert_uint_eq(first_word(held), 77);
    fixture_ok(cushim_graph_destroy(graph));
    fixture_ok(cushim_context_synchronize(NULL));
    ck_assert_uint_eq(stats_of(pool).cached_blocks, 0);
    fixture_ok(cushim_graphexec_launch(exec, stream));
    fixture_ok(cushim_graphexec_destroy(exec));
    fixture_ok(cushim_context_synchronize(NULL));
    wait_for_cached(pool, 1);
    for (unsigned i = 0; i < N_OUTSIDE; i++)
        fixture_ok(cushim_pool_free(pool, 0, outside[i], BYTES, stream));
    fixture_ok(cushim_pool_destroy(pool));
}

TEST(case_G5_the_last_launch_keeps_held_memory) {
    struct cushim_stream *stream = make_stream(), *other = make_stream();
    struct cushim_pool *pool = make_pool();
    struct cushim_graph_options options;
    struct cushim_graph *graph;
    struct cushim_graphexec *exec;
    fixture_kernel("fill");
    attach_pool(&options, &pool, CUSHIM_GRAPH_MEMORY_HOLD);
    fixture_ok(cushim_graph_begin(stream, &options));
    cushim_devptr held = alloc_on(pool, BYTES, stream);
    fill(stream, held, 3);
    fixture_ok(cushim_pool_free(pool, 0, held, BYTES, stream));
    fixture_ok(cushim_graph_end(stream, &graph));
    fixture_ok(cushim_graph_instantiate(graph, 0, &exec));
    fixture_spin(stream, 50);
    fixture_ok(cushim_graphexec_launch(exec, stream));
    fixture_ok(cushim_graphexec_destroy(exec));
    fixture_ok(cushim_graph_destroy(graph));
    cushim_devptr block = alloc_on(pool, BYTES, other);
    ck_assert_uint_ne(block, held);
    fixture_ok(cushim_context_synchronize(NULL));
    wait_for_cached(pool, 1);
    fixture_ok(cushim_pool_free(pool, 0, block, BYTES, other));
    fixture_ok(cushim_pool_destroy(pool));
}

/* ---- G6 ---- */

static void *synchronize_elsewhere(void *argument) {
    fixture_ok(cushim_device_set(0));
    *(enum cushim_status *)argument = cushim_context_synchronize(NULL);
    return NULL;
}

static void *free_for_all_elsewhere(void *argument) {
    void **arguments = argument;
    struct cushim_pool *pool = arguments[0];
    cushim_devptr block = *(cushim_devptr *)arguments[1];
    fixture_ok(cushim_device_set(0));
    fixture_ok(cushim_pool_free(pool, 0, block, BYTES, CUSHIM_STREAM_ALL));
    fixture_ok(cushim_pool_trim(pool, -1, SIZE_MAX / 2)); /* polls for completed work */
    return NULL;
}

static void in_thread(void *(*function)(void *), void *argument) {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, function, argument), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

TEST(case_G6_calls_that_would_break_a_capture_are_refused_or_deferred) {
    struct cushim_stream *stream = make_stream();
    struct cushim_pool *pool = make_pool(), *beside = make_pool();
    struct cushim_graph_options options;
    struct cushim_graph *graph;
    enum cushim_status status = CUSHIM_OK;
    cushim_devptr block = 1, kept = alloc_on(beside, BYTES, stream),
                  target = floats((const float[N]){0});
    attach_pool(&options, &pool, CUSHIM_GRAPH_MEMORY_REFUSE);
    fixture_ok(cushim_graph_begin(stream, &options));
    fixture_is(cushim_pool_alloc(pool, 0, CUSHIM_MEMORY_DEVICE, BYTES, stream, &block),
               CUSHIM_CAPTURE);
    ck_assert_uint_eq(block, 0);
    ck_assert_uint_eq(stats_of(pool).misses, 1);
    in_thread(synchronize_elsewhere, &status);
    ck_assert_int_eq(status, CUSHIM_CAPTURE);
    in_thread(free_for_all_elsewhere, (void *[]){beside, &kept});
    ck_assert_uint_eq(stats_of(beside).pending_blocks, 1);
    fixture_ok(cushim_memory_set8_async(target, 0, 1, stream));
    fixture_ok(cushim_graph_end(stream, &graph));
    fixture_ok(cushim_graph_destroy(graph));
    fixture_ok(cushim_memory_free(target));
    fixture_ok(cushim_pool_destroy(pool));
    fixture_ok(cushim_pool_destroy(beside));
}

/* ---- G7 ---- */

struct sending {
    struct cushim_client *client;
    cushim_devptr dst;
};

static int send_and_overwrite(struct cushim_stream *stream, void *cookie) {
    const struct sending *sending = cookie;
    uint32_t words[WORDS];
    (void)stream;
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = i * i;
    fixture_ok(cushim_client_h2d(sending->client, sending->dst, words, BYTES));
    memset(words, 0xff, BYTES);
    return 0;
}

TEST(case_G7_captured_host_bytes_are_kept_unchanged) {
    struct sending sending;
    struct cushim_graph *graph;
    struct cushim_graphexec *exec;
    struct cushim_graph_info info = {.struct_size = sizeof info};
    uint32_t got[WORDS];
    fixture_ok(cushim_client_get(0, &sending.client));
    fixture_ok(cushim_client_alloc(sending.client, BYTES, &sending.dst));
    fixture_ok(cushim_client_capture(sending.client, NULL, send_and_overwrite, &sending, NULL,
                                     &graph, &exec));
    fixture_ok(cushim_graph_info(graph, &info));
    ck_assert_uint_eq(info.host_bytes, BYTES);
    fixture_ok(cushim_graph_destroy(graph));
    struct cushim_stream *compute;
    fixture_ok(cushim_client_compute(sending.client, &compute));
    for (unsigned round = 0; round < 2; round++) {
        memset(got, 0, sizeof got);
        fixture_ok(cushim_client_h2d(sending.client, sending.dst, got, BYTES));
        fixture_ok(cushim_graphexec_launch(exec, compute));
        fixture_ok(cushim_client_d2h(sending.client, got, sending.dst, BYTES));
        for (unsigned i = 0; i < WORDS; i++)
            ck_assert_uint_eq(got[i], i * i);
    }
    fixture_ok(cushim_graphexec_destroy(exec));
    fixture_ok(cushim_client_free(sending.client, sending.dst, BYTES));
    fixture_ok(cushim_client_destroy(sending.client));
}

/* ---- G8 ---- */

TEST(case_G8_node_memory_goes_back_at_the_destroy) {
    enum { N_LAUNCHES = 1000 };
    struct cushim_stream *stream = make_stream();
    struct cushim_pool *pool = make_pool();
    struct cushim_graph_options options;
    struct cushim_graph *graph;
    struct cushim_graphexec *exec;
    size_t before, during, after;
    fixture_ok(cushim_graph_memory(0, &before, NULL));
    attach_pool(&options, &pool, CUSHIM_GRAPH_MEMORY_NODES);
    fixture_ok(cushim_graph_begin(stream, &options));
    cushim_devptr output = alloc_on(pool, 1 << 20, stream);
    fixture_ok(cushim_memory_set8_async(output, 1, 1 << 20, stream));
    fixture_ok(cushim_graph_end(stream, &graph));
    fixture_ok(cushim_graph_instantiate(graph, CUSHIM_GRAPH_FLAG_AUTO_FREE, &exec));
    for (unsigned i = 0; i < N_LAUNCHES; i++)
        fixture_ok(cushim_graphexec_launch(exec, stream));
    fixture_ok(cushim_stream_synchronize(stream));
    fixture_ok(cushim_graph_memory(0, &during, NULL));
    ck_assert_uint_gt(during, before);
    fixture_ok(cushim_graphexec_destroy(exec));
    fixture_ok(cushim_graph_destroy(graph));
    fixture_ok(cushim_context_synchronize(NULL));
    fixture_ok(cushim_graph_memory_trim(0)); /* until then the driver counts freed memory as used */
    fixture_ok(cushim_graph_memory(0, &after, NULL));
    ck_assert_uint_eq(after, before);
    fixture_ok(cushim_pool_destroy(pool));
}

int main(int argc, char **argv) {
    return fixture_main(argc, argv);
}
