/*
 * Held memory does not starve others: with a kernel that never ends, for another process, and for a
 * later request of any size, there is as much memory as without cushim
 * (docs/internals/memory-engine.md, "When memory is out").
 *
 * A held stream stands for a kernel that spins, so a call that waits for the device waits for ever.
 */
#include "tests/preload/fixture/fixture.h"

static size_t total_bytes(void) {
    size_t free_bytes, n_bytes;
    OK(cuMemGetInfo(&free_bytes, &n_bytes));
    return n_bytes;
}

static size_t free_bytes(void) {
    size_t n_bytes, all_bytes;
    OK(cuMemGetInfo(&n_bytes, &all_bytes));
    return n_bytes;
}

static bool is_mapped(void) {
    const char *backend = getenv("CUSHIM_BACKEND");
    bool is_reached = !getenv("CUSHIM_SIM_UNREACHABLE"); /* by the other device */
    return fixture_is_preloaded() && is_reached && backend && strcmp(backend, "vmm") == 0;
}

/* 60 % of the device in pieces, taken and freed. */
static void use_60_percent(unsigned n_pieces) {
    CUdeviceptr pieces[16];
    size_t n_bytes = total_bytes() / 100 * 60 / n_pieces;
    for (unsigned i = 0; i < n_pieces; i++)
        pieces[i] = fixture_alloc(n_bytes);
    for (unsigned i = 0; i < n_pieces; i++)
        OK(cuMemFree(pieces[i]));
}

/* Work runs until it is released. */
static void start_spinning(void) {
    CUdeviceptr word = fixture_alloc(512);
    sim_hold();
    fixture_launch_write(word, 1, fixture_stream());
    ck_assert_uint_gt(sim_pending(), 0);
}

static const unsigned pieces[] = {1, 2, 6, 16};
enum { N_PIECES = sizeof pieces / sizeof *pieces };

TEST(a_spinning_kernel_does_not_keep_70_percent_from_who_freed_60, .n = N_PIECES) {
    CUdeviceptr address;
    fixture_use_device(0);
    size_t all_bytes = total_bytes();
    use_60_percent(pieces[_i]);
    start_spinning();
    OK(cuMemAlloc(&address, all_bytes / 100 * 70));
    ck_assert_uint_gt(sim_pending(), 0);
    sim_release_hold();
    OK(cuMemFree(address));
}

TEST(nor_does_a_small_block_that_lives_on, .n = N_PIECES) {
    CUdeviceptr address;
    fixture_use_device(0);
    size_t all_bytes = total_bytes();
    fixture_alloc(1 * MIB);
    use_60_percent(pieces[_i]);
    start_spinning();
    OK(cuMemAlloc(&address, all_bytes / 100 * 70));
    ck_assert_uint_gt(sim_pending(), 0);
    sim_release_hold();
}

TEST(another_process_finds_60_percent_after_60_were_freed, .n = N_PIECES) {
    fixture_use_device(0);
    size_t all_bytes = total_bytes();
    use_60_percent(pieces[_i]);
    ck_assert_uint_le(sim_live_bytes(), all_bytes / 100 * 40);
}

TEST(the_free_memory_that_is_told_is_native) {
    CUdeviceptr blocks[200];
    fixture_use_device(0);
    size_t before_bytes = free_bytes();
    for (int i = 0; i < 200; i++)
        blocks[i] = fixture_alloc(i % 2 ? 3 * MIB : 30 * KIB);
    ck_assert_uint_le(free_bytes(), before_bytes - 300 * MIB);
    for (int i = 0; i < 200; i++)
        OK(cuMemFree(blocks[i]));
    ck_assert_uint_eq(free_bytes(), before_bytes);
    ck_assert_uint_eq(total_bytes(), 1024 * (size_t)MIB);
}

/* This cannot hold without mapped memory, because held memory goes back only after a wait for the
 * kernel. */
TEST(all_that_was_freed_can_be_had_while_a_kernel_spins_where_memory_is_mapped) {
    CUdeviceptr address;
    fixture_use_device(0);
    size_t all_bytes = total_bytes();
    use_60_percent(4);
    start_spinning();
    CUresult answer = cuMemAlloc(&address, all_bytes / 100 * 95);
    ck_assert_uint_gt(sim_pending(), 0);
    if (!fixture_is_preloaded() || is_mapped())
        ANSWERS(answer, CUDA_SUCCESS);
    else
        ck_assert(answer == CUDA_SUCCESS || answer == CUDA_ERROR_OUT_OF_MEMORY);
    sim_release_hold();
    if (answer != CUDA_SUCCESS)
        OK(cuMemAlloc(&address, all_bytes / 100 * 95));
}

TEST(memory_goes_with_its_context) {
    CUcontext context;
    OK(cuInit(0));
    OK(cuCtxCreate(&context, NULL, 0, 0));
    for (int i = 0; i < 10; i++)
        fixture_alloc(5 * MIB);
    ck_assert_uint_gt(sim_live_bytes(), 40 * MIB);
    OK(cuCtxDestroy(context));
    ck_assert_uint_eq(sim_live_bytes(), 0);
}

TEST(the_backend_is_the_one_asked_for) {
    CUipcMemHandle handle;
    fixture_use_device(0);
    CUdeviceptr address = fixture_alloc(20 * MIB);
    fixture_fill(address, 7, 20 * MIB);
    ck_assert(fixture_is_filled(address, 7, 20 * MIB));
    ck_assert_int_eq(sim_calls("cuMemCreate") > 0, is_mapped());
    ck_assert_int_eq(sim_calls("cuMemAlloc_v2") > 0, !is_mapped());
    ck_assert_int_eq(cuIpcGetMemHandle(&handle, address) != CUDA_SUCCESS, is_mapped());
    OK(cuMemFree(address));
}

int main(void) {
    return fixture_run("growth");
}
