/* A library that is linked to one of the fake runtimes, and tells which of them its calls reach. */
#include <stddef.h>

__attribute__((visibility("default"))) int which_runtime(void **pfn);

int cudaGetDriverEntryPointByVersion(const char *, void **, unsigned, unsigned long long, int *);

int which_runtime(void **pfn) {
    int status = -1;
    return cudaGetDriverEntryPointByVersion("cuMemAlloc", pfn, 12000, 0, &status) ? -1 : status;
}
