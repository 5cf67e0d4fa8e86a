/* The part of fake_cuda.c that has bodies written by hand. */
#pragma once

#define FAKE_EXPORT __attribute__((visibility("default")))

FAKE_EXPORT int cuGetProcAddress(const char *symbol, void **pfn, int version,
                                 unsigned long long flags);
FAKE_EXPORT int cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
                                    unsigned long long flags, int *out);
FAKE_EXPORT int cuGetExportTable(const void **table, const void *id);

/* Have a function called inside every look-up; NULL: none. */
FAKE_EXPORT void fake_on_lookup(void (*function)(void));

/* The driver's own cuGetProcAddress_v2, past every dlsym. */
FAKE_EXPORT void *fake_resolver(void);
