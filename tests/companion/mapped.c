/* Mapped device memory and the drop-in libvkgdr.so.1: cases V1 to V6. */
#include "cushim/mapped.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dropin/vkgdr/vkgdr.h"
#include "tests/companion/fixture.h"

enum { N_BYTES = 4097, N_FLOATS = 64, MAX_OFFSET = 64, MAX_LENGTH = 1000 };

static const size_t too_much = 1000000000000000;

/* Pushes the primary context of device 0, until leave_context. */
static struct cushim_context *enter_context(void) {
    struct cushim_context *context;
    fixture_ok(cushim_context_primary(0, &context));
    fixture_ok(cushim_context_push(context));
    return context;
}

static void leave_context(struct cushim_context *context) {
    struct cushim_context *popped;
    fixture_ok(cushim_context_pop(&popped));
    ck_assert_ptr_eq(popped, context);
}

static void check_error(const char *wanted) {
    char *text = vkgdr_last_error();
    if (wanted)
        ck_assert_pstr_eq(text, wanted);
    else
        ck_assert_ptr_null(text);
    free(text);
}

/* No device has both needs, so a test is skipped if there is no loader. */
static unsigned needs_vulkan(void) {
    const char *given = getenv("CUSHIM_LIBVULKAN");
    bool has_loader =
        dlopen(given && *given ? given : "libvulkan.so.1", RTLD_LAZY | RTLD_LOCAL) != NULL;
    return has_loader ? 0 : FIXTURE_GPU | FIXTURE_SIM;
}

/* ---- V1 ---- */

TEST(case_V1_a_failed_open_names_the_call_that_failed, .needs = needs_vulkan()) {
    check_error(NULL);
    ck_assert_ptr_null(vkgdr_open(-1, 0));
    check_error("cuDeviceGetUuid failed (CUDA_ERROR_INVALID_DEVICE)");
    check_error("cuDeviceGetUuid failed (CUDA_ERROR_INVALID_DEVICE)");
    ck_assert_ptr_null(vkgdr_open(0, VKGDR_OPEN_CURRENT_CONTEXT_BIT));
    check_error("cuCtxGetDevice failed (CUDA_ERROR_INVALID_CONTEXT)");
    vkgdr_t g = vkgdr_open(0, 0);
    ck_assert_ptr_nonnull(g);
    check_error(NULL);
    ck_assert_ptr_null(vkgdr_open(0, 64));
    vkgdr_close(g);
    char *text = vkgdr_last_error(); /* a close is neither open nor alloc */
    ck_assert_ptr_nonnull(
        strstr(text, "cushim_mapper_open_device failed (CUSHIM_INVALID): (flags=64)"));
    free(text);
}

/* ---- V2 ---- */

/* Doubles n bytes on the device, 17 x 256 threads, and waits. */
static void double_on_device(cushim_devptr bytes, uint64_t n) {
    struct cushim_stream *stream;
    void *args[] = {&bytes, &n};
    fixture_ok(cushim_stream_create(NULL, 1, 0, &stream));
    fixture_launch(stream, "twice_bytes", 17, 256, args);
    fixture_ok(cushim_stream_synchronize(stream));
    fixture_ok(cushim_stream_destroy(stream));
}

static void write_pattern(unsigned char *host) {
    for (int i = 0; i < N_BYTES; i++)
        host[i] = (unsigned char)(1 + i % 127);
}

static void check_doubled(const unsigned char *host) {
    for (int i = 0; i < N_BYTES; i++)
        ck_assert_uint_eq(host[i], 2 * (1 + (unsigned)i % 127));
}

TEST(case_V2_bytes_of_the_host_are_doubled_by_the_device, .needs = needs_vulkan()) {
    static const unsigned flags[] = {0, CUSHIM_MAPPER_FLAG_COHERENT,
                                     CUSHIM_MAPPER_FLAG_NON_COHERENT,
                                     CUSHIM_MAPPER_FLAG_COHERENT | CUSHIM_MAPPER_FLAG_NON_COHERENT};
    struct cushim_context *context = enter_context();
    for (int i = 0; i < 4; i++) {
        struct cushim_mapper *mapper;
        struct cushim_mapped *mapped;
        void *host;
        cushim_devptr device;
        size_t bytes, atom;
        int is_coherent;
        fixture_ok(cushim_mapper_open(NULL, flags[i] | CUSHIM_MAPPER_FLAG_CURRENT, &mapper));
        fixture_ok(cushim_mapped_alloc(mapper, N_BYTES, 0, &mapped));
        fixture_ok(cushim_mapped_host(mapped, &host));
        fixture_ok(cushim_mapped_device(mapped, &device));
        write_pattern(host);
        fixture_ok(cushim_mapped_flush(mapped, 0, N_BYTES));
        double_on_device(device, N_BYTES);
        fixture_ok(cushim_mapped_invalidate(mapped, 0, N_BYTES));
        check_doubled(host);
        fixture_ok(cushim_mapped_coherent(mapped, &is_coherent));
        if (flags[i])
            ck_assert_int_eq(is_coherent, flags[i] == CUSHIM_MAPPER_FLAG_COHERENT);
        fixture_ok(cushim_mapped_atom(mapped, &atom));
        ck_assert_uint_gt(atom, 0);
        fixture_ok(cushim_mapped_size(mapped, &bytes));
        ck_assert_uint_eq(bytes, N_BYTES);
        fixture_ok(cushim_mapped_free(mapped));
        fixture_ok(cushim_mapper_close(mapper));
    }
    leave_context(context);
}

TEST(case_V2_the_drop_in_does_the_same, .needs = needs_vulkan()) {
    static const unsigned flags[] = {
        0, VKGDR_OPEN_REQUIRE_COHERENT_BIT, VKGDR_OPEN_FORCE_NON_COHERENT_BIT,
        VKGDR_OPEN_REQUIRE_COHERENT_BIT | VKGDR_OPEN_FORCE_NON_COHERENT_BIT};
    struct cushim_context *context = enter_context();
    for (int i = 0; i < 4; i++) {
        vkgdr_t g = vkgdr_open(0, flags[i] | VKGDR_OPEN_CURRENT_CONTEXT_BIT);
        ck_assert_ptr_nonnull(g);
        vkgdr_memory_t mem = vkgdr_memory_alloc(g, N_BYTES, 0);
        ck_assert_ptr_nonnull(mem);
        vkgdr_close(g); /* memory outlives the mapper */
        unsigned char *host = vkgdr_memory_get_host_ptr(mem);
        write_pattern(host);
        vkgdr_memory_flush(mem, 3, N_BYTES); /* extended at its start, cut at the end */
        double_on_device(vkgdr_memory_get_device_ptr(mem), N_BYTES);
        vkgdr_memory_invalidate(mem, 0, 1);
        vkgdr_memory_invalidate(mem, 1, 4095);
        vkgdr_memory_invalidate(mem, 4096, 1);
        check_doubled(host);
        if (flags[i])
            ck_assert_int_eq(vkgdr_memory_is_coherent(mem),
                             flags[i] == VKGDR_OPEN_REQUIRE_COHERENT_BIT);
        ck_assert_uint_gt(vkgdr_memory_non_coherent_atom_size(mem), 0);
        ck_assert_uint_eq(vkgdr_memory_get_size(mem), N_BYTES);
        vkgdr_memory_free(mem);
    }
    leave_context(context);
}

/* ---- V3 ---- */

TEST(case_V3_a_second_free_and_too_much_memory_are_refused, .needs = needs_vulkan()) {
    struct cushim_mapper *mapper;
    struct cushim_mapped *mapped, *more;
    fixture_ok(cushim_mapper_open_device(0, 0, &mapper));
    fixture_ok(cushim_mapped_alloc(mapper, N_BYTES, 0, &mapped));
    fixture_ok(cushim_mapped_free(mapped));
    fixture_is(cushim_mapped_free(mapped), CUSHIM_BADHANDLE);
    fixture_is(cushim_mapped_alloc(mapper, too_much, 0, &more), CUSHIM_NOMEM);
    fixture_said("vkAllocateMemory failed: CUSHIM_NOMEM");
    fixture_said("VK_ERROR_OUT_OF_DEVICE_MEMORY");
    fixture_said("asked=1000000000000000");
    ck_assert_ptr_null(more);
    fixture_ok(cushim_mapper_close(mapper));
}

TEST(case_V3_a_stale_handle_of_the_drop_in_does_nothing, .needs = needs_vulkan()) {
    struct cushim_context *context = enter_context();
    vkgdr_t g = vkgdr_open(0, 0);
    vkgdr_memory_t mem = vkgdr_memory_alloc(g, N_BYTES, 0);
    ck_assert_ptr_nonnull(mem);
    ck_assert_ptr_null(vkgdr_memory_alloc(g, too_much, 0));
    check_error("vkAllocateMemory failed (VK_ERROR_OUT_OF_DEVICE_MEMORY)");
    ck_assert_ptr_null(vkgdr_memory_alloc(g, 0, 0));
    ck_assert_ptr_null(vkgdr_memory_alloc(g, 1, 1));
    vkgdr_memory_free(mem);
    vkgdr_memory_free(mem);
    vkgdr_memory_free(NULL);
    vkgdr_memory_flush(mem, 0, 1);
    vkgdr_memory_invalidate(mem, 0, 1);
    ck_assert_ptr_null(vkgdr_memory_get_host_ptr(mem));
    ck_assert_uint_eq(vkgdr_memory_get_device_ptr(mem), 0);
    ck_assert_uint_eq(vkgdr_memory_get_size(mem), 0);
    ck_assert_uint_eq(vkgdr_memory_non_coherent_atom_size(mem), 0);
    ck_assert(!vkgdr_memory_is_coherent(mem));
    vkgdr_close(g);
    vkgdr_close(g);
    vkgdr_close(NULL);
    ck_assert_ptr_null(vkgdr_memory_alloc(g, 1, 0));
    check_error("vkgdr_memory_alloc failed (CUSHIM_BADHANDLE)");
    leave_context(context);
}

/* ---- V4 ---- */

TEST(case_V4_the_drop_in_needs_a_current_context_and_the_library_does_not,
     .needs = needs_vulkan()) {
    struct cushim_context *context = enter_context();
    struct cushim_mapper *mapper;
    struct cushim_mapped *mapped;
    vkgdr_t g = vkgdr_open(0, VKGDR_OPEN_CURRENT_CONTEXT_BIT);
    ck_assert_ptr_nonnull(g);
    fixture_ok(cushim_mapper_open(NULL, CUSHIM_MAPPER_FLAG_CURRENT, &mapper));
    leave_context(context);
    ck_assert_ptr_null(vkgdr_memory_alloc(g, 123, 0));
    check_error("cuCtxGetDevice failed (CUDA_ERROR_INVALID_CONTEXT)");
    fixture_ok(cushim_mapped_alloc(mapper, 123, 0, &mapped));
    fixture_ok(cushim_mapped_free(mapped));
    fixture_ok(cushim_mapper_close(mapper));
    vkgdr_close(g);
}

TEST(case_V4_memory_of_the_drop_in_belongs_to_the_current_context, .needs = needs_vulkan()) {
    struct cushim_context *first, *second, *popped;
    vkgdr_t g = vkgdr_open(0, 0);
    ck_assert_ptr_nonnull(g);
    fixture_ok(cushim_context_create(0, 0, &first));
    fixture_ok(cushim_context_create(0, 0, &second));
    fixture_ok(cushim_context_push(first));
    vkgdr_memory_t a = vkgdr_memory_alloc(g, 100, 0), b = vkgdr_memory_alloc(g, 100, 0);
    fixture_ok(cushim_context_push(second));
    vkgdr_memory_t c = vkgdr_memory_alloc(g, 100, 0);
    ck_assert(a && b && c);
    fixture_ok(cushim_context_pop(&popped));
    fixture_ok(cushim_context_pop(&popped));
    fixture_ok(cushim_context_destroy(first));
    ck_assert_ptr_null(vkgdr_memory_get_host_ptr(a)); /* gone with its context */
    ck_assert_ptr_nonnull(vkgdr_memory_get_host_ptr(c));
    vkgdr_memory_free(a);
    vkgdr_memory_free(b);
    vkgdr_memory_free(c);
    fixture_ok(cushim_context_destroy(second));
    vkgdr_close(g);
}

TEST(case_V4_a_current_context_of_another_device_is_refused,
     .needs = needs_vulkan() | FIXTURE_TWO) {
    struct cushim_context *context;
    vkgdr_t g = vkgdr_open(0, 0);
    fixture_ok(cushim_context_primary(1, &context));
    fixture_ok(cushim_context_push(context));
    ck_assert_ptr_null(vkgdr_memory_alloc(g, 123, 0));
    check_error("vkgdr_memory_alloc failed (CUDA_ERROR_INVALID_CONTEXT)");
    leave_context(context);
    vkgdr_close(g);
}

/* ---- V5 ---- */

TEST(case_V5_sums_of_mapped_numbers_are_read_in_mapped_memory, .needs = needs_vulkan()) {
    struct cushim_context *context = enter_context();
    vkgdr_t g = vkgdr_open(0, VKGDR_OPEN_CURRENT_CONTEXT_BIT);
    vkgdr_memory_t mem[3];
    float *host[3];
    uint64_t device[3], n = N_FLOATS;
    struct cushim_stream *stream;
    for (int i = 0; i < 3; i++) {
        mem[i] = vkgdr_memory_alloc(g, N_FLOATS * sizeof(float), 0);
        ck_assert_ptr_nonnull(mem[i]);
        host[i] = vkgdr_memory_get_host_ptr(mem[i]);
        device[i] = vkgdr_memory_get_device_ptr(mem[i]);
    }
    for (int i = 0; i < N_FLOATS; i++) {
        host[0][i] = 7.0f * (float)i;
        host[1][i] = -3.0f * (float)i;
    }
    vkgdr_memory_flush(mem[0], 0, N_FLOATS * sizeof(float));
    vkgdr_memory_flush(mem[1], 0, N_FLOATS * sizeof(float));
    void *args[] = {&device[2], &device[0], &device[1], &n};
    fixture_ok(cushim_stream_create(NULL, 0, 0, &stream));
    fixture_launch(stream, "add", 1, N_FLOATS, args);
    fixture_ok(cushim_stream_synchronize(stream));
    vkgdr_memory_invalidate(mem[2], 0, N_FLOATS * sizeof(float));
    for (int i = 0; i < N_FLOATS; i++)
        ck_assert_float_eq(host[2][i], 4.0f * (float)i);
    for (int i = 0; i < 3; i++)
        vkgdr_memory_free(mem[i]);
    fixture_ok(cushim_stream_destroy(stream));
    vkgdr_close(g);
    leave_context(context);
}

/* ---- V6 ---- */

typedef enum cushim_status copy_fn(void *, const void *, size_t);

/* Every byte around the target is checked too. */
static void check_copies(copy_fn *copy) {
    enum { ROOM = MAX_LENGTH + 2 * MAX_OFFSET };
    static unsigned char src[ROOM], dst[ROOM], wanted[ROOM];
    for (int i = 0; i < ROOM; i++)
        src[i] = (unsigned char)(i * 31 + i / 256 + 1);
    for (int to = 0; to < MAX_OFFSET; to++) {
        for (int from = 0; from < MAX_OFFSET; from++) {
            for (size_t n = 0; n <= MAX_LENGTH; n++) {
                memset(dst, 0, to + n + MAX_OFFSET);
                memset(wanted, 0, to + n + MAX_OFFSET);
                memcpy(wanted + to, src + from, n);
                if (copy(dst + to, src + from, n) != CUSHIM_OK ||
                    memcmp(dst, wanted, to + n + MAX_OFFSET) != 0)
                    ck_abort_msg("to=%d from=%d n=%zu", to, from, n);
            }
        }
    }
}

TEST(case_V6_a_copy_in_is_a_memcpy) {
    check_copies(cushim_mapped_copy_in);
}

TEST(case_V6_a_copy_out_is_a_memcpy) {
    check_copies(cushim_mapped_copy_out);
}

TEST(case_V6_copies_go_through_a_mapping, .needs = needs_vulkan()) {
    enum { BYTES = 100000 };
    static unsigned char sent[BYTES], got[BYTES];
    struct cushim_mapper *mapper;
    struct cushim_mapped *mapped;
    void *host;
    fixture_ok(cushim_mapper_open_device(0, 0, &mapper));
    fixture_ok(cushim_mapped_alloc(mapper, BYTES, CUSHIM_MAPPED_FLAG_SLAB, &mapped));
    fixture_ok(cushim_mapped_host(mapped, &host));
    for (int i = 0; i < BYTES; i++)
        sent[i] = (unsigned char)(i * 7 + i / 256);
    fixture_ok(cushim_mapped_copy_in(host, sent, BYTES));
    fixture_ok(cushim_mapped_flush(mapped, 0, BYTES));
    fixture_ok(cushim_mapped_invalidate(mapped, 0, BYTES));
    fixture_ok(cushim_mapped_copy_out(got, host, BYTES));
    ck_assert_mem_eq(got, sent, BYTES);
    fixture_ok(cushim_mapped_free(mapped));
    fixture_ok(cushim_mapper_close(mapper));
}

/* A machine may have CUDA and no Vulkan. */
int main(int argc, char **argv) {
    return fixture_main(argc, argv);
}
