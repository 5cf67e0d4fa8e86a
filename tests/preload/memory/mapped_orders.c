/*
 * Random orders of the calls for mapped memory: every answer and content is what the software
 * device alone gives.
 */
#include "tests/preload/memory/mapped_fixture.h"

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
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_MAPPED).live_bytes, 0);
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
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_MAPPED).live_bytes, 0);
}

int main(void) {
    return fixture_run("mapped_orders");
}
