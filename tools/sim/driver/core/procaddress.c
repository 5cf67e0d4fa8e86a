/*
 * cuGetProcAddress: (name, version, flags) to the address of an exported function, by
 * cuda/symbols.def.
 *
 * Of the rows with a name, the newest of at most the version asked for is the answer; with the
 * per-thread flag it is the newest per-thread variant, if there is one.  A name without an answer
 * is a status of the newer form, which succeeds, and an error of the older one.
 *
 * A runtime asks for some hundred names when it starts, in every process.  So rows are found by a
 * hash of the name; the first caller fills the table once.
 */
#include "abi.h"
#include "calls.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef void any_fn(void);

struct symbol {
    any_fn *address;
    const char *asked_as;
    int since;
    bool is_per_thread;
};

/* The last five letters of its name show a per-thread variant. */
#define IS_PER_THREAD(abi)                                                                         \
    (sizeof #abi > 6 && ((#abi)[sizeof #abi - 6] == '_') && ((#abi)[sizeof #abi - 5] == 'p') &&    \
     ((#abi)[sizeof #abi - 4] == 't'))

static const struct symbol symbols[] = {
#define SYMBOL_DRV(abi, asked_as, since) {(any_fn *)abi, asked_as, since, IS_PER_THREAD(abi)},
#define SYMBOL_RT(abi, asked_as, since)
#define SYM(role, api, abi, asked_as, since, need) SYMBOL_##api(abi, asked_as, since)
#include "cuda/symbols.def"
#undef SYM
};

/* Later versions are refused. */
enum { DRIVER_VERSION = 13000 };

enum { N_ROWS = sizeof symbols / sizeof symbols[0], N_HASHES = 1024 };

/* Rows are numbered from 1; 0 ends a chain.  Written under `once`, then only read. */
static uint16_t first_of_hash[N_HASHES];
static uint16_t next_of_row[N_ROWS + 1];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* FNV-1a. */
static unsigned hash_of(const char *name) {
    uint32_t hash = 2166136261U;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619U;
    return (hash ^ hash >> 16) % N_HASHES;
}

static void fill(void) {
    _Static_assert(N_ROWS < UINT16_MAX, "a row's number does not fit");
    for (unsigned row = 1; row <= N_ROWS; row++) {
        uint16_t *first = &first_of_hash[hash_of(symbols[row - 1].asked_as)];
        next_of_row[row] = *first;
        *first = (uint16_t)row;
    }
}

/* The newest row of a name, per-thread variant or not; NULL: none.  *is_too_new: there is one, of a
 * later version. */
static const struct symbol *find(const char *name, int version, bool is_per_thread,
                                 bool *is_too_new) {
    const struct symbol *best = NULL;
    pthread_once(&once, fill);
    for (unsigned row = first_of_hash[hash_of(name)]; row; row = next_of_row[row]) {
        const struct symbol *symbol = &symbols[row - 1];
        if (symbol->is_per_thread != is_per_thread || strcmp(symbol->asked_as, name) != 0)
            continue;
        if (symbol->since > version)
            *is_too_new = true;
        else if (!best || symbol->since > best->since)
            best = symbol;
    }
    return best;
}

static CUresult get(const char *name, void **out, int version, cuuint64_t flags,
                    CUdriverProcAddressQueryResult *status) {
    const cuuint64_t known =
        CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    bool is_too_new = false;
    const struct symbol *symbol = NULL;
    if (!name || !out || flags & ~known || version > DRIVER_VERSION)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        symbol = find(name, version, true, &is_too_new);
    if (!symbol)
        symbol = find(name, version, false, &is_too_new);
    *out = NULL;
    if (status)
        *status = symbol       ? CU_GET_PROC_ADDRESS_SUCCESS
                  : is_too_new ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                               : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (!symbol)
        return CUDA_ERROR_NOT_FOUND;
    memcpy(out, &symbol->address, sizeof *out);
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags) {
    SIM_ENTER(cuGetProcAddress);
    return sim_leave(get(symbol, pfn, cudaVersion, flags, NULL));
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus) {
    SIM_ENTER(cuGetProcAddress_v2);
    CUresult result = get(symbol, pfn, cudaVersion, flags, symbolStatus);
    return sim_leave(result == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : result);
}
