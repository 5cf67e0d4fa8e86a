/* What the suites of pinned and managed memory share: how they are run, and allocations. */
#ifndef CUSHIM_BEHAVIOUR_HOST_KIT_H
#define CUSHIM_BEHAVIOUR_HOST_KIT_H

#include "kit.h"

static inline bool is_word(const char *variable, const char *word) {
    const char *value = getenv(variable);
    return value && strcmp(value, word) == 0;
}

static inline bool is_pooled(const char *kind_variable) {
    return kit_is_preloaded() && !is_word(kind_variable, "0");
}

/* Does memory that comes back read as zero?  The driver's own does. */
static inline bool is_zeroed(void) {
    if (!kit_is_preloaded() || is_word("CUSHIM_ZERO", "1"))
        return true;
    return !is_word("CUSHIM_FREE", "relaxed") && !is_word("CUSHIM_ZERO", "off");
}

static inline bool waits(void) {
    return !is_word("CUSHIM_FREE", "relaxed");
}

static inline unsigned char *pinned_alloc(size_t n_bytes, unsigned flags) {
    void *address = NULL;
    OK(cuMemHostAlloc(&address, n_bytes, flags));
    ck_assert_ptr_nonnull(address);
    return address;
}

static inline CUdeviceptr managed_alloc(size_t n_bytes, unsigned flags) {
    CUdeviceptr address = 0;
    OK(cuMemAllocManaged(&address, n_bytes, flags));
    return address;
}

static inline bool is_zero(const unsigned char *bytes, size_t n_bytes) {
    return n_bytes == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, n_bytes - 1) == 0);
}

#endif
