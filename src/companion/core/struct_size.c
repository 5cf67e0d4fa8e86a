#include "companion/core/struct_size.h"

#include <string.h>

#include "companion/core/error.h"

static enum cushim_status read_size(const char *what, const void *given, size_t *bytes) {
    memcpy(bytes, given, sizeof *bytes);
    if (*bytes < sizeof *bytes)
        return cushim_fail(what, CUSHIM_ABI, "struct_size=%zu", *bytes);
    return CUSHIM_OK;
}

enum cushim_status cushim_struct_size_take(const char *what, void *ours, size_t our_bytes,
                                           const void *given) {
    const unsigned char *tail = given;
    size_t bytes;
    if (!given)
        return CUSHIM_OK;
    CUSHIM_TRY(read_size(what, given, &bytes));
    for (size_t i = our_bytes; i < bytes; i++) {
        if (tail[i])
            return cushim_fail(what, CUSHIM_ABI, "struct_size=%zu known=%zu byte=%zu", bytes,
                               our_bytes, i);
    }
    memcpy(ours, given, bytes < our_bytes ? bytes : our_bytes);
    memcpy(ours, &our_bytes, sizeof our_bytes);
    return CUSHIM_OK;
}

enum cushim_status cushim_struct_size_give(const char *what, void *given, const void *ours,
                                           size_t our_bytes) {
    size_t bytes;
    CUSHIM_TRY(read_size(what, given, &bytes));
    size_t n = bytes < our_bytes ? bytes : our_bytes;
    memcpy((char *)given + sizeof bytes, (const char *)ours + sizeof bytes, n - sizeof bytes);
    return CUSHIM_OK;
}
