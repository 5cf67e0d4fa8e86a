/* The names and texts of results, and the one query that has no answer here. */
#include "abi.h"
#include "calls.h"
#include "complain.h"
#include "options.h"

#include <dlfcn.h>
#include <stdlib.h>

struct text {
    const char *name, *sentence;
};

static CUresult find(CUresult error, struct text *out) {
    switch ((int)error) { /* newer headers have more */
#define ERROR(name, sentence)                                                                      \
    case name:                                                                                     \
        *out = (struct text){#name, sentence};                                                     \
        return CUDA_SUCCESS;
#include "error.def"
#undef ERROR
    }
    *out = (struct text){0};
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **pStr) {
    SIM_ENTER(cuGetErrorName);
    struct text text;
    if (!pStr)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUresult result = find(error, &text);
    *pStr = text.name;
    return sim_leave(result);
}

CUresult cuGetErrorString(CUresult error, const char **pStr) {
    SIM_ENTER(cuGetErrorString);
    struct text text;
    if (!pStr)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUresult result = find(error, &text);
    *pStr = text.sentence;
    return sim_leave(result);
}

/* An object that asked for a private table; they are never forgotten. */
struct asker {
    const void *base;
    struct asker *next;
};

/* What follows would puzzle its user, so say once for each file that it contains NVIDIA's own
 * runtime. */
static void tell(const void *caller) {
    static struct asker *askers; /* under sim_lock */
    Dl_info object;
    if (sim_options()->quiet || !dladdr(caller, &object))
        return;
    for (const struct asker *asker = askers; asker; asker = asker->next) {
        if (asker->base == object.dli_fbase)
            return;
    }
    struct asker *asker = malloc(sizeof *asker);
    if (!asker)
        return;
    *asker = (struct asker){object.dli_fbase, askers};
    askers = asker;
    sim_complain(
        "%s carries a runtime or tools library of NVIDIA, which works with NVIDIA's driver "
        "alone; `nvcc -cudart shared` leaves it out; docs/guide/software-device.md has more",
        object.dli_fname);
}

/* Private tables between NVIDIA's libraries: there are none. */
CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId) {
    SIM_ENTER(cuGetExportTable);
    tell(__builtin_return_address(0));
    if (!ppExportTable || !pExportTableId)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *ppExportTable = NULL;
    return sim_leave(CUDA_ERROR_NOT_FOUND);
}
