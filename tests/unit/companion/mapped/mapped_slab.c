/* Slabs: many small blocks in few driver allocations. */
#include <pthread.h>

#include "tests/unit/companion/mapped/mapped_fixture.h"

enum { N_BLOCKS = 1000 };

TEST(small_blocks_share_few_allocations_and_no_byte) {
    static struct cushim_mapped *blocks[N_BLOCKS];
    struct cushim_mapper *mapper = open_mapper(0);
    uint64_t state = 1;
    for (int i = 0; i < N_BLOCKS; i++) {
        size_t bytes = 1 + suite_random(&state) % 5000;
        blocks[i] = alloc(mapper, bytes, CUSHIM_MAPPED_FLAG_SLAB);
        ck_assert_uint_eq(device_of(blocks[i]) % 256, 0);
        memset(host_of(blocks[i]), i, bytes);
    }
    ck_assert_uint_le(fake()->n_allocated, 3);
    for (int i = 0; i < N_BLOCKS; i++) {
        size_t bytes;
        ck_ok(cushim_mapped_size(blocks[i], &bytes));
        ck_assert_int_eq(host_of(blocks[i])[0], (char)i);
        ck_assert_int_eq(device_byte(blocks[i], bytes - 1), (char)i);
        ck_ok(cushim_mapped_free(blocks[i]));
    }
    ck_assert_int_eq(fake()->n_memories, 1); /* one slab stays for the next block */
    ck_ok(cushim_mapper_close(mapper));
    check_nothing_left();
}

TEST(a_freed_piece_serves_again_and_its_neighbours_keep_their_bytes) {
    struct cushim_mapper *mapper = open_mapper(0);
    struct cushim_mapped *a = alloc(mapper, 600, 1), *b = alloc(mapper, 256, 1),
                         *c = alloc(mapper, 1, 1);
    CUdeviceptr at = device_of(a);
    ck_assert_uint_eq(device_of(b), at + 768);
    ck_assert_uint_eq(device_of(c), at + 1024);
    memset(host_of(b), 7, 256);
    ck_ok(cushim_mapped_free(a));
    ck_assert_uint_eq(device_of(alloc(mapper, 769, 1)), at + 1280);
    a = alloc(mapper, 768, 1);
    ck_assert_uint_eq(device_of(a), at);
    memset(host_of(a), 8, 768);
    ck_assert_int_eq(device_byte(b, 0), 7);
}

TEST(each_large_block_has_its_own_span) {
    struct cushim_mapper *mapper = open_mapper(0);
    struct cushim_mapped *a = alloc(mapper, 512 << 10, 1), *b = alloc(mapper, (512 << 10) + 1, 1);
    ck_assert_uint_eq(fake()->n_allocated, 2);
    ck_ok(cushim_mapped_free(b));
    ck_assert_int_eq(fake()->n_memories, 1);
    ck_ok(cushim_mapped_free(a));
    ck_ok(cushim_mapper_close(mapper));
    check_nothing_left();
}

TEST(pieces_are_whole_atoms_of_any_size) {
    fake()->atom_bytes = 1024;
    struct cushim_mapper *mapper = open_mapper(CUSHIM_MAPPER_FLAG_NON_COHERENT);
    struct cushim_mapped *a = alloc(mapper, 100, 1), *b = alloc(mapper, 100, 1);
    ck_assert_uint_eq(device_of(b), device_of(a) + 1024);
    memset(host_of(a), 1, 100);
    memset(host_of(b), 2, 100);
    ck_ok(cushim_mapped_flush(a, 0, 100));
    ck_assert_int_eq(device_byte(a, 99), 1);
    ck_assert_int_eq(device_byte(b, 0), 0);
    ck_ok(cushim_mapped_flush(b, 0, 100));
    ck_assert_int_eq(device_byte(b, 0), 2);
    ck_ok(cushim_mapped_free(a));
    ck_assert_uint_eq(device_of(alloc(mapper, 1, 1)) + 1024, device_of(b));
    ck_assert_uint_eq(fake()->n_misuses, 0);
}

TEST(a_slab_serves_one_context_and_ends_with_it) {
    struct cushim_context *context;
    struct cushim_mapper *mapper;
    ck_ok(cushim_context_create(0, 0, &context));
    ck_ok(cushim_mapper_open(context, 0, &mapper));
    struct cushim_mapped *mapped = alloc(mapper, 1, 1);
    ck_ok(cushim_context_destroy(context));
    ck_ok(cushim_mapped_free(mapped));
    ck_assert_int_eq(fake()->n_memories, 0); /* it cannot serve any more */
    ck_ok(cushim_mapper_close(mapper));
    check_nothing_left();
}

/* The device is reset between the two, so the mapper has an empty slab for each context. */
TEST(an_empty_slab_stays_for_each_context) {
    struct cushim_mapper *mapper = open_mapper(0);
    ck_ok(cushim_mapped_free(alloc(mapper, 1, 1)));
    ck_assert_int_eq(fake()->n_memories, 1);
    ck_cu(SIM(cuDevicePrimaryCtxReset_v2)(0));
    struct cushim_mapped *mapped = alloc(mapper, 1, 1);
    ck_assert_int_eq(fake()->n_memories, 2);
    ck_ok(cushim_mapped_free(mapped));
    ck_assert_int_eq(fake()->n_memories, 2);
    mapped = alloc(mapper, 1, 1);
    ck_assert_int_eq(fake()->n_memories, 2); /* the slab serves again */
    ck_ok(cushim_mapped_free(mapped));
    ck_ok(cushim_mapper_close(mapper));
    ck_assert_int_eq(fake()->n_memories, 0);
}

static void *allocate_and_free(void *mapper) {
    uint64_t state = (uintptr_t)&state | 1;
    struct cushim_mapped *held[8] = {0};
    size_t sizes[8];
    for (int i = 0; i < 2000; i++) {
        int at = (int)(suite_random(&state) % 8);
        if (held[at]) {
            const char *host = host_of(held[at]);
            ck_assert_int_eq(host[0], (char)at);
            ck_assert_int_eq(host[sizes[at] - 1], (char)at);
            ck_ok(cushim_mapped_free(held[at]));
        }
        sizes[at] = 1 + suite_random(&state) % 100000;
        held[at] = alloc(mapper, sizes[at], CUSHIM_MAPPED_FLAG_SLAB);
        memset(host_of(held[at]), at, sizes[at]);
    }
    for (int at = 0; at < 8; at++)
        ck_ok(cushim_mapped_free(held[at]));
    return NULL;
}

TEST(threads_share_the_slabs_of_a_mapper) {
    struct cushim_mapper *mapper = open_mapper(0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, allocate_and_free, mapper);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_ok(cushim_mapper_close(mapper));
    check_nothing_left();
}

SUITE() {
    return tests_run("mapped slab");
}
