/* Memory: cases M1 to M4, C4, and the other guarantees of 2.4. */
#include "tests/companion/fixture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_FLOATS = 400, N_DOUBLES = 128, PAGE_BYTES = 4096 };

static void fill_random(float *values, size_t n) {
    unsigned state = 12345;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)state / 4294967296.0f;
    }
}

static cushim_devptr alloc(size_t bytes) {
    cushim_devptr p = 0;
    fixture_ok(cushim_memory_alloc(NULL, bytes, &p));
    ck_assert_uint_ne(p, 0);
    ck_assert_uint_eq(p % 256, 0);
    return p;
}

/* ---- M1 ---- */

TEST(case_M1_copies_are_bit_equal) {
    float sent[N_FLOATS], got[N_FLOATS] = {0}, again[N_FLOATS] = {0};
    fill_random(sent, N_FLOATS);
    cushim_devptr a = alloc(sizeof sent), b = alloc(sizeof sent);
    fixture_ok(cushim_memory_h2d(a, sent, sizeof sent));
    fixture_ok(cushim_memory_d2h(got, a, sizeof got));
    ck_assert_mem_eq(got, sent, sizeof sent);
    fixture_ok(cushim_memory_d2d(b, a, sizeof sent));
    fixture_ok(cushim_memory_copy((uintptr_t)again, b, sizeof again, CUSHIM_COPY_D2H));
    ck_assert_mem_eq(again, sent, sizeof sent);
    memset(again, 0, sizeof again);
    fixture_ok(cushim_memory_copy((uintptr_t)again, b, sizeof again, CUSHIM_COPY_BY_ADDRESS));
    ck_assert_mem_eq(again, sent, sizeof sent);
    fixture_ok(cushim_memory_free(a));
    fixture_ok(cushim_memory_free(b));
}

TEST(case_M1_copies_on_a_stream_are_bit_equal) {
    float sent[N_FLOATS], got[N_FLOATS] = {0};
    fill_random(sent, N_FLOATS);
    cushim_devptr a = alloc(sizeof sent), b = alloc(sizeof sent);
    fixture_ok(cushim_memory_h2d_async(a, sent, sizeof sent, NULL));
    fixture_ok(cushim_memory_d2d_async(b, a, sizeof sent, NULL));
    fixture_ok(cushim_memory_d2h_async(got, b, sizeof got, NULL));
    fixture_ok(cushim_stream_synchronize(NULL));
    ck_assert_mem_eq(got, sent, sizeof sent);
    fixture_ok(cushim_memory_free(a));
    fixture_ok(cushim_memory_free(b));
}

TEST(case_M1_managed_memory_is_usable_on_the_host_too) {
    int has_managed = 0;
    cushim_devptr p = 0;
    fixture_ok(cushim_device_managed(0, &has_managed));
    if (!has_managed) {
        fixture_is(cushim_memory_alloc_managed(NULL, 8, CUSHIM_ATTACH_FLAG_GLOBAL, &p),
                   CUSHIM_NOTSUPPORTED);
        return;
    }
    double got[N_DOUBLES] = {0};
    fixture_ok(cushim_memory_alloc_managed(NULL, sizeof got, CUSHIM_ATTACH_FLAG_GLOBAL, &p));
    double *values = (double *)(uintptr_t)p;
    for (int i = 0; i < N_DOUBLES; i++)
        values[i] = 3.14 * i;
    fixture_ok(cushim_memory_d2h(got, p, sizeof got));
    for (int i = 0; i < N_DOUBLES; i++)
        ck_assert(got[i] == 3.14 * i);
    fixture_ok(cushim_memory_free(p));
}

/* ---- M2, M3 ---- */

TEST(case_M2_a_second_free_and_an_unknown_address_are_refused) {
    int local = 0;
    cushim_devptr p = alloc(1024);
    fixture_ok(cushim_memory_free(p));
    fixture_is(cushim_memory_free(p), CUSHIM_DOUBLEFREE);
    fixture_said("CUSHIM_DOUBLEFREE");
    fixture_ok(cushim_memory_free(0));
    fixture_is(cushim_memory_free((uintptr_t)&local), CUSHIM_UNKNOWNPTR);
}

/* For any thread that captures, and any mode. */
TEST(case_M2_frees_leave_a_capture_valid) {
    struct cushim_stream *s;
    fixture_ok(cushim_stream_create(NULL, 0, 0, &s));
    for (enum cushim_graph_mode mode = CUSHIM_GRAPH_MODE_RELAXED; mode <= CUSHIM_GRAPH_MODE_GLOBAL;
         mode++) {
        struct cushim_graph_options options;
        struct cushim_graph *graph;
        struct cushim_graph_info info = {.struct_size = sizeof info};
        cushim_devptr plain = alloc(1 << 20), target = alloc(1024);
        void *pinned;
        fixture_ok(cushim_host_alloc(NULL, 1 << 20, 0, &pinned));
        cushim_graph_options_default(&options);
        options.mode = mode;
        fixture_ok(cushim_graph_begin(s, &options));
        fixture_ok(cushim_memory_free(plain));
        fixture_ok(cushim_host_free(pinned));
        fixture_ok(cushim_memory_set8_async(target, 1, 1024, s));
        fixture_ok(cushim_graph_end(s, &graph));
        fixture_ok(cushim_graph_info(graph, &info));
        ck_assert_uint_eq(info.nodes, 1);
        fixture_ok(cushim_graph_destroy(graph));
        fixture_ok(cushim_memory_free(target));
    }
    fixture_ok(cushim_stream_destroy(s));
}

TEST(case_M3_a_request_that_does_not_fit_is_refused_and_changes_nothing) {
    unsigned char sent[1025], got[1024];
    memset(sent, 7, sizeof sent);
    cushim_devptr p = alloc(1024), huge = 1;
    fixture_ok(cushim_memory_set8(p, 0x5a, 1024));
    fixture_is(cushim_memory_h2d(p, sent, 1025), CUSHIM_INVALID);
    fixture_ok(cushim_memory_d2h(got, p, 1024));
    for (int i = 0; i < 1024; i++)
        ck_assert_uint_eq(got[i], 0x5a);
    fixture_is(cushim_memory_alloc(NULL, 1000000000000000u, &huge), CUSHIM_NOMEM);
    ck_assert_uint_eq(huge, 0);
    fixture_said("cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY");
    fixture_said("asked=1000000000000000");
    fixture_said("total=");
    fixture_ok(cushim_memory_free(alloc(1 << 20)));
    fixture_ok(cushim_memory_free(p));
}

/* ---- M4 ---- */

TEST(case_M4_registered_memory_is_copied_and_unregistered_once) {
    const size_t n = (size_t)1 << 20, bytes = n * sizeof(double);
    double *sent = aligned_alloc(PAGE_BYTES, bytes), *got = malloc(bytes);
    ck_assert(sent && got);
    for (size_t i = 0; i < n; i++)
        sent[i] = (double)i;
    cushim_devptr p = alloc(bytes);
    fixture_ok(cushim_host_register(NULL, sent, bytes, 0));
    fixture_ok(cushim_memory_h2d_async(p, sent, bytes, NULL));
    fixture_ok(cushim_stream_synchronize(NULL));
    fixture_ok(cushim_memory_d2h(got, p, bytes));
    ck_assert_mem_eq(got, sent, bytes);
    fixture_is(cushim_host_register(NULL, sent, bytes, 0), CUSHIM_STATE);
    fixture_ok(cushim_host_unregister(sent));
    fixture_is(cushim_host_unregister(sent), CUSHIM_UNKNOWNPTR);
    fixture_ok(cushim_memory_free(p));
    free(sent);
    free(got);
}

TEST(case_M4_pinned_memory_has_an_address_for_the_device) {
    void *p = NULL;
    cushim_devptr dp = 0;
    fixture_ok(cushim_host_alloc(NULL, 4096, CUSHIM_HOST_FLAG_MAPPED, &p));
    fixture_ok(cushim_host_device_pointer(p, &dp));
    fixture_ok(cushim_memory_set32(dp, 0x01020304, 1024));
    fixture_ok(cushim_context_synchronize(NULL));
    ck_assert_uint_eq(((uint32_t *)p)[1023], 0x01020304);
    fixture_ok(cushim_host_free(p));
    fixture_is(cushim_host_free(p), CUSHIM_DOUBLEFREE);
}

/* ---- rows, boxes, contexts, streams ---- */

TEST(case_M5_rows_and_boxes_are_copied_to_the_right_place) {
    enum { WIDE = 40, HIGH = 6, DEEP = 3, BYTES = WIDE * HIGH * DEEP };
    unsigned char sent[BYTES], got[BYTES];
    for (int i = 0; i < BYTES; i++)
        sent[i] = (unsigned char)(i * 7);
    cushim_devptr p = 0;
    size_t pitch = 0;
    fixture_ok(cushim_memory_alloc_pitch(NULL, WIDE, (size_t)HIGH * DEEP, 4, &p, &pitch));
    ck_assert_uint_ge(pitch, WIDE);
    struct cushim_copy3d in = {
        .struct_size = sizeof in,
        .width_bytes = WIDE,
        .rows = HIGH,
        .slices = DEEP,
        .src = {.address = (uintptr_t)sent, .place = CUSHIM_PLACE_HOST},
        .dst = {.address = p, .place = CUSHIM_PLACE_DEVICE, .pitch_bytes = pitch, .height = HIGH}};
    fixture_ok(cushim_memory_copy_3d(&in, NULL));
    memset(got, 0, sizeof got);
    /* The inner box: 10 bytes from byte 5, rows 1 to 4, slices 1 and 2. */
    struct cushim_copy3d out = {.struct_size = sizeof out,
                                .flags = CUSHIM_COPY_FLAG_BLOCKING,
                                .width_bytes = 10,
                                .rows = 4,
                                .slices = 2,
                                .src = in.dst,
                                .dst = in.src};
    out.src.x_bytes = out.dst.x_bytes = 5;
    out.src.y = out.dst.y = 1;
    out.src.z = out.dst.z = 1;
    out.dst.address = (uintptr_t)got;
    out.dst.pitch_bytes = WIDE;
    out.dst.height = HIGH;
    fixture_ok(cushim_memory_copy_3d(&out, NULL));
    for (int i = 0; i < BYTES; i++) {
        int x = i % WIDE, y = i / WIDE % HIGH, z = i / WIDE / HIGH;
        bool is_in = x >= 5 && x < 15 && y >= 1 && y < 5 && z >= 1;
        ck_assert_uint_eq(got[i], is_in ? sent[i] : 0);
    }
    struct cushim_copy2d rows = {
        .struct_size = sizeof rows,
        .flags = CUSHIM_COPY_FLAG_BLOCKING,
        .width_bytes = WIDE,
        .rows = (size_t)HIGH * DEEP,
        .src = {.address = p, .pitch_bytes = pitch},
        .dst = {.address = (uintptr_t)got, .place = CUSHIM_PLACE_HOST, .pitch_bytes = WIDE}};
    fixture_ok(cushim_memory_copy_2d(&rows, NULL));
    ck_assert_mem_eq(got, sent, BYTES);
    fixture_ok(cushim_memory_set2d8(p, pitch, 9, WIDE, (size_t)HIGH * DEEP, NULL));
    fixture_ok(cushim_memory_copy_2d(&rows, NULL));
    for (int i = 0; i < BYTES; i++)
        ck_assert_uint_eq(got[i], 9);
    fixture_ok(cushim_memory_free(p));
}

TEST(case_M6_a_copy_between_two_contexts_arrives) {
    struct cushim_context *primary = NULL, *owned = NULL;
    unsigned sent[64], got[64] = {0};
    for (unsigned i = 0; i < 64; i++)
        sent[i] = i * i;
    fixture_ok(cushim_context_primary(0, &primary));
    fixture_ok(cushim_context_create(0, 0, &owned));
    cushim_devptr a = 0, b = 0;
    fixture_ok(cushim_memory_alloc(primary, sizeof sent, &a));
    fixture_ok(cushim_memory_alloc(owned, sizeof sent, &b));
    fixture_ok(cushim_memory_h2d(a, sent, sizeof sent));
    fixture_is(cushim_memory_d2d(b, a, sizeof sent), CUSHIM_BADDEVICE);
    fixture_is(cushim_memory_copy_peer(b, primary, a, primary, sizeof sent), CUSHIM_BADDEVICE);
    fixture_ok(cushim_memory_copy_peer(b, owned, a, NULL, sizeof sent));
    fixture_ok(cushim_memory_d2h(got, b, sizeof got));
    ck_assert_mem_eq(got, sent, sizeof sent);
    fixture_ok(cushim_memory_free(a));
    fixture_ok(cushim_context_destroy(owned));
    fixture_ok(cushim_memory_free(b));
}

TEST(case_M7_stream_ordered_memory_leaves_the_devices_pool_alone) {
    struct cushim_stream *s = NULL;
    size_t reusable = 0;
    uint32_t got[256];
    fixture_ok(cushim_stream_create(NULL, 1, 0, &s));
    fixture_ok(cushim_memory_async_threshold(NULL, (size_t)64 << 20));
    for (int round = 0; round < 3; round++) {
        cushim_devptr p = 0;
        fixture_ok(cushim_memory_alloc_async(s, sizeof got, &p));
        fixture_ok(cushim_memory_set32_async(p, 41u + (uint32_t)round, 256, s));
        fixture_ok(cushim_memory_d2h_async(got, p, sizeof got, s));
        fixture_ok(cushim_memory_free_async(p, s));
        fixture_is(cushim_memory_free_async(p, s), CUSHIM_DOUBLEFREE);
        fixture_ok(cushim_stream_synchronize(s));
        ck_assert_uint_eq(got[255], 41u + (uint32_t)round);
    }
    fixture_ok(cushim_memory_info_pools(NULL, &reusable));
    fixture_ok(cushim_memory_async_trim(NULL, 0));
    fixture_ok(cushim_stream_destroy(s));
}

TEST(case_M8_an_address_has_its_size_range_kind_and_owner) {
    struct cushim_memory_info info = {.struct_size = sizeof info};
    cushim_devptr p = alloc(1000), base = 0;
    size_t n = 0, n_free = 0, n_total = 0;
    fixture_ok(cushim_memory_size(p, &n));
    ck_assert_uint_eq(n, 1000);
    fixture_is(cushim_memory_size(p + 1, &n), CUSHIM_UNKNOWNPTR);
    fixture_ok(cushim_memory_range(p + 999, &base, &n));
    ck_assert_uint_le(base, p);
    ck_assert_uint_ge(base + n, p + 1000);
    fixture_ok(cushim_memory_query(p + 10, &info));
    ck_assert_uint_eq(info.start, p);
    ck_assert_int_eq(info.kind, CUSHIM_MEMORY_DEVICE);
    ck_assert_int_eq(info.owner, CUSHIM_OWNER_CALLER);
    ck_assert_int_eq(info.device, 0);
    fixture_ok(cushim_memory_info(NULL, &n_free, &n_total));
    ck_assert(n_free > 0 && n_free <= n_total);
    fixture_ok(cushim_memory_free(p));
}

/* ---- C4: the CUDA runtime in the same process ---- */

static void *open_runtime(void) {
    const char *names[] = {getenv("TEST_CUDART"), "libcudart.so.13", "libcudart.so.12",
                           "libcudart.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++) {
        if (names[i])
            library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

/* No device has both needs, so a test is skipped if there is no runtime. */
static unsigned needs_runtime(void) {
    void *runtime = open_runtime();
    if (runtime)
        dlclose(runtime);
    return runtime ? 0 : FIXTURE_GPU | FIXTURE_SIM;
}

static void find(void *library, const char *name, void *function) {
    void *address = dlsym(library, name);
    ck_assert_msg(address != NULL, "libcudart has no %s", name);
    memcpy(function, &address, sizeof address);
}

TEST(case_C4_the_runtimes_memory_is_set_between_push_and_pop, .needs = needs_runtime()) {
    enum { FROM_DEVICE = 2, BYTES = 1000 };
    int (*set_device)(int), (*get_device)(int *), (*alloc_runtime)(void **, size_t),
        (*copy)(void *, const void *, size_t, int), (*free_runtime)(void *);
    struct cushim_context *primary = NULL, *popped = NULL;
    unsigned char got[BYTES] = {0};
    void *library = open_runtime(), *p = NULL;
    int device = -1;
    ck_assert_ptr_nonnull(library);
    find(library, "cudaSetDevice", &set_device);
    find(library, "cudaGetDevice", &get_device);
    find(library, "cudaMalloc", &alloc_runtime);
    find(library, "cudaMemcpy", &copy);
    find(library, "cudaFree", &free_runtime);
    ck_assert_int_eq(set_device(0), 0);
    ck_assert_int_eq(alloc_runtime(&p, BYTES), 0);
    fixture_ok(cushim_context_primary(0, &primary));
    fixture_ok(cushim_context_push(primary));
    fixture_ok(cushim_memory_set8((uintptr_t)p, 0xc4, BYTES));
    fixture_ok(cushim_context_pop(&popped));
    ck_assert_int_eq(copy(got, p, BYTES, FROM_DEVICE), 0);
    for (int i = 0; i < BYTES; i++)
        ck_assert_uint_eq(got[i], 0xc4);
    ck_assert_int_eq(get_device(&device), 0);
    ck_assert_int_eq(device, 0);
    fixture_ok(cushim_memory_adopt(NULL, (uintptr_t)p, BYTES));
    fixture_is(cushim_memory_set8((uintptr_t)p, 1, BYTES + 1), CUSHIM_INVALID);
    fixture_is(cushim_memory_free((uintptr_t)p), CUSHIM_STATE);
    fixture_ok(cushim_memory_disown((uintptr_t)p));
    ck_assert_int_eq(free_runtime(p), 0);
}

int main(int argc, char **argv) {
    return fixture_main(argc, argv);
}
