/*
 * Mapped memory that serves again: the software device is asked for nothing while a program gives
 * back and asks for the same, and every answer and content is what it alone would give.
 */
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cushim/preload.h"
#include "tests/preload/fixture/fixture.h"

enum { PAGE = 2 * MIB };

static const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .requestedHandleTypes =
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUmemAccessDesc for_all = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

/* The seven calls. */
struct calls {
    __typeof__(&cuMemCreate) create;
    __typeof__(&cuMemRelease) release;
    __typeof__(&cuMemAddressReserve) reserve;
    __typeof__(&cuMemAddressFree) unreserve;
    __typeof__(&cuMemMap) map;
    __typeof__(&cuMemUnmap) unmap;
    __typeof__(&cuMemSetAccess) set_access;
};

static const struct calls hooked = {cuMemCreate,      cuMemRelease, cuMemAddressReserve,
                                    cuMemAddressFree, cuMemMap,     cuMemUnmap,
                                    cuMemSetAccess};
static const char *const names[] = {"cuMemCreate",      "cuMemRelease", "cuMemAddressReserve",
                                    "cuMemAddressFree", "cuMemMap",     "cuMemUnmap",
                                    "cuMemSetAccess"};
enum { N_CALLS = sizeof names / sizeof *names };

static unsigned long driver_calls(void) {
    unsigned long n = 0;
    for (int i = 0; i < N_CALLS; i++)
        n += sim_calls(names[i]);
    return n;
}

static struct cushim_preload_stats counted(void) {
    struct cushim_preload_stats stats = {.struct_size = sizeof stats};
    int (*ask)(int, int, struct cushim_preload_stats *);
    *(void **)&ask = dlsym(RTLD_DEFAULT, "cushim_preload_stats");
    ck_assert(ask && ask(-1, CUSHIM_PRELOAD_MAPPED, &stats) == 0);
    return stats;
}

static size_t free_bytes(void) {
    size_t left_bytes, total_bytes;
    OK(cuMemGetInfo(&left_bytes, &total_bytes));
    return left_bytes;
}

/* A mapping of one handle over its reservation, and what the program has of it. */
struct whole {
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    size_t n_bytes;
};

static void ask_handle(struct whole *whole) {
    OK(cuMemCreate(&whole->handle, whole->n_bytes, &on_device, 0));
}

static void ask_address(struct whole *whole) {
    OK(cuMemAddressReserve(&whole->address, whole->n_bytes, 0, 0, 0));
}

static void map(const struct whole *whole) {
    OK(cuMemMap(whole->address, whole->n_bytes, 0, whole->handle, 0));
    OK(cuMemSetAccess(whole->address, whole->n_bytes, &for_all, 1));
}

static struct whole take(size_t n_bytes) {
    struct whole whole = {.n_bytes = n_bytes};
    ask_handle(&whole);
    ask_address(&whole);
    map(&whole);
    return whole;
}

static void unmap(const struct whole *whole) {
    OK(cuMemUnmap(whole->address, whole->n_bytes));
}

static void release(const struct whole *whole) {
    OK(cuMemRelease(whole->handle));
}

static void unreserve(const struct whole *whole) {
    OK(cuMemAddressFree(whole->address, whole->n_bytes));
}

static void give(const struct whole *whole) {
    unmap(whole);
    release(whole);
    unreserve(whole);
}

static void use(const struct whole *whole, unsigned char value) {
    fixture_fill_pages(whole->address, value, whole->n_bytes);
    ck_assert(fixture_pages_are_filled(whole->address, value, whole->n_bytes));
}

/* A whole mapping that the program had and gave back. */
static struct whole parked(size_t n_bytes) {
    struct whole whole;
    fixture_use_device(0);
    whole = take(n_bytes);
    use(&whole, 0x11);
    give(&whole);
    return whole;
}

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
        ck_assert_uint_eq(counted().live_bytes, 0);
        ck_assert_uint_eq(counted().n_requests, 12 * N_ARRAYS);
        ck_assert_uint_eq(counted().n_frees, 12 * N_ARRAYS);
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
        ck_assert_uint_eq(counted().live_bytes, 0);
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

/* ---- how much is idle ---- */

TEST(idle_memory_is_free_memory) {
    fixture_use_device(0);
    size_t before_bytes = free_bytes();
    parked(8 * PAGE);
    ck_assert_uint_eq(free_bytes(), before_bytes);
    if (!fixture_pools_mapped_memory())
        return;
    ck_assert_uint_eq(counted().idle_bytes, 8 * PAGE);
    ck_assert_uint_eq(counted().held_bytes, 8 * PAGE);
    size_t (*trim)(void);
    *(void **)&trim = dlsym(RTLD_DEFAULT, "cushim_preload_trim");
    ck_assert_uint_eq(trim(), 8 * PAGE);
    ck_assert_uint_eq(counted().held_bytes, 0);
}

/* A device of 1 GiB, or a limit of half of that. */
TEST(idle_memory_makes_room_for_any_request, .n = 3) {
    struct whole wholes[64];
    fixture_use_device(0);
    size_t most_bytes = free_bytes() / 8 / PAGE * PAGE;
    for (int turn = 0; turn < 6; turn++) { /* it has earned to stay */
        for (int i = 0; i < 6; i++)
            wholes[i] = take(most_bytes);
        for (int i = 0; i < 6; i++)
            give(&wholes[i]);
    }
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    size_t wanted_bytes = free_bytes() / PAGE * PAGE - PAGE;
    if (_i == 0)
        OK(cuMemAlloc(&address, wanted_bytes));
    else if (_i == 1)
        OK(cuMemCreate(&handle, wanted_bytes, &on_device, 0));
    else
        OK(cuMemAllocAsync(&address, wanted_bytes / 2, NULL));
    if (fixture_is_preloaded() && getenv("CUSHIM_LIMIT")) /* idle memory is charged */
        ck_assert_uint_le(sim_used_bytes(0), (size_t)513 * MIB);
}

TEST(what_sleeps_goes_back_beyond_what_may_be_idle) {
    fixture_use_device(0);
    size_t before_bytes = sim_used_bytes(0);
    struct whole whole = take(64 * PAGE);
    unmap(&whole);
    release(&whole);
    ck_assert_uint_eq(sim_used_bytes(0), before_bytes); /* 128 MiB are more than may stay */
    ask_handle(&whole);
    map(&whole);
    use(&whole, 0x12);
    give(&whole);
}

TEST(idle_memory_goes_before_its_context) {
    CUcontext context = fixture_use_device(0);
    size_t before_bytes = sim_used_bytes(0);
    struct whole whole = take(PAGE);
    give(&whole);
    OK(cuDevicePrimaryCtxReset(0));
    ck_assert_uint_le(sim_used_bytes(0), before_bytes);
    (void)context;
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
            ck_assert_uint_eq(counted().held_bytes, 0);
    }
    ck_assert_uint_ge(n_refused, 10);
}

/* ---- as the software device alone ---- */

enum { N_SLOTS = 4, N_TURNS = 120, N_ORDERS = 200 };
enum { CREATE, RESERVE, MAP, ACCESS, UNMAP, RELEASE, UNRESERVE };

/* What a world has: handles, addresses, and which handle is mapped where. */
struct world {
    const struct calls *calls;
    CUmemGenericAllocationHandle handles[N_SLOTS];
    CUdeviceptr addresses[N_SLOTS];
};

/* What both know, and the byte that was last written through each handle; 0: none. */
struct model {
    bool has_handle[N_SLOTS], has_address[N_SLOTS];
    int mapped[N_SLOTS]; /* at this address: which handle; -1: none */
    bool is_open[N_SLOTS];
    int holder[N_SLOTS]; /* of a mapping: the life of the handle */
    unsigned char written[N_SLOTS * 1000];
    int life[N_SLOTS], n_lives;
};

static unsigned draw(unsigned long *state, unsigned n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33) % n;
}

static size_t size_of(unsigned slot) {
    return PAGE * (size_t)(1 + slot % 2);
}

/* Has no slot of either world a handle, or an address, that another one gave back?  Nor may the
 * other world have it idle, which only the driver knows. */
static bool is_nobodys(const struct world *worlds, unsigned slot, bool is_handle) {
    CUmemAllocationProp properties;
    unsigned long long flags;
    __typeof__(&cuMemGetAllocationPropertiesFromHandle) ask;
    __typeof__(&cuMemGetAccess) ask_at;
    *(void **)&ask = fixture_entry_of_driver("cuMemGetAllocationPropertiesFromHandle");
    *(void **)&ask_at = fixture_entry_of_driver("cuMemGetAccess");
    for (unsigned i = 0; i < 2 * N_SLOTS; i++) {
        const struct world *world = &worlds[i / N_SLOTS];
        for (int w = 0; w < 2; w++) {
            if ((world != &worlds[w] || i % N_SLOTS != slot) &&
                (is_handle ? world->handles[i % N_SLOTS] == worlds[w].handles[slot]
                           : world->addresses[i % N_SLOTS] == worlds[w].addresses[slot]))
                return false;
        }
    }
    return is_handle ? ask(&properties, worlds[1].handles[slot]) != CUDA_SUCCESS
                     : ask_at(&flags, &for_all.location, worlds[1].addresses[slot]) != CUDA_SUCCESS;
}

static CUresult call(struct world *world, unsigned what, unsigned a, unsigned h) {
    const struct calls *calls = world->calls;
    switch (what) {
    case CREATE:
        return calls->create(&world->handles[h], size_of(h), &on_device, 0);
    case RESERVE:
        return calls->reserve(&world->addresses[a], size_of(a), 0, 0, 0);
    case MAP:
        return calls->map(world->addresses[a], size_of(h), 0, world->handles[h], 0);
    case ACCESS:
        return calls->set_access(world->addresses[a], size_of(a), &for_all, 1);
    case UNMAP:
        return calls->unmap(world->addresses[a], size_of(a));
    case RELEASE:
        return calls->release(world->handles[h]);
    default:
        return calls->unreserve(world->addresses[a], size_of(a));
    }
}

/* What changes if the call succeeds. */
static void note(struct model *model, unsigned what, unsigned a, unsigned h) {
    switch (what) {
    case CREATE:
        model->has_handle[h] = true;
        model->life[h] = model->n_lives++;
        break;
    case RESERVE:
        model->has_address[a] = true;
        model->mapped[a] = -1;
        break;
    case MAP:
        model->mapped[a] = (int)h;
        model->holder[a] = model->life[h];
        model->is_open[a] = false;
        break;
    case ACCESS:
        model->is_open[a] = true;
        break;
    case UNMAP:
        model->mapped[a] = -1;
        break;
    case RELEASE:
        model->has_handle[h] = false;
        break;
    default:
        model->has_address[a] = false;
    }
}

/* What each has at a place that it can reach is what was last written there. */
static void check_contents(struct world *worlds, struct model *model, unsigned a,
                           unsigned char value) {
    if (!model->has_address[a] || model->mapped[a] < 0 || !model->is_open[a])
        return;
    size_t n_bytes = size_of((unsigned)model->mapped[a]);
    unsigned char *written = &model->written[model->holder[a]];
    for (int w = 0; w < 2; w++) {
        CUdeviceptr last = worlds[w].addresses[a] + n_bytes - KIB;
        if (*written)
            ck_assert(fixture_is_filled(last, *written, KIB));
        fixture_fill(last, value, KIB);
    }
    OK(cuCtxSynchronize()); /* before anybody unmaps it */
    *written = value;
}

static struct calls driver_alone(void) {
    struct calls calls;
    *(void **)&calls.create = fixture_entry_of_driver("cuMemCreate");
    *(void **)&calls.release = fixture_entry_of_driver("cuMemRelease");
    *(void **)&calls.reserve = fixture_entry_of_driver("cuMemAddressReserve");
    *(void **)&calls.unreserve = fixture_entry_of_driver("cuMemAddressFree");
    *(void **)&calls.map = fixture_entry_of_driver("cuMemMap");
    *(void **)&calls.unmap = fixture_entry_of_driver("cuMemUnmap");
    *(void **)&calls.set_access = fixture_entry_of_driver("cuMemSetAccess");
    return calls;
}

/* May the call be made?  Nothing is to be lost, and what was given back nobody else's. */
static bool may_call(const struct world *worlds, const struct model *model, unsigned what,
                     unsigned a, unsigned h, bool is_alone) {
    bool of_handle = what == CREATE || what == MAP || what == RELEASE;
    bool of_address = what != CREATE && what != RELEASE;
    if (what == CREATE || what == RESERVE)
        return of_handle ? !model->has_handle[h] : !model->has_address[a];
    return (!of_handle || model->has_handle[h] || (is_alone && is_nobodys(worlds, h, true))) &&
           (!of_address || model->has_address[a] || (is_alone && is_nobodys(worlds, a, false)));
}

static void run_order(unsigned long state, bool is_alone) {
    const struct calls alone = driver_alone();
    struct world worlds[2] = {{.calls = &hooked}, {.calls = &alone}};
    struct model model = {0};
    for (unsigned turn = 0; turn < N_TURNS; turn++) {
        unsigned what = draw(&state, 7), a = draw(&state, N_SLOTS), h = draw(&state, N_SLOTS);
        if (draw(&state, 3)) /* most of all wholes */
            h = a;
        if (!may_call(worlds, &model, what, a, h, is_alone))
            continue;
        CUresult answer = call(&worlds[1], what, a, h);
        ck_assert_msg(call(&worlds[0], what, a, h) == answer, "call %u of turn %u", what, turn);
        if (answer == CUDA_SUCCESS)
            note(&model, what, a, h);
        check_contents(worlds, &model, a, (unsigned char)(1 + turn % 250));
    }
    for (unsigned slot = 0; slot < N_SLOTS; slot++) {
        for (int w = 0; w < 2; w++) {
            if (model.has_address[slot]) {
                call(&worlds[w], UNMAP, slot, slot);
                OK(call(&worlds[w], UNRESERVE, slot, slot));
            }
            if (model.has_handle[slot])
                OK(call(&worlds[w], RELEASE, slot, slot));
        }
    }
}

TEST(random_orders_have_the_answers_of_the_driver_alone) {
    fixture_use_device(0);
    for (unsigned long order = 0; order < suite_steps(N_ORDERS); order++)
        run_order(order * 7919 + 1, true);
    if (fixture_is_preloaded())
        ck_assert_uint_eq(counted().live_bytes, 0);
}

static void run_orders(struct fixture_thread *thread) {
    for (unsigned long order = 0; order < suite_steps(N_ORDERS) / 4; order++)
        run_order(order * 104729 + thread->other + 1, false);
}

TEST(random_orders_of_threads_have_the_answers_of_the_driver_alone) {
    struct fixture_thread threads[8];
    CUcontext context = fixture_use_device(0);
    for (int i = 0; i < 8; i++) {
        threads[i] = (struct fixture_thread){.context = context, .other = (CUdeviceptr)i * 6700417};
        fixture_start(&threads[i], run_orders);
    }
    for (int i = 0; i < 8; i++)
        fixture_join(&threads[i]);
    if (fixture_is_preloaded())
        ck_assert_uint_eq(counted().live_bytes, 0);
}

/* ---- a call that waits ---- */

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
/* Live blocks of random sizes, each step the same ones, that are given back in random order. */
static void live_through_a_step(void) {
    enum { N = 120, MOST_LIVE = 12 };
    struct whole live[MOST_LIVE];
    unsigned long state = 2;
    unsigned n = 0;
    for (unsigned i = 0; i < N; i++) {
        while (n == MOST_LIVE || (n && draw(&state, 3) == 0)) {
            unsigned k = draw(&state, n);
            give(&live[k]);
            live[k] = live[--n];
        }
        live[n++] = take(PAGE * (1 + (size_t)draw(&state, 12)));
    }
    while (n)
        give(&live[--n]);
}

TEST_IF(fixture_pools_mapped_memory(), no_request_makes_more_held_than_may_be) {
    fixture_use_device(0);
    for (int step = 0; step < 5; step++)
        live_through_a_step();
    struct cushim_preload_stats stats = counted();
    uint64_t live_bytes = stats.peak_live_bytes, margin_bytes = live_bytes / 16 + 32 * MIB;
    ck_assert_uint_gt(stats.n_no_call, stats.n_requests / 2);
    if (margin_bytes < live_bytes / 16 * 5)
        margin_bytes = live_bytes / 16 * 5;
    ck_assert_uint_le(stats.peak_held_bytes, live_bytes + margin_bytes);
}

TEST_IF(fixture_pools_mapped_memory() && !getenv("CUSHIM_LIMIT"),
        idle_memory_of_both_kinds_shares_what_is_free) {
    const size_t n_bytes = 300 * MIB, slack_bytes = 32 * MIB;
    size_t left_bytes, total_bytes;
    __typeof__(&cuMemGetInfo) ask;
    fixture_use_device(0);
    fixture_alloc(slack_bytes + 8 * MIB);
    take(slack_bytes + 8 * MIB);
    for (int i = 0; i < 4; i++) {
        OK(cuMemFree(fixture_alloc(n_bytes)));
        struct whole whole = take(200 * (size_t)MIB);
        give(&whole);
    }
    *(void **)&ask = fixture_entry_of_driver("cuMemGetInfo_v2");
    OK(ask(&left_bytes, &total_bytes));
    size_t idle_bytes = free_bytes() - left_bytes;
    ck_assert_uint_gt(idle_bytes, slack_bytes);
    ck_assert_uint_le(idle_bytes, left_bytes / 2 + 2 * slack_bytes);
}

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
