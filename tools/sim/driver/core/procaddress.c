/*
 * cuGetProcAddress: (name, version, flags) to the address of an exported function, by symbols.def.
 *
 * Among the rows that are asked for by a name the newest of at most the version asked is the
 * answer; with the per-thread flag it is the newest per-thread variant, where there is one.  A name
 * without an answer is a status of the newer form, which succeeds, and an error of the older one.
 */
#include "abi.h"
#include "calls.h"
#include "sim.h"

#include <stdbool.h>
#include <string.h>

typedef void any_fn(void);

struct symbol {
    any_fn *address;
    const char *asked_as;
    int since;
    bool is_per_thread;
};

/* A per-thread variant is recognised by its name's last five letters. */
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

/* The newest row of a name, per-thread variant or not; NULL: none.  *is_too_new: there is one, of a
 * later version. */
static const struct symbol *find(const char *name, int version, bool is_per_thread,
                                 bool *is_too_new) {
    const struct symbol *best = NULL;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        const struct symbol *symbol = &symbols[i];
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
