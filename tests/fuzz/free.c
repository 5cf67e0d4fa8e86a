/*
 * Any sequence of allocations, frees, judgements, trims and abandons, checked against a list of
 * live blocks.
 *
 * One step is 4 bytes: an operation, a block, and two for a size. Freed, interior and foreign
 * addresses are freed too, as wrong programs do. The last byte chooses the mode of free.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/memory/heap_fixture.h"
#include "memory/heap.h"

enum { BLOCKS = 64, STEP_BYTES = 4 };

struct model_block {
    uint64_t address;
    size_t n_bytes;
    bool is_live;
};

static struct fixture *fixture;
static struct model_block blocks[BLOCKS];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* abort(), so that libFuzzer keeps the input. */
static void require(bool holds) {
    if (!holds)
        abort();
}

static size_t size_of(unsigned shape, unsigned number) {
    static const size_t units[] = {1, 16, 512, 4096};
    return 1 + (size_t)number * units[shape % 4];
}

static bool is_in_a_live_block(uint64_t address) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (blocks[i].is_live && address - blocks[i].address < blocks[i].n_bytes)
            return true;
    }
    return false;
}

static void obtain(struct model_block *block, size_t n_bytes) {
    enum cushim_status status;
    uint64_t address = fixture_obtain(fixture, n_bytes, &status);
    require(address ? status == CUSHIM_OK : status == CUSHIM_NOMEM);
    if (!address)
        return;
    require(!is_in_a_live_block(address) && !is_in_a_live_block(address + n_bytes - 1));
    for (unsigned i = 0; i < BLOCKS; i++) /* an address that is live again is not a freed one */
        blocks[i].address =
            !blocks[i].is_live && blocks[i].address == address ? 0 : blocks[i].address;
    *block = (struct model_block){address, n_bytes, true};
}

static void release(struct model_block *block, bool is_on_stream) {
    CUresult answer;
    bool was_live = block->is_live;
    if (!block->address || (!was_live && is_in_a_live_block(block->address)))
        return;
    enum cushim_status status =
        is_on_stream ? fixture_release_on(fixture, block->address, fake_stream(0), &answer)
                     : fixture_release(fixture, block->address, &answer);
    require(answer == CUDA_SUCCESS && (status == CUSHIM_OK) == was_live);
    block->is_live = false;
}

static void release_inside(const struct model_block *block, size_t offset) {
    CUresult answer;
    offset = 1 + offset % block->n_bytes;
    if (offset < block->n_bytes)
        require(fixture_release(fixture, block->address + offset, &answer) == CUSHIM_INVALID);
}

static void judge(const struct model_block *block, size_t offset, size_t n_bytes) {
    offset %= block->n_bytes;
    bool is_inside = n_bytes <= block->n_bytes - offset;
    require(fixture_judge(fixture, block->address + offset, n_bytes) ==
            (is_inside ? CUSHIM_MEM_INSIDE : CUSHIM_MEM_OVERRUN));
    require(fixture_judge(fixture, block->address + offset, SIZE_MAX - offset) ==
            CUSHIM_MEM_OVERRUN);
}

static void abandon(void) {
    cushim_mem_heap_abandon(&fixture->heaps[0]);
    for (unsigned i = 0; i < BLOCKS; i++)
        require(!blocks[i].is_live ||
                fixture_judge(fixture, blocks[i].address, 1) == CUSHIM_MEM_FOREIGN);
    memset(blocks, 0, sizeof blocks);
    fake_lose_all();
    fixture_open(fixture, 0);
}

static void step(const uint8_t *data) {
    struct model_block *block = &blocks[data[1] % BLOCKS];
    unsigned number = data[2] | (unsigned)data[3] << 8;
    switch (data[0] % 16) {
    case 0:
        fake_submit(number % 2 * 4);
        break;
    case 1:
        fake_finish(number % 2 * 4);
        break;
    case 2:
        fixture_trim(fixture, (size_t)number << 12);
        break;
    case 3:
        atomic_store(&fixture->policy.dedicated_bytes, ((size_t)2 + number % 64) << 20);
        atomic_store(&fixture->policy.is_dedicated_uncached, number >> 15);
        break;
    case 4:
        fake_limit(((size_t)number + 4096) << 16);
        break;
    case 5:
        atomic_store(&fixture_pass, number % 2 ? CUSHIM_MEM_PASS_RECORD : CUSHIM_MEM_PASS_RELAXED);
        break;
    case 6:
        if (number % 64 == 0)
            abandon();
        break;
    case 7:
        if (block->is_live)
            release_inside(block, number);
        break;
    case 8:
        if (block->is_live)
            judge(block, number, size_of(data[0] / 16, number ^ 0x5555));
        break;
    case 9:
    case 10:
        release(block, number % 4 == 0); /* whether it is live or not */
        break;
    default:
        if (block->is_live)
            release(block, number % 8 == 0);
        else
            obtain(block, size_of(data[0] / 16, number));
    }
}

/* The device is slow but makes progress: enough queries see the end of the work. */
static void get_on(const char *name) {
    static unsigned n_queries;
    if (strcmp(name, "cuEventQuery") == 0 && ++n_queries % 64 == 0) {
        fake_finish(0);
        fake_finish(4);
    }
}

/* One fixture for all inputs, because descriptors are never unmapped and each fixture would cost
 * memory. */
static void begin(bool is_relaxed) {
    if (!fixture) {
        fixture = fixture_create(NULL);
        cushim_mem_heap_abandon(&fixture->heaps[0]);
    }
    fake_reset();
    fake_on_call(get_on);
    fixture->policy.is_relaxed = is_relaxed;
    fake_set_current(fake_context(0));
    atomic_store(&fixture->policy.dedicated_bytes, (size_t)256 << 20);
    fixture_open(fixture, 0);
}

/* Completes all work and polls, so that it is known to be done. */
static void end_work(void) {
    struct cushim_mem_heap *heap = &fixture->heaps[0];
    CUresult answer;
    fake_finish(0);
    fake_finish(4);
    require(cushim_mem_fence_await(heap->fence, cushim_mem_fence_tag(heap->fence), 0,
                                   &fixture->stats, &answer) == CUSHIM_OK);
    pthread_mutex_lock(&heap->lock);
    cushim_mem_heap_give_deferred(heap);
    pthread_mutex_unlock(&heap->lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    begin(n_bytes && data[n_bytes - 1] & 1);
    memset(blocks, 0, sizeof blocks);
    for (size_t i = 0; i + STEP_BYTES <= n_bytes; i += STEP_BYTES) {
        step(data + i);
        if (i % (16 * STEP_BYTES) == 0)
            require(!fixture_fault(fixture));
    }
    fake_limit((size_t)1 << 44);
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RECORD);
    atomic_store(&fixture->policy.is_dedicated_uncached, false);
    for (unsigned i = 0; i < BLOCKS; i++)
        release(&blocks[i], false);
    end_work();
    obtain(&blocks[0], 1);
    release(&blocks[0], false);
    end_work();
    fixture_trim(fixture, 0);
    require(!fixture_fault(fixture) && fixture->heaps[0].held_bytes == 0 &&
            fake_n_allocations() == 0);
    cushim_mem_heap_abandon(&fixture->heaps[0]);
    return 0;
}
