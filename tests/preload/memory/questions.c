/*
 * Questions of the program about an address (interposition.md C1, C10): the answers are about the
 * block, whatever the driver knows about the segment around it.  If no block is live, nothing is
 * known.
 */
#include "tests/preload/fixture/fixture.h"

enum { N_BLOCKS = 3 };
enum kind { DEVICE, PINNED, MANAGED, N_KINDS };

static const size_t sizes[] = {40, 1000, 65536, 700000, MIB, MIB + 1, 3 * MIB, 20 * MIB};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static CUdeviceptr alloc(enum kind kind, size_t n_bytes) {
    CUdeviceptr block = 0;
    void *pinned = NULL;
    switch (kind) {
    case DEVICE:
        OK(cuMemAlloc(&block, n_bytes));
        return block;
    case PINNED:
        OK(cuMemHostAlloc(&pinned, n_bytes, CU_MEMHOSTALLOC_PORTABLE));
        return (CUdeviceptr)pinned;
    default:
        OK(cuMemAllocManaged(&block, n_bytes, CU_MEM_ATTACH_GLOBAL));
        return block;
    }
}

static void release(enum kind kind, CUdeviceptr block) {
    OK(kind == PINNED ? cuMemFreeHost((void *)block) : cuMemFree(block));
}

/* Nothing is at the address, except perhaps another block that begins there. */
static void assert_not_of(CUdeviceptr address) {
    CUdeviceptr base;
    CUresult answer = cuMemGetAddressRange(&base, NULL, address);
    if (answer == CUDA_SUCCESS)
        ck_assert_uint_eq(base, address);
    else
        ANSWERS(answer, CUDA_ERROR_NOT_FOUND);
}

static void assert_range(CUdeviceptr address, CUdeviceptr block, size_t n_bytes) {
    CUdeviceptr base = 0, start = 0, mapping = 0, single = 0;
    size_t n = 0, n_range = 0, n_mapping = 0;
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, CU_POINTER_ATTRIBUTE_MAPPING_SIZE};
    void *values[] = {&start, &n_range, &mapping, &n_mapping};
    OK(cuMemGetAddressRange(&base, &n, address));
    OK(cuPointerGetAttributes(4, names, values, address));
    OK(cuPointerGetAttribute(&single, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address));
    ck_assert(base == block && start == block && mapping == block && single == block);
    ck_assert(n == n_bytes && n_range == n_bytes && n_mapping == n_bytes);
}

TEST(a_block_is_its_own_range, .n = N_KINDS * N_SIZES) {
    enum kind kind = (enum kind)(_i / N_SIZES);
    size_t n_bytes = sizes[_i % N_SIZES];
    CUdeviceptr blocks[N_BLOCKS];
    fixture_use_device(0);
    for (int i = 0; i < N_BLOCKS; i++)
        blocks[i] = alloc(kind, n_bytes);
    for (int i = 0; i < N_BLOCKS; i++) {
        assert_range(blocks[i], blocks[i], n_bytes);
        assert_range(blocks[i] + n_bytes - 1, blocks[i], n_bytes);
        OK(cuMemGetAddressRange(NULL, NULL, blocks[i]));
        OK(cuMemsetD8(blocks[i], 0, n_bytes));
        assert_not_of(blocks[i] + n_bytes);
    }
}

static unsigned long long id_of(CUdeviceptr address) {
    unsigned long long id = 0, again = 0;
    CUpointer_attribute name = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    void *value = &again;
    OK(cuPointerGetAttribute(&id, name, address));
    OK(cuPointerGetAttributes(1, &name, &value, address));
    ck_assert_uint_eq(id, again);
    return id;
}

TEST(each_life_of_a_block_has_its_own_id, .n = N_KINDS * N_SIZES) {
    enum { N_LIVES = 50 };
    enum kind kind = (enum kind)(_i / N_SIZES);
    size_t n_bytes = sizes[_i % N_SIZES];
    unsigned long long ids[N_LIVES];
    fixture_use_device(0);
    CUdeviceptr other = alloc(kind, n_bytes);
    unsigned long long other_id = id_of(other);
    for (int i = 0; i < N_LIVES; i++) {
        CUdeviceptr block = alloc(kind, n_bytes);
        ids[i] = id_of(block);
        ck_assert_uint_eq(id_of(block + n_bytes - 1), ids[i]);
        ck_assert_uint_ne(ids[i], other_id);
        for (int j = 0; j < i; j++)
            ck_assert_uint_ne(ids[j], ids[i]);
        release(kind, block);
    }
    ck_assert_uint_eq(id_of(other), other_id);
    release(kind, other);
}

static bool is_synchronous(CUdeviceptr address) {
    unsigned char value[8] = {0};
    OK(cuPointerGetAttribute(value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    return value[0];
}

static void set_synchronous(CUdeviceptr address, unsigned value) {
    OK(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
}

TEST(sync_memops_is_a_block_s_and_ends_with_it, .n = N_KINDS * N_SIZES) {
    enum kind kind = (enum kind)(_i / N_SIZES);
    size_t n_bytes = sizes[_i % N_SIZES];
    CUdeviceptr blocks[N_BLOCKS];
    fixture_use_device(0);
    for (int i = 0; i < N_BLOCKS; i++)
        blocks[i] = alloc(kind, n_bytes);
    set_synchronous(blocks[0] + n_bytes - 1, 1);
    set_synchronous(blocks[1], 1);
    set_synchronous(blocks[1], 1);
    ck_assert(is_synchronous(blocks[0]) && is_synchronous(blocks[1]));
    ck_assert(!is_synchronous(blocks[2]));
    set_synchronous(blocks[1], 0);
    ck_assert(!is_synchronous(blocks[1]) && is_synchronous(blocks[0]));
    release(kind, blocks[0]);
    blocks[0] = alloc(kind, n_bytes);
    ck_assert(!is_synchronous(blocks[0]));
    for (int i = 0; i < N_BLOCKS; i++)
        release(kind, blocks[i]);
}

/* The driver's attribute belongs to the segment, and goes with the last block that had it. */
TEST(a_segment_is_synchronous_while_a_block_of_it_is) {
    fixture_use_device(0);
    CUdeviceptr first = fixture_alloc(1000), second = fixture_alloc(1000);
    set_synchronous(first, 1);
    set_synchronous(second, 1);
    unsigned long n = sim_calls("cuPointerSetAttribute");
    OK(cuMemFree(first));
    ck_assert_uint_eq(sim_calls("cuPointerSetAttribute"), n);
    OK(cuMemFreeAsync(second, NULL));
    if (fixture_is_preloaded())
        ck_assert_uint_eq(sim_calls("cuPointerSetAttribute"), n + 1);
}

TEST(nothing_is_known_of_freed_memory, .n = N_KINDS * N_SIZES) {
    enum kind kind = (enum kind)(_i / N_SIZES);
    size_t n_bytes = sizes[_i % N_SIZES];
    CUdeviceptr base, device_address;
    size_t n;
    unsigned flags = 0, value = 1;
    fixture_use_device(0);
    CUdeviceptr block = alloc(kind, n_bytes), keeps = alloc(kind, n_bytes);
    release(kind, block);
    ANSWERS(cuMemGetAddressRange(&base, &n, block), CUDA_ERROR_NOT_FOUND);
    ANSWERS(cuMemGetAddressRange(&base, &n, block + n_bytes - 1), CUDA_ERROR_NOT_FOUND);
    ANSWERS(cuMemHostGetFlags(&flags, (void *)block), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemHostGetDevicePointer(&device_address, (void *)block, 0), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block),
            CUDA_ERROR_INVALID_VALUE);
    release(kind, keeps);
}

TEST(pinned_memory_ends_where_it_ends, .n = N_KINDS * N_SIZES) {
    CUdeviceptr device_address;
    unsigned flags = 0;
    fixture_use_device(0);
    size_t n_bytes = sizes[_i % N_SIZES];
    char *block = (char *)alloc(PINNED, n_bytes);
    for (size_t offset = 0; offset < n_bytes; offset += n_bytes - 1) {
        OK(cuMemHostGetFlags(&flags, block + offset));
        ck_assert_uint_eq(flags, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
        OK(cuMemHostGetDevicePointer(&device_address, block + offset, 0));
        ck_assert_uint_eq(device_address, (CUdeviceptr)block + offset);
    }
    ANSWERS(cuMemHostGetFlags(&flags, block + n_bytes), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemHostGetDevicePointer(&device_address, block + n_bytes, 0),
            CUDA_ERROR_INVALID_VALUE);
}

/* Give hints and ask questions about a range of managed memory. */
static CUresult advise(CUdeviceptr address, size_t n_bytes) {
    const CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    return cuMemAdvise(address, n_bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, device);
}

static CUresult prefetch(CUdeviceptr address, size_t n_bytes) {
    const CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    return cuMemPrefetchAsync(address, n_bytes, device, 0, NULL);
}

static CUresult discard(CUdeviceptr address, size_t n_bytes) {
    return cuMemDiscardBatchAsync(&address, &n_bytes, 1, 0, NULL);
}

static CUresult ask(CUdeviceptr address, size_t n_bytes) {
    int value;
    return cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address,
                                  n_bytes);
}

static CUresult ask_all(CUdeviceptr address, size_t n_bytes) {
    int value;
    void *data = &value;
    size_t data_bytes = sizeof value;
    CUmem_range_attribute attribute = CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION;
    return cuMemRangeGetAttributes(&data, &data_bytes, &attribute, 1, address, n_bytes);
}

static CUresult set(CUdeviceptr address, size_t n_bytes) {
    return cuMemsetD8(address, 1, n_bytes);
}

TEST(managed_memory_ends_where_it_ends, .n = N_KINDS * N_SIZES) {
    static CUresult (*const calls[])(CUdeviceptr, size_t) = {advise, prefetch, discard,
                                                             ask,    ask_all,  set};
    static const size_t behind[] = {0, 511, 512, 65535, 65536, 200000};
    size_t n_bytes = sizes[_i % N_SIZES];
    fixture_use_device(0);
    CUdeviceptr block = alloc(MANAGED, n_bytes);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        OK(calls[i](block, n_bytes));
        OK(calls[i](block + n_bytes - 1, 1));
        ANSWERS(calls[i](block, n_bytes + 1), CUDA_ERROR_INVALID_VALUE);
        ANSWERS(calls[i](block + n_bytes - 1, 2), CUDA_ERROR_INVALID_VALUE);
        for (size_t j = 0; j < sizeof behind / sizeof *behind; j++)
            ANSWERS(calls[i](block + n_bytes + behind[j], 1), CUDA_ERROR_INVALID_VALUE);
    }
    release(MANAGED, block);
    ANSWERS(ask(block, n_bytes), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(ask_all(block, n_bytes), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(advise(block, n_bytes), CUDA_ERROR_INVALID_VALUE);
}

TEST(managed_memory_is_attached_whole, .n = N_KINDS * N_SIZES) {
    fixture_use_device(0);
    size_t n_bytes = sizes[_i % N_SIZES];
    CUdeviceptr block = alloc(MANAGED, n_bytes);
    OK(cuStreamAttachMemAsync(NULL, block, 0, CU_MEM_ATTACH_GLOBAL));
    OK(cuStreamAttachMemAsync(NULL, block, n_bytes, CU_MEM_ATTACH_GLOBAL));
    ANSWERS(cuStreamAttachMemAsync(NULL, block, n_bytes - 1, CU_MEM_ATTACH_GLOBAL),
            CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuStreamAttachMemAsync(NULL, block + n_bytes, 0, CU_MEM_ATTACH_GLOBAL),
            CUDA_ERROR_INVALID_VALUE);
}

int main(void) {
    return fixture_run("questions");
}
