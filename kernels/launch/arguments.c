#include "kernels/launch/arguments.h"

#include "companion/shared.h"

enum cushim_status cushim_check_size(const char *what, const char *name, int64_t value) {
    if (value >= 0)
        return CUSHIM_OK;
    return cushim_fail(what, CUSHIM_INVALID, "%s=%lld is negative", name, (long long)value);
}

enum cushim_status cushim_check_multiple(const char *what, const char *name, int64_t value,
                                         int64_t of) {
    if (value % of == 0)
        return CUSHIM_OK;
    return cushim_fail(what, CUSHIM_INVALID, "%s=%lld is not a multiple of %lld", name,
                       (long long)value, (long long)of);
}

enum cushim_status cushim_check_count(const char *what, const char *name, const int64_t *sizes,
                                      int n_sizes, size_t elem_bytes, int64_t *n_elements) {
    int64_t n = 1, n_bytes;
    *n_elements = 0;
    for (int i = 0; i < n_sizes; i++) {
        if (sizes[i] == 0)
            return CUSHIM_OK;
    }
    for (int i = 0; i < n_sizes; i++) {
        if (__builtin_mul_overflow(n, sizes[i], &n))
            return cushim_fail(what, CUSHIM_INVALID, "%s has more elements than can be counted",
                               name);
    }
    if (__builtin_mul_overflow(n, (int64_t)elem_bytes, &n_bytes))
        return cushim_fail(what, CUSHIM_INVALID, "%s=%lld elements: more bytes than can be counted",
                           name, (long long)n);
    *n_elements = n;
    return CUSHIM_OK;
}

enum cushim_status cushim_check_host(const char *what, const char *name, const void *array) {
    return array ? CUSHIM_OK : cushim_fail(what, CUSHIM_INVALID, "%s=NULL", name);
}

enum cushim_status cushim_check_pointer(const char *what, const char *name, const void *pointer,
                                        size_t elem_bytes) {
    if (!pointer)
        return cushim_fail(what, CUSHIM_INVALID, "%s=NULL", name);
    if ((uintptr_t)pointer % elem_bytes == 0)
        return CUSHIM_OK;
    return cushim_fail(what, CUSHIM_INVALID, "%s=%p is not a multiple of %zu", name, pointer,
                       elem_bytes);
}
