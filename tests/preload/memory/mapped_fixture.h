/* Helpers of the suites of mapped memory that serves again: the calls, and a whole mapping. */
#pragma once

#include "tests/preload/memory/mapped_calls.h"

static const char *const names[] = {"cuMemCreate",      "cuMemRelease", "cuMemAddressReserve",
                                    "cuMemAddressFree", "cuMemMap",     "cuMemUnmap",
                                    "cuMemSetAccess"};
enum { N_CALLS = sizeof names / sizeof *names };

static inline unsigned long driver_calls(void) {
    unsigned long n = 0;
    for (int i = 0; i < N_CALLS; i++)
        n += sim_calls(names[i]);
    return n;
}

static inline size_t free_bytes(void) {
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

static inline void ask_handle(struct whole *whole) {
    OK(cuMemCreate(&whole->handle, whole->n_bytes, &on_device, 0));
}

static inline void ask_address(struct whole *whole) {
    OK(cuMemAddressReserve(&whole->address, whole->n_bytes, 0, 0, 0));
}

static inline void map(const struct whole *whole) {
    OK(cuMemMap(whole->address, whole->n_bytes, 0, whole->handle, 0));
    OK(cuMemSetAccess(whole->address, whole->n_bytes, &for_all, 1));
}

static inline struct whole take(size_t n_bytes) {
    struct whole whole = {.n_bytes = n_bytes};
    ask_handle(&whole);
    ask_address(&whole);
    map(&whole);
    return whole;
}

static inline void unmap(const struct whole *whole) {
    OK(cuMemUnmap(whole->address, whole->n_bytes));
}

static inline void release(const struct whole *whole) {
    OK(cuMemRelease(whole->handle));
}

static inline void unreserve(const struct whole *whole) {
    OK(cuMemAddressFree(whole->address, whole->n_bytes));
}

static inline void give(const struct whole *whole) {
    unmap(whole);
    release(whole);
    unreserve(whole);
}

static inline void use(const struct whole *whole, unsigned char value) {
    fixture_fill_pages(whole->address, value, whole->n_bytes);
    ck_assert(fixture_pages_are_filled(whole->address, value, whole->n_bytes));
}

/* A whole mapping that the program had and gave back. */
static inline struct whole parked(size_t n_bytes) {
    struct whole whole;
    fixture_use_device(0);
    whole = take(n_bytes);
    use(&whole, 0x11);
    give(&whole);
    return whole;
}

static inline unsigned draw(unsigned long *state, unsigned n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33) % n;
}
