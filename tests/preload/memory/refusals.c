/*
 * We refuse what the driver refuses without cushim (interposition.md C10): a copy or set one byte
 * beyond its block or in a freed one.  In a shared segment the driver would accept it.
 */
#include "tests/preload/fixture/fixture.h"

enum { N_BLOCKS = 5, PATTERN = 0x5a, MOST_BYTES = 3 * MIB };

/* One call that reads or writes n bytes at an address. */
struct call {
    const char *name;
    CUresult (*run)(CUdeviceptr at, size_t n);
    size_t element_bytes; /* n is a multiple of it */
};

static unsigned char host[MOST_BYTES + 64];
static CUdeviceptr elsewhere; /* device memory with room for everything */

static CUresult write_line(CUdeviceptr at, size_t n) {
    return cuMemcpyHtoD(at, host, n);
}

static CUresult read_line(CUdeviceptr at, size_t n) {
    return cuMemcpyDtoH(host, at, n);
}

static CUresult write_line_async(CUdeviceptr at, size_t n) {
    return cuMemcpyHtoDAsync(at, host, n, NULL);
}

static CUresult read_line_async(CUdeviceptr at, size_t n) {
    return cuMemcpyDtoHAsync(host, at, n, NULL);
}

static CUresult copy_to(CUdeviceptr at, size_t n) {
    return cuMemcpyDtoD(at, elsewhere, n);
}

static CUresult copy_from(CUdeviceptr at, size_t n) {
    return cuMemcpyDtoD(elsewhere, at, n);
}

static CUresult copy_to_async(CUdeviceptr at, size_t n) {
    return cuMemcpyDtoDAsync(at, elsewhere, n, NULL);
}

static CUresult copy_any_to(CUdeviceptr at, size_t n) {
    return cuMemcpy(at, (CUdeviceptr)host, n);
}

static CUresult copy_any_from(CUdeviceptr at, size_t n) {
    return cuMemcpyAsync((CUdeviceptr)host, at, n, NULL);
}

static CUresult copy_peer(CUdeviceptr at, size_t n) {
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    return cuMemcpyPeerAsync(at, context, elsewhere, context, n, NULL);
}

/* As two rows: the last byte is the n-th from the address. */
static CUDA_MEMCPY2D two_rows(size_t n) {
    size_t pitch = n - n / 4;
    return (CUDA_MEMCPY2D){
        .srcPitch = pitch, .dstPitch = pitch, .WidthInBytes = n / 4, .Height = 2};
}

static CUresult write_rows(CUdeviceptr at, size_t n) {
    CUDA_MEMCPY2D shape = two_rows(n);
    shape.srcMemoryType = CU_MEMORYTYPE_HOST;
    shape.srcHost = host;
    shape.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    shape.dstDevice = at;
    return cuMemcpy2D(&shape);
}

static CUresult read_rows(CUdeviceptr at, size_t n) {
    CUDA_MEMCPY2D shape = two_rows(n);
    shape.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    shape.srcDevice = at;
    shape.dstMemoryType = CU_MEMORYTYPE_HOST;
    shape.dstHost = host;
    return cuMemcpy2DAsync(&shape, NULL);
}

/* As two layers of one row. */
static CUresult write_box(CUdeviceptr at, size_t n) {
    size_t pitch = n - n / 4;
    CUDA_MEMCPY3D shape = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = host,
                           .srcPitch = pitch,
                           .srcHeight = 1,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = at,
                           .dstPitch = pitch,
                           .dstHeight = 1,
                           .WidthInBytes = n / 4,
                           .Height = 1,
                           .Depth = 2};
    return cuMemcpy3D(&shape);
}

static CUresult copy_batch(CUdeviceptr at, size_t n) {
    return fixture_copy_batch(elsewhere, at, n);
}

static CUresult set_8(CUdeviceptr at, size_t n) {
    return cuMemsetD8(at, 1, n);
}

static CUresult set_16(CUdeviceptr at, size_t n) {
    return cuMemsetD16Async(at, 1, n / 2, NULL);
}

static CUresult set_32(CUdeviceptr at, size_t n) {
    return cuMemsetD32(at, 1, n / 4);
}

static CUresult set_rows_8(CUdeviceptr at, size_t n) {
    return cuMemsetD2D8(at, n - n / 4, 1, n / 4, 2);
}

static CUresult set_rows_32(CUdeviceptr at, size_t n) {
    size_t width = n / 16;
    return cuMemsetD2D32Async(at, n - 4 * width, 1, width, 2, NULL);
}

static const struct call calls[] = {
    {"HtoD", write_line, 1},
    {"DtoH", read_line, 1},
    {"HtoDAsync", write_line_async, 1},
    {"DtoHAsync", read_line_async, 1},
    {"DtoD to", copy_to, 1},
    {"DtoD from", copy_from, 1},
    {"DtoDAsync", copy_to_async, 1},
    {"by address", copy_any_to, 1},
    {"by address, async", copy_any_from, 1},
    {"peer", copy_peer, 1},
    {"2D to", write_rows, 4},
    {"2DAsync from", read_rows, 4},
    {"3D", write_box, 4},
    {"batch", copy_batch, 1},
    {"D8", set_8, 1},
    {"D16Async", set_16, 2},
    {"D32", set_32, 4},
    {"D2D8", set_rows_8, 4},
    {"D2D32Async", set_rows_32, 16},
};
enum { N_CALLS = sizeof calls / sizeof *calls };

static const size_t sizes[] = {1008, 70000, 700000, 3000000};

static size_t n_bytes;
static CUdeviceptr blocks[N_BLOCKS];

static void set_up(size_t size) {
    n_bytes = size;
    fixture_use_device(0);
    elsewhere = fixture_alloc(2 * MOST_BYTES);
    for (int i = 0; i < N_BLOCKS; i++) {
        blocks[i] = fixture_alloc(n_bytes);
        fixture_fill(blocks[i], PATTERN, n_bytes);
    }
}

static void check_neighbours(const char *name) {
    OK(cuCtxSynchronize());
    for (int i = 0; i < N_BLOCKS; i++) {
        if (i != N_BLOCKS / 2)
            ck_assert_msg(fixture_is_filled(blocks[i], PATTERN, n_bytes), "%s hurt a neighbour",
                          name);
    }
}

TEST(what_ends_one_element_beyond_its_block_is_refused, .n = (int)(sizeof sizes / sizeof *sizes)) {
    set_up(sizes[_i]);
    CUdeviceptr middle = blocks[N_BLOCKS / 2];
    for (int i = 0; i < N_CALLS; i++) {
        const struct call *call = &calls[i];
        CUresult answer = call->run(middle, n_bytes + call->element_bytes);
        ck_assert_msg(answer == CUDA_ERROR_INVALID_VALUE, "%s gave %d", call->name, answer);
        check_neighbours(call->name);
    }
    OK(cuMemFree(middle));
}

TEST(what_ends_where_its_block_ends_is_done, .n = (int)(sizeof sizes / sizeof *sizes)) {
    set_up(sizes[_i]);
    CUdeviceptr middle = blocks[N_BLOCKS / 2];
    for (int i = 0; i < N_CALLS; i++) {
        const struct call *call = &calls[i];
        CUresult answer = call->run(middle, n_bytes);
        ck_assert_msg(answer == CUDA_SUCCESS, "%s gave %d", call->name, answer);
        /* from inside the block to its end, too */
        answer = call->run(middle + 16, n_bytes - 16);
        ck_assert_msg(answer == CUDA_SUCCESS, "%s inside gave %d", call->name, answer);
        answer = call->run(middle + 16, n_bytes - 16 + call->element_bytes);
        ck_assert_msg(answer == CUDA_ERROR_INVALID_VALUE, "%s inside gave %d", call->name, answer);
        check_neighbours(call->name);
    }
}

TEST(what_touches_a_freed_block_is_refused, .n = (int)(sizeof sizes / sizeof *sizes)) {
    set_up(sizes[_i]);
    CUdeviceptr middle = blocks[N_BLOCKS / 2];
    OK(cuMemFree(middle));
    for (int i = 0; i < N_CALLS; i++) {
        const struct call *call = &calls[i];
        CUresult answer = call->run(middle, 64);
        ck_assert_msg(answer == CUDA_ERROR_INVALID_VALUE, "%s gave %d", call->name, answer);
    }
    check_neighbours("a use after free");
}

TEST(what_spans_two_live_blocks_is_refused, .n = (int)(sizeof sizes / sizeof *sizes)) {
    set_up(sizes[_i]);
    for (int i = 0; i + 1 < N_BLOCKS; i++) {
        CUdeviceptr low = blocks[i] < blocks[i + 1] ? blocks[i] : blocks[i + 1];
        CUdeviceptr high = blocks[i] < blocks[i + 1] ? blocks[i + 1] : blocks[i];
        ANSWERS(cuMemsetD8(low, 1, high + n_bytes - low), CUDA_ERROR_INVALID_VALUE);
        ck_assert(fixture_is_filled(blocks[i], PATTERN, n_bytes));
    }
}

TEST(a_copy_of_nothing_and_a_copy_between_blocks_pass, .n = (int)(sizeof sizes / sizeof *sizes)) {
    set_up(sizes[_i]);
    OK(cuMemcpyHtoD(blocks[0], host, 0));
    OK(cuMemcpyDtoD(blocks[0], blocks[1], n_bytes));
    OK(cuMemcpyDtoDAsync(blocks[2], blocks[1], n_bytes, NULL));
    ck_assert(fixture_is_filled(blocks[2], PATTERN, n_bytes));
}

TEST(a_freed_pointer_has_no_attributes, .n = (int)(sizeof sizes / sizeof *sizes)) {
    unsigned type = 7, is_managed = 7;
    unsigned long long id = 7;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_BUFFER_ID};
    void *values[] = {&type, &id};
    set_up(sizes[_i]);
    CUdeviceptr middle = blocks[N_BLOCKS / 2];
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, middle + n_bytes - 1));
    ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
    OK(cuMemFree(middle));
    ANSWERS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, middle),
            CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, middle + 8),
            CUDA_ERROR_INVALID_VALUE);
    OK(cuPointerGetAttributes(2, names, values, middle)); /* zeros, as for unknown memory */
    ck_assert_uint_eq(type, 0);
    ck_assert_uint_eq(id, 0);
}

int main(void) {
    return fixture_run("refusals");
}
