/* The names and texts of results, and the one question that has no answer here. */
#include "abi.h"
#include "calls.h"

struct text {
    const char *name, *sentence;
};

static CUresult find(CUresult error, struct text *out) {
    switch (error) {
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

/* Private tables between NVIDIA's libraries: there are none. */
CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId) {
    SIM_ENTER(cuGetExportTable);
    if (!ppExportTable || !pExportTableId)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *ppExportTable = NULL;
    return sim_leave(CUDA_ERROR_NOT_FOUND);
}
