/*
 * A cache of a bounded size that 2,000 places fill, or fewer: none of them leaks.
 *
 *   cache REQUESTS SEED [PLACES]
 */
#include <stdlib.h>

#include <cuda.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != CUDA_SUCCESS)                                                                \
            abort();                                                                               \
    } while (0)

enum { N_SLOTS = 3000 };

static CUdeviceptr slots[N_SLOTS];

static void fill(size_t n_bytes) {
    CUdeviceptr *slot = &slots[rand() % N_SLOTS];
    if (*slot)
        TRY(cuMemFree(*slot));
    TRY(cuMemAlloc(slot, n_bytes));
}

/* 2,000 functions, and a table of them. */
#define TEN(DO, n)                                                                                 \
    DO(n##0) DO(n##1) DO(n##2) DO(n##3) DO(n##4) DO(n##5) DO(n##6) DO(n##7) DO(n##8) DO(n##9)
#define HUNDRED(DO, n)                                                                             \
    TEN(DO, n##0)                                                                                  \
    TEN(DO, n##1)                                                                                  \
    TEN(DO, n##2)                                                                                  \
    TEN(DO, n##3)                                                                                  \
    TEN(DO, n##4) TEN(DO, n##5) TEN(DO, n##6) TEN(DO, n##7) TEN(DO, n##8) TEN(DO, n##9)
#define THOUSAND(DO, n)                                                                            \
    HUNDRED(DO, n##0)                                                                              \
    HUNDRED(DO, n##1)                                                                              \
    HUNDRED(DO, n##2)                                                                              \
    HUNDRED(DO, n##3)                                                                              \
    HUNDRED(DO, n##4)                                                                              \
    HUNDRED(DO, n##5) HUNDRED(DO, n##6) HUNDRED(DO, n##7) HUNDRED(DO, n##8) HUNDRED(DO, n##9)
#define PLACE(n)                                                                                   \
    static __attribute__((noinline)) void place_##n(void) {                                        \
        fill(256 + n * 7919ul % 300000);                                                           \
        __asm__ volatile("");                                                                      \
    }
#define NAME(n) place_##n,
THOUSAND(PLACE, 1)
THOUSAND(PLACE, 2)
static void (*const places[])(void) = {THOUSAND(NAME, 1) THOUSAND(NAME, 2)};

int main(int argc, char **argv) {
    CUcontext context;
    CUdevice device;
    int n_requests = argc > 1 ? atoi(argv[1]) : 0;
    int n_places = argc > 3 ? atoi(argv[3]) : (int)(sizeof places / sizeof *places);
    srand(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
    TRY(cuInit(0));
    TRY(cuDeviceGet(&device, 0));
    TRY(cuDevicePrimaryCtxRetain(&context, device));
    TRY(cuCtxSetCurrent(context));
    for (int i = 0; i < n_requests; i++)
        places[rand() % n_places]();
    return 0;
}
