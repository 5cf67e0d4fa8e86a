/*
 * Mapped memory that serves again: the software device is asked for nothing while a program gives
 * back and asks for the same, and every answer and content is what it alone would give.
 */
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/preload/memory/mapped_fixture.h"

/* ---- no driver call ---- */

TEST(a_step_of_jax_asks_the_driver_for_nothing_after_its_first_turns) {
    enum { N_ARRAYS = 10 }; /* of 30 MiB, which may stay however long a turn takes */
    struct whole arrays[N_ARRAYS];
    fixture_use_device(0);
    for (int turn = 0; turn < 12; turn++) {
        if (turn == 6)
            sim_calls_reset();
        for (size_t i = 0; i < N_ARRAYS; i++) {
            arrays[i] = take(PAGE << i % 2);
            fixture_fill_pages(arrays[i].address, (unsigned char)i, arrays[i].n_bytes);
        }
        for (size_t i = 0; i < N_ARRAYS; i++) {
            ck_assert(
                fixture_pages_are_filled(arrays[i].address, (unsigned char)i, arrays[i].n_bytes));
            give(&arrays[i]);
        }
    }
    ck_assert_uint_eq(driver_calls(),
                      fixture_pools_mapped_memory() ? 0 : (unsigned long)(6 * N_ARRAYS * N_CALLS));
    if (fixture_is_preloaded()) {
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_MAPPED).live_bytes, 0);
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_MAPPED).n_requests, 12 * N_ARRAYS);
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_MAPPED).n_frees, 12 * N_ARRAYS);
    }
}

TEST(parts_are_asked_for_and_given_back_in_any_order, .n = 12) {
    struct whole first = parked(4 * PAGE), again = {.n_bytes = 4 * PAGE};
    sim_calls_reset();
    if (_i & 1) {
        ask_address(&again);
        ask_handle(&again);
    } else {
        ask_handle(&again);
        ask_address(&again);
    }
    map(&again);
    use(&again, 0x22);
    switch (_i / 2) {
    case 0:
        give(&again);
        break;
    case 1:
        release(&again);
        unmap(&again);
        unreserve(&again);
        break;
    case 2:
        unmap(&again);
        unreserve(&again);
        release(&again);
        break;
    case 3: /* before it is mapped again */
        unmap(&again);
        map(&again);
        give(&again);
        break;
    case 4: /* asleep, and awake */
        unmap(&again);
        release(&again);
        ask_handle(&again);
        map(&again);
        give(&again);
        break;
    default: /* looked at */
        OK(cuMemRetainAllocationHandle(&again.handle, (void *)(uintptr_t)again.address));
        release(&again);
        give(&again);
    }
    struct whole last = take(4 * PAGE);
    if (!fixture_pools_mapped_memory())
        return;
    ck_assert_uint_eq(driver_calls(), _i / 2 == 5 ? 1 : 0); /* one reference of two goes back */
    ck_assert(last.address == first.address && again.address == first.address);
    ck_assert(last.handle == first.handle && again.handle == first.handle);
}

TEST(a_thread_gets_the_parts_of_one_mapping_while_another_is_half_way) {
    struct whole first, second, mine = {.n_bytes = PAGE}, other = {.n_bytes = PAGE};
    struct fixture_thread thread = {0};
    fixture_use_device(0);
    first = take(PAGE);
    second = take(PAGE);
    give(&first);
    give(&second);
    sim_calls_reset();
    ask_handle(&mine);
    (void)thread;
    ask_address(&mine);
    ask_address(&other);
    ask_handle(&other);
    map(&mine);
    map(&other);
    use(&mine, 1);
    use(&other, 2);
    ck_assert(fixture_pages_are_filled(mine.address, 1, PAGE));
    if (fixture_pools_mapped_memory())
        ck_assert_uint_eq(driver_calls(), 0);
}

/* ---- what is refused, as without cushim ---- */

TEST(what_was_given_back_is_refused) {
    struct whole whole = parked(4 * PAGE);
    ANSWERS(cuMemRelease(whole.handle), CUDA_ERROR_INVALID_VALUE);
    whole = parked(4 * PAGE);
    ANSWERS(cuMemAddressFree(whole.address, whole.n_bytes), CUDA_ERROR_INVALID_VALUE);
    whole = parked(4 * PAGE);
    ANSWERS(cuMemUnmap(whole.address, whole.n_bytes), CUDA_ERROR_INVALID_VALUE);
    whole = parked(4 * PAGE);
    ANSWERS(cuMemMap(whole.address, whole.n_bytes, 0, whole.handle, 0), CUDA_ERROR_INVALID_VALUE);
    whole = parked(4 * PAGE);
    ANSWERS(cuMemSetAccess(whole.address, whole.n_bytes, &for_all, 1), CUDA_ERROR_INVALID_VALUE);
    whole = parked(4 * PAGE);
    CUmemGenericAllocationHandle again;
    ANSWERS(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)whole.address),
            CUDA_ERROR_INVALID_VALUE);
    unsigned long long flags;
    unsigned char byte = 0;
    whole = parked(4 * PAGE);
    ANSWERS(cuMemsetD8(whole.address + PAGE, 1, 16), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemcpyDtoH(&byte, whole.address, 1), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemcpyHtoDAsync(whole.address, &byte, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemGetAccess(&flags, &for_all.location, whole.address), CUDA_ERROR_INVALID_VALUE);
    int shared;
    whole = parked(4 * PAGE);
    ANSWERS(cuMemExportToShareableHandle(&shared, whole.handle,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE);
}

TEST(what_is_out_of_order_is_refused) {
    struct whole whole;
    parked(4 * PAGE);
    whole = take(4 * PAGE);
    ANSWERS(cuMemAddressFree(whole.address, whole.n_bytes), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemMap(whole.address, whole.n_bytes, 0, whole.handle, 0), CUDA_ERROR_ALREADY_MAPPED);
    ANSWERS(cuMemUnmap(whole.address, PAGE), CUDA_ERROR_INVALID_VALUE);
    use(&whole, 0x33);
    unmap(&whole);
    OK(cuMemUnmap(whole.address, whole.n_bytes)); /* what is not mapped is passed over */
    ANSWERS(cuMemSetAccess(whole.address, whole.n_bytes, &for_all, 1), CUDA_ERROR_INVALID_VALUE);
    unreserve(&whole);
    ANSWERS(cuMemAddressFree(whole.address, whole.n_bytes), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemMap(whole.address, whole.n_bytes, 0, whole.handle, 0), CUDA_ERROR_INVALID_VALUE);
    release(&whole);
    ANSWERS(cuMemRelease(whole.handle), CUDA_ERROR_INVALID_VALUE);
}

/* ---- whatever else is asked of a part ---- */

TEST(another_handle_is_mapped_at_an_address_that_is_asleep) {
    struct whole whole, other = {.n_bytes = PAGE};
    parked(4 * PAGE);
    whole = take(4 * PAGE);
    use(&whole, 0x44);
    unmap(&whole);
    ask_handle(&other);
    other.address = whole.address + PAGE;
    map(&other);
    use(&other, 0x55);
    struct whole elsewhere = whole; /* the handle has its contents */
    ask_address(&elsewhere);
    map(&elsewhere);
    ck_assert(fixture_pages_are_filled(elsewhere.address, 0x44, 4 * PAGE));
    ck_assert(fixture_pages_are_filled(other.address, 0x55, PAGE));
    ANSWERS(cuMemAddressFree(whole.address, whole.n_bytes), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(whole.address, whole.n_bytes));
    release(&other);
    unreserve(&whole);
    give(&elsewhere);
    if (fixture_is_preloaded())
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_MAPPED).live_bytes, 0);
}

TEST(memory_that_another_has_a_handle_of_does_not_serve_again) {
    int shared;
    CUmemGenericAllocationHandle imported;
    struct whole whole, again;
    parked(PAGE);
    whole = take(PAGE);
    use(&whole, 0x66);
    OK(cuMemExportToShareableHandle(&shared, whole.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                    0));
    unmap(&whole);
    map(&whole);
    give(&whole);
    again = take(PAGE);
    use(&again, 0x77);
    OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)shared,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    struct whole theirs = {.n_bytes = PAGE, .handle = imported};
    ask_address(&theirs);
    map(&theirs);
    ck_assert(fixture_pages_are_filled(theirs.address, 0x66, PAGE));
    close(shared);
}

TEST(a_hint_gets_the_address_that_it_would_get) {
    CUdeviceptr address;
    struct whole whole = parked(4 * PAGE);
    OK(cuMemAddressReserve(&address, PAGE, 0, whole.address + PAGE, 0));
    ck_assert_uint_eq(address, whole.address + PAGE);
}

TEST(other_sizes_properties_and_alignments_are_not_served) {
    struct whole whole = parked(4 * PAGE);
    CUmemAllocationProp other = on_device;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    other.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    OK(cuMemCreate(&handle, 4 * PAGE, &other, 0));
    ck_assert_uint_ne(handle, whole.handle);
    OK(cuMemCreate(&handle, 3 * PAGE, &on_device, 0));
    ck_assert_uint_ne(handle, whole.handle);
    sim_calls_reset();
    OK(cuMemAddressReserve(&address, 4 * PAGE, 16 * PAGE, 0, 0));
    ck_assert_uint_eq(driver_calls(), 1);
}

/* ---- each call fails once ---- */

static void ask_again(CUresult answer, unsigned *n_refused) {
    *n_refused += answer != CUDA_SUCCESS;
}

#define UNTIL_DONE(call)                                                                           \
    do {                                                                                           \
        if ((call) == CUDA_SUCCESS)                                                                \
            break;                                                                                 \
        ask_again(CUDA_ERROR_UNKNOWN, n_refused);                                                  \
        OK(call);                                                                                  \
    } while (0)

/* All kinds of ways, by a program that asks again once. */
static void go_through(unsigned *n_refused) {
    struct whole a = {.n_bytes = 20 * PAGE}, b = {.n_bytes = 2 * PAGE};
    CUdeviceptr hint;
    for (int turn = 0; turn < 2; turn++) {
        UNTIL_DONE(cuMemCreate(&a.handle, a.n_bytes, &on_device, 0));
        UNTIL_DONE(cuMemAddressReserve(&a.address, a.n_bytes, 0, 0, 0));
        UNTIL_DONE(cuMemMap(a.address, a.n_bytes, 0, a.handle, 0));
        UNTIL_DONE(cuMemSetAccess(a.address, a.n_bytes, &for_all, 1));
        UNTIL_DONE(cuMemUnmap(a.address, a.n_bytes));
        UNTIL_DONE(cuMemCreate(&b.handle, b.n_bytes, &on_device, 0));
        UNTIL_DONE(cuMemMap(a.address, b.n_bytes, 0, b.handle, 0));
        UNTIL_DONE(cuMemUnmap(a.address, b.n_bytes));
        UNTIL_DONE(cuMemRelease(b.handle));
        UNTIL_DONE(cuMemMap(a.address, a.n_bytes, 0, a.handle, 0));
        UNTIL_DONE(cuMemUnmap(a.address, a.n_bytes));
        UNTIL_DONE(cuMemRelease(a.handle));
        UNTIL_DONE(cuMemAddressFree(a.address, a.n_bytes));
        UNTIL_DONE(cuMemAddressReserve(&hint, a.n_bytes, 0, a.address, 0));
        UNTIL_DONE(cuMemAddressFree(hint, a.n_bytes));
    }
}

TEST(each_call_fails_once_and_nothing_is_lost) {
    unsigned n_refused = 0;
    size_t (*trim)(void);
    *(void **)&trim = dlsym(RTLD_DEFAULT, "cushim_preload_trim");
    fixture_use_device(0);
    go_through(&n_refused);
    ck_assert_uint_eq(n_refused, 0);
    size_t before_bytes = sim_used_bytes(0);
    bool has_failed = true;
    for (unsigned call = 1; has_failed; call++) {
        sim_fail_at(call, CUDA_ERROR_UNKNOWN);
        go_through(&n_refused);
        has_failed = sim_has_failed();
        sim_fail_at(0, CUDA_SUCCESS);
        if (trim)
            trim();
        ck_assert_uint_le(sim_used_bytes(0), before_bytes);
        if (fixture_is_preloaded())
            ck_assert_uint_eq(counted(CUSHIM_PRELOAD_MAPPED).held_bytes, 0);
    }
    ck_assert_uint_ge(n_refused, 10);
}

/* ---- a call that waits ---- */

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
static atomic_int is_inside, may_go;

static CUresult wait_inside(CUdeviceptr address, size_t n_bytes) {
    (void)address;
    (void)n_bytes;
    atomic_store(&is_inside, 1);
    while (!atomic_load(&may_go))
        sched_yield();
    return CUDA_SUCCESS;
}

/* The driver's cuMemUnmap begins with what may be overwritten. */
static void make_it_wait(void) {
    unsigned char *code = fixture_entry_of_driver("cuMemUnmap");
    unsigned char jump[12] = {0x48, 0xb8, [10] = 0xff, 0xe0};
    CUresult (*to)(CUdeviceptr, size_t) = wait_inside;
    uintptr_t page = (uintptr_t)code & ~(uintptr_t)4095;
    memcpy(jump + 2, &to, sizeof to);
    ck_assert_int_eq(mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
    memcpy(code, jump, sizeof jump);
}

static void unmap_it(struct fixture_thread *thread) {
    thread->answer = cuMemUnmap(thread->address, PAGE);
}

TEST(an_unmap_that_waits_keeps_no_other_thread) {
    struct fixture_thread thread = {0};
    struct whole half = {.n_bytes = 2 * PAGE}, other;
    fixture_use_device(0);
    ask_address(&half);
    OK(cuMemCreate(&half.handle, PAGE, &on_device, 0));
    OK(cuMemMap(half.address, PAGE, 0, half.handle, 0));
    make_it_wait();
    thread.address = half.address;
    fixture_start(&thread, unmap_it);
    while (!atomic_load(&is_inside))
        sched_yield();
    other = take(PAGE); /* while that thread is in the driver */
    release(&other);
    atomic_store(&may_go, 1);
    fixture_join(&thread);
    OK(thread.answer);
}
#endif

int main(void) {
    return fixture_run("mapped_pool");
}
