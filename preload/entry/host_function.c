#include "preload/entry/host_function.h"

#include "base/bits.h"
#include "base/log.h"
#include "preload/state/process.h"

enum { LOG2_THUNKS = 8, N_THUNKS = 1 << LOG2_THUNKS };

/* A function goes to the first free place from its hash on, and stays there. */
static _Atomic(CUhostFn) functions[N_THUNKS];

static void run(unsigned place, void *data) {
    CUhostFn function = atomic_load_explicit(&functions[place], memory_order_acquire);
    cushim_thread_enter(&cushim_thread.host_function_depth);
    function(data);
    cushim_thread_leave(&cushim_thread.host_function_depth);
}

/* Repeat DO for each of the places 0x00 to 0xff, because each needs a name. */
/* clang-format off */
#define ROW(DO, n)                                                  \
    DO(n##0) DO(n##1) DO(n##2) DO(n##3) DO(n##4) DO(n##5) DO(n##6) DO(n##7) \
    DO(n##8) DO(n##9) DO(n##a) DO(n##b) DO(n##c) DO(n##d) DO(n##e) DO(n##f)
#define ALL(DO)                                                     \
    ROW(DO, 0x0) ROW(DO, 0x1) ROW(DO, 0x2) ROW(DO, 0x3) ROW(DO, 0x4) ROW(DO, 0x5) \
    ROW(DO, 0x6) ROW(DO, 0x7) ROW(DO, 0x8) ROW(DO, 0x9) ROW(DO, 0xa) ROW(DO, 0xb) \
    ROW(DO, 0xc) ROW(DO, 0xd) ROW(DO, 0xe) ROW(DO, 0xf)
/* clang-format on */

#define THUNK(place)                                                                               \
    static void thunk_##place(void *data) {                                                        \
        run(place, data);                                                                          \
    }
#define ENTRY(place) thunk_##place,

ALL(THUNK)
static const CUhostFn thunks[] = {ALL(ENTRY)};
_Static_assert(sizeof thunks / sizeof thunks[0] == N_THUNKS, "a thunk for each place");

/* Does the place stand for the function?  If it is free, it does from now on. */
static bool take(unsigned place, CUhostFn function) {
    CUhostFn seen = atomic_load_explicit(&functions[place], memory_order_acquire);
    return seen == function ||
           (!seen && (atomic_compare_exchange_strong(&functions[place], &seen, function) ||
                      seen == function));
}

CUhostFn cushim_host_function_wrap(CUhostFn function) {
    static atomic_bool is_told;
    unsigned first = (unsigned)cushim_hash((uintptr_t)function, LOG2_THUNKS);
    if (!function)
        return NULL;
    for (unsigned i = 0; i < N_THUNKS; i++) {
        unsigned place = (first + i) % N_THUNKS;
        if (take(place, function))
            return thunks[place];
    }
    if (!atomic_exchange(&is_told, true))
        log_info("host function", "more than %d: in later ones memory calls are not refused",
                 N_THUNKS);
    return function;
}

CUhostFn cushim_host_function_unwrap(CUhostFn function) {
    for (unsigned place = 0; place < N_THUNKS; place++) {
        if (thunks[place] == function)
            return atomic_load_explicit(&functions[place], memory_order_acquire);
    }
    return function;
}
