/* Modules, functions, prepared launches: K1 to K7. */
#include "tests/companion/fixture.h"

#include <string.h>

#include "tests/companion/fixture_cuda.h"

static struct cushim_module *m;

static struct cushim_function *function(const char *name) {
    struct cushim_function *f;
    if (!m)
        fixture_ok(cushim_module_load(NULL, fixture_image(), 0, NULL, &m));
    fixture_ok(cushim_module_function(m, name, &f));
    return f;
}

/* The next case in the process starts from 0. */
static void unload(void) {
    fixture_ok(cushim_module_unload(m));
    m = NULL;
}

static struct cushim_launch shape(unsigned grid, unsigned x, unsigned y, struct cushim_stream *s) {
    struct cushim_launch launch;
    cushim_launch_default(&launch);
    launch.grid[0] = grid;
    launch.block[0] = x;
    launch.block[1] = y;
    launch.stream = s;
    return launch;
}

static cushim_devptr block_of(const void *bytes, size_t n_bytes) {
    cushim_devptr p;
    fixture_ok(cushim_memory_alloc(NULL, n_bytes, &p));
    if (bytes)
        fixture_ok(cushim_memory_h2d(p, bytes, n_bytes));
    else
        fixture_ok(cushim_memory_set8(p, 0, n_bytes));
    fixture_ok(cushim_stream_synchronize(NULL)); /* because a set returns before it is done */
    return p;
}

static void fill_randomly(float *x, size_t n, uint32_t seed) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 16777216.0f;
    }
}

TEST(case_K1_products_are_exact_also_at_an_offset_of_one_element) {
    float a[400], b[400], got[400];
    struct cushim_function *multiply = function("multiply");
    struct cushim_launch launch = shape(1, 400, 1, NULL);
    fill_randomly(a, 400, 1);
    fill_randomly(b, 400, 2);
    cushim_devptr dest = block_of(NULL, sizeof got), pa = block_of(a, sizeof a),
                  pb = block_of(b, sizeof b), second = pa + sizeof *a;
    fixture_ok(cushim_function_launch(multiply, &launch, (const void *[]){&dest, &pa, &pb}, 3));
    fixture_ok(cushim_memory_d2h(got, dest, sizeof got));
    for (int i = 0; i < 400; i++)
        ck_assert(got[i] == a[i] * b[i]);
    launch.block[0] = 399;
    launch.grid[0] = launch.grid[1] = launch.grid[2] = 0; /* 0 is 1 */
    fixture_ok(cushim_function_launch(multiply, &launch, (const void *[]){&dest, &second, &pb}, 3));
    fixture_ok(cushim_memory_d2h(got, dest, sizeof got));
    for (int i = 0; i < 399; i++)
        ck_assert(got[i] == a[i + 1] * b[i]);
    fixture_ok(cushim_memory_free(dest));
    fixture_ok(cushim_memory_free(pa));
    fixture_ok(cushim_memory_free(pb));
    unload();
}

TEST(case_K2_a_struct_is_passed_by_value) {
    struct {
        float x, y, z;
    } three = {1, 2, 3}, other = {0, 1, 2}, got[400];
    struct cushim_launch launch = shape(4, 100, 1, NULL);
    struct cushim_prepared *store, *empty;
    cushim_devptr dst = block_of(NULL, sizeof got);
    fixture_ok(cushim_function_prepare(function("store3"), "P{12,4}", &store));
    fixture_ok(cushim_function_prepare(function("empty"), "{12,4}", &empty));
    fixture_ok(cushim_prepared_launch(store, &launch, (const void *[]){&dst, &three}));
    fixture_ok(cushim_prepared_launch(empty, &launch, (const void *[]){&other}));
    fixture_ok(cushim_memory_d2h(got, dst, sizeof got));
    for (int i = 0; i < 400; i++)
        ck_assert(got[i].x == 1 && got[i].y == 2 && got[i].z == 3);
    fixture_ok(cushim_prepared_destroy(empty));
    fixture_is(cushim_function_prepare(function("store3"), "P{16,4}", &empty), CUSHIM_INVALID);
    fixture_said("index=1");
    fixture_ok(cushim_memory_free(dst));
    unload();
    fixture_is(cushim_prepared_launch(store, &launch, (const void *[]){&dst, &three}),
               CUSHIM_BADHANDLE);
    fixture_ok(cushim_prepared_destroy(store));
    fixture_is(cushim_prepared_destroy(store), CUSHIM_BADHANDLE);
}

TEST(case_K2_a_format_is_laid_out_as_the_kernels_parameters) {
    uint64_t got[5], zero[5] = {0};
    uint8_t a = 7;
    uint16_t b = 300;
    struct {
        uint32_t c;
        uint64_t d;
    } s = {70000, UINT64_C(1) << 40};
    uint32_t e = 9;
    struct cushim_launch launch = shape(1, 1, 1, NULL);
    struct cushim_function *mixed = function("mixed");
    struct cushim_prepared *q;
    cushim_devptr dst = block_of(zero, sizeof zero);
    fixture_ok(cushim_function_prepare(mixed, "PBH{16,8}I", &q));
    fixture_ok(cushim_prepared_launch(q, &launch, (const void *[]){&dst, &a, &b, &s, &e}));
    fixture_ok(cushim_memory_d2h(got, dst, sizeof got));
    ck_assert_uint_eq(got[0], 7);
    ck_assert_uint_eq(got[1], 300);
    ck_assert_uint_eq(got[2], 70000);
    ck_assert_uint_eq(got[3], UINT64_C(1) << 40);
    ck_assert_uint_eq(got[4], 9);
    struct {
        uint64_t dst;
        uint8_t a;
        uint16_t b;
        uint32_t unused;
        uint32_t c;
        uint32_t unused_too;
        uint64_t d;
        uint32_t e;
    } whole;
    memset(&whole, 0, sizeof whole);
    whole.dst = dst;
    whole.a = 8;
    whole.b = 301;
    whole.c = 1;
    whole.d = 2;
    whole.e = 3;
    ck_assert_uint_eq(offsetof(__typeof__(whole), e), 32);
    fixture_ok(cushim_function_launch_packed(mixed, &launch, &whole, 36));
    fixture_ok(cushim_memory_d2h(got, dst, sizeof got));
    ck_assert_uint_eq(got[0], 8);
    ck_assert_uint_eq(got[1], 301);
    ck_assert_uint_eq(got[2], 1);
    ck_assert_uint_eq(got[3], 2);
    ck_assert_uint_eq(got[4], 3);
    fixture_is(cushim_function_launch_packed(mixed, &launch, &whole, 40), CUSHIM_INVALID);
    fixture_ok(cushim_prepared_destroy(q));
    fixture_ok(cushim_memory_free(dst));
    unload();
}

TEST(case_K3_copies_and_a_kernel_on_one_stream_are_in_order) {
    enum { N = 32 * 8 };
    float *a, *b, *got;
    struct cushim_stream *s;
    fixture_ok(cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &s));
    fixture_ok(cushim_host_alloc(NULL, N * sizeof *a, 0, (void **)&a));
    fixture_ok(cushim_host_alloc(NULL, N * sizeof *b, 0, (void **)&b));
    fixture_ok(cushim_host_alloc(NULL, N * sizeof *got, 0, (void **)&got));
    fill_randomly(a, N, 3);
    fill_randomly(b, N, 4);
    cushim_devptr dest = block_of(NULL, N * sizeof *a), pa = block_of(NULL, N * sizeof *a),
                  pb = block_of(NULL, N * sizeof *a);
    fixture_ok(cushim_memory_h2d_async(pa, a, N * sizeof *a, s));
    fixture_ok(cushim_memory_h2d_async(pb, b, N * sizeof *b, s));
    struct cushim_launch launch = shape(8, 32, 1, s);
    fixture_ok(cushim_function_launch(function("multiply"), &launch,
                                      (const void *[]){&dest, &pa, &pb}, 3));
    fixture_ok(cushim_memory_d2h_async(got, dest, N * sizeof *got, s));
    fixture_ok(cushim_stream_synchronize(s));
    for (int i = 0; i < N; i++)
        ck_assert(got[i] == a[i] * b[i]);
    fixture_ok(cushim_host_free(a));
    fixture_ok(cushim_host_free(b));
    fixture_ok(cushim_host_free(got));
    fixture_ok(cushim_memory_free(dest));
    fixture_ok(cushim_memory_free(pa));
    fixture_ok(cushim_memory_free(pb));
    fixture_ok(cushim_stream_destroy(s));
    unload();
}

TEST(case_K4_a_prepared_kernel_doubles_its_argument) {
    float a[16], got[16];
    struct cushim_prepared *q;
    struct cushim_launch launch = shape(1, 4, 4, NULL);
    launch.shared_bytes = 20;
    fill_randomly(a, 16, 5);
    cushim_devptr p = block_of(a, sizeof a), second = p + sizeof *a;
    fixture_ok(cushim_function_prepare(function("twice"), "P", &q));
    fixture_ok(cushim_prepared_launch(q, &launch, (const void *[]){&p}));
    fixture_ok(cushim_memory_d2h(got, p, sizeof got));
    for (int i = 0; i < 16; i++)
        ck_assert(got[i] == 2 * a[i]);
    launch.block[0] = 15;
    launch.block[1] = 1;
    fixture_ok(cushim_prepared_launch(q, &launch, (const void *[]){&second}));
    fixture_ok(cushim_memory_d2h(got, p, sizeof got));
    ck_assert(got[0] == 2 * a[0]);
    for (int i = 1; i < 16; i++)
        ck_assert(got[i] == 4 * a[i]);
    fixture_ok(cushim_prepared_destroy(q));
    fixture_ok(cushim_memory_free(p));
    unload();
}

TEST(case_K5_variables_and_shared_memory) {
    float table[32], got[32];
    uint32_t words[4000];
    struct cushim_launch launch = shape(1, 32, 1, NULL);
    cushim_devptr variable, again, dst = block_of(NULL, sizeof words);
    size_t bytes = 0;
    int shared = 0, threads = 0;
    struct cushim_function *constants = function("constants"), *mirror = function("mirror");
    fill_randomly(table, 32, 6);
    fixture_ok(cushim_module_global(m, "table", &variable, &bytes));
    ck_assert_uint_eq(bytes, 128);
    fixture_ok(cushim_module_global(m, "table", &again, NULL));
    ck_assert_uint_eq(again, variable);
    fixture_ok(cushim_memory_h2d(variable, table, sizeof table));
    fixture_is(cushim_memory_free(variable), CUSHIM_STATE);
    fixture_ok(cushim_function_launch(constants, &launch, (const void *[]){&dst}, 1));
    fixture_ok(cushim_memory_d2h(got, dst, sizeof got));
    ck_assert_mem_eq(got, table, sizeof table);
    fixture_ok(cushim_function_attribute(mirror, 1, &shared));
    ck_assert_int_eq(shared, 16000);
    fixture_ok(cushim_function_attribute(mirror, 0, &threads));
    ck_assert_int_ge(threads, 1000);
    launch.block[0] = 1000;
    fixture_ok(cushim_function_launch(mirror, &launch, (const void *[]){&dst}, 1));
    fixture_ok(cushim_memory_d2h(words, dst, sizeof words));
    for (uint32_t i = 0; i < 4000; i++)
        ck_assert_uint_eq(words[i], 4 * (999 - i / 4) + i % 4);
    fixture_ok(cushim_memory_free(dst));
    unload();
}

TEST(case_K6_linked_code_calls_a_function_of_another_input) {
    const struct cushim_link_input both[] = {
        {CUSHIM_LINK_PTX, fixture_image_caller(), 0, "caller"},
        {CUSHIM_LINK_PTX, fixture_image_callee(), strlen(fixture_image_callee()), NULL}};
    struct cushim_module *linked;
    struct cushim_function *caller;
    struct cushim_launch launch = shape(1, 1, 1, NULL);
    uint32_t word = 0;
    cushim_devptr dst = block_of(NULL, sizeof word);
    fixture_ok(cushim_module_link(NULL, both, 2, NULL, &linked));
    fixture_ok(cushim_module_function(linked, "caller", &caller));
    fixture_ok(cushim_function_launch(caller, &launch, (const void *[]){&dst}, 1));
    fixture_ok(cushim_memory_d2h(&word, dst, sizeof word));
    ck_assert_uint_eq(word, 4711);
    fixture_ok(cushim_module_unload(linked));
    enum cushim_status status = cushim_module_link(NULL, both, 1, NULL, &linked);
    ck_assert_msg(status == CUSHIM_COMPILE || status == CUSHIM_NOTFOUND, "%s: %s",
                  cushim_status_name(status), cushim_last_error());
    fixture_said("answer");
    ck_assert_ptr_null(linked);
    fixture_is(cushim_module_link(NULL, both, 0, NULL, &linked), CUSHIM_INVALID);
    fixture_ok(cushim_memory_free(dst));
}

TEST(case_K7_errors_are_named) {
    struct cushim_module *wrong;
    struct cushim_function *missing, *twice;
    struct cushim_prepared *q;
    struct cushim_launch launch = shape(1, 0, 1, NULL);
    cushim_devptr p = block_of(NULL, 64);
    fixture_is(cushim_module_load(NULL, fixture_image_wrong(), 0, NULL, &wrong), CUSHIM_COMPILE);
    fixture_said("line 5");
    ck_assert_ptr_null(wrong);
    twice = function("twice");
    fixture_is(cushim_module_function(m, "no_such_kernel", &missing), CUSHIM_NOTFOUND);
    fixture_said("no_such_kernel");
    fixture_is(cushim_function_launch(twice, &launch, (const void *[]){&p}, 1), CUSHIM_INVALID);
    fixture_said("block=0,1,1");
    launch.block[0] = 1;
    fixture_is(cushim_function_launch(twice, &launch, (const void *[]){&p, &p}, 2), CUSHIM_INVALID);
    fixture_is(cushim_function_prepare(twice, "PP", &q), CUSHIM_INVALID);
    fixture_said("index=1");
    fixture_is(cushim_function_prepare(twice, "x", &q), CUSHIM_INVALID);
    fixture_said("index=0");
    fixture_is(cushim_function_prepare(twice, "", &q), CUSHIM_INVALID);
    fixture_ok(cushim_memory_free(p));
    unload();
    fixture_is(cushim_function_launch(twice, &launch, (const void *[]){&p}, 1), CUSHIM_BADHANDLE);
}

TEST(case_K7_a_timed_launch_takes_as_long_as_its_kernel) {
    uint64_t ns = 10 * 1000 * 1000, unused = 0;
    struct cushim_launch launch = shape(1, 1, 1, NULL);
    float ms = 0;
    int blocks = 0, grid = 0, block = 0;
    struct cushim_function *spin = function("spin");
    fixture_ok(cushim_function_launch_timed(spin, &launch, (const void *[]){&ns, &unused}, 2, &ms));
    fixture_ok(cushim_function_launch_timed(spin, &launch, (const void *[]){&ns, &unused}, 2, &ms));
    ck_assert_msg(ms >= 9 && ms < 60, "%f ms", (double)ms);
    launch.cooperative = 1;
    fixture_ok(cushim_function_launch_timed(spin, &launch, (const void *[]){&ns, &unused}, 2, &ms));
    fixture_ok(cushim_function_occupancy(spin, 256, 0, &blocks));
    ck_assert_int_ge(blocks, 1);
    fixture_ok(cushim_function_suggest(spin, 0, 128, &grid, &block));
    ck_assert_int_ge(grid, 1);
    ck_assert_int_le(block, 128);
    fixture_ok(cushim_function_attribute_set(spin, 8, 49152));
    fixture_ok(cushim_function_cache(spin, 1));
    unload();
}

TEST(case_K7_a_graph_keeps_the_module_of_its_kernels) {
    struct cushim_stream *s;
    CUgraph g;
    CUgraphExec x;
    struct cushim_function *count = function("count");
    uint32_t n = 0;
    struct CUstream_st *handle;
    cushim_devptr p = block_of(NULL, sizeof n);
    fixture_ok(cushim_device_set(0)); /* for the raw calls below */
    fixture_ok(cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &s));
    struct cushim_launch launch = shape(1, 3, 1, s);
    fixture_capture_begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
    fixture_is(cushim_module_unload(m), CUSHIM_CAPTURE);
    fixture_ok(cushim_function_launch(count, &launch, (const void *[]){&p}, 1));
    launch.stream = NULL;
    fixture_is(cushim_function_launch(count, &launch, (const void *[]){&p}, 1), CUSHIM_CAPTURE);
    float ms;
    launch.stream = s;
    fixture_is(cushim_function_launch_timed(count, &launch, (const void *[]){&p}, 1, &ms),
               CUSHIM_CAPTURE);
    g = fixture_capture_end(s);
    FIXTURE_CU(cuGraphInstantiateWithFlags, &x, g, 0);
    unload();
    fixture_is(cushim_function_launch(count, &launch, (const void *[]){&p}, 1), CUSHIM_BADHANDLE);
    fixture_ok(cushim_stream_handle(s, &handle));
    FIXTURE_CU(cuGraphLaunch, x, handle);
    FIXTURE_CU(cuGraphLaunch, x, handle);
    fixture_ok(cushim_stream_synchronize(s));
    fixture_ok(cushim_memory_d2h(&n, p, sizeof n));
    ck_assert_uint_eq(n, 6);
    FIXTURE_CU(cuGraphDestroy, g);
    FIXTURE_CU(cuGraphExecDestroy, x);
    fixture_ok(cushim_stream_destroy(s));
    fixture_ok(cushim_memory_free(p));
}

int main(int argc, char **argv) {
    return fixture_main(argc, argv);
}
