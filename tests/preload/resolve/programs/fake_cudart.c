/*
 * A libcudart that started before a preload could act: its entry points answer with the driver's
 * own pointers.  MARK tells two of them apart: it is what they write to the status.
 */
#include <dlfcn.h>
#include <stddef.h>

#include "fake_cuda.h"

#define RUNTIME FAKE_EXPORT

typedef void *self_fn(void);
typedef int proc5_fn(const char *, void **, int, unsigned long long, int *);

static int entry(const char *symbol, void **pfn, int version, unsigned long long flags,
                 int *status) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        return 35;
    proc5_fn *real = (proc5_fn *)((self_fn *)dlsym(driver, "fake_resolver"))();
    int result = real(symbol, pfn, version, flags, status);
    *status = MARK;
    return result;
}

RUNTIME int cudaRuntimeGetVersion(int *version);
RUNTIME int cudaMalloc(void **p, size_t n);
RUNTIME int cudaGetDriverEntryPoint(const char *, void **, unsigned long long, int *);
RUNTIME int cudaGetDriverEntryPoint_ptsz(const char *, void **, unsigned long long, int *);
RUNTIME int cudaGetDriverEntryPointByVersion(const char *, void **, unsigned, unsigned long long,
                                             int *);
RUNTIME int cudaGetDriverEntryPointByVersion_ptsz(const char *, void **, unsigned,
                                                  unsigned long long, int *);

int cudaRuntimeGetVersion(int *version) {
    *version = 12090;
    return 0;
}

int cudaMalloc(void **p, size_t n) {
    (void)p, (void)n;
    return MARK;
}

int cudaGetDriverEntryPoint(const char *symbol, void **pfn, unsigned long long flags, int *status) {
    return entry(symbol, pfn, 12090, flags, status);
}

int cudaGetDriverEntryPoint_ptsz(const char *symbol, void **pfn, unsigned long long flags,
                                 int *status) {
    return entry(symbol, pfn, 12090, flags ? flags : 2, status);
}

int cudaGetDriverEntryPointByVersion(const char *symbol, void **pfn, unsigned version,
                                     unsigned long long flags, int *status) {
    return entry(symbol, pfn, (int)version, flags, status);
}

int cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **pfn, unsigned version,
                                          unsigned long long flags, int *status) {
    return entry(symbol, pfn, (int)version, flags ? flags : 2, status);
}
