/*
 * Structs of the public headers that may grow: each begins with size_t struct_size.  An older
 * program's is shorter than ours, a newer one's longer.
 */
#ifndef CUSHIM_COMPANION_STRUCT_SIZE_H
#define CUSHIM_COMPANION_STRUCT_SIZE_H

#include <stddef.h>

#include "cushim/status.h"

/**
 * Read options.
 * @param ours       filled with the defaults; what `given` has is put over them
 * @param our_bytes  its size
 * @param given      the caller's; NULL: the defaults stay
 * @return CUSHIM_OK | CUSHIM_ABI: struct_size is less than itself, or a byte behind our last field
 * is not zero; the error text is set
 */
enum cushim_status cushim_struct_size_take(const char *what, void *ours, size_t our_bytes,
                                           const void *given);

/**
 * Fill a struct of statistics.
 * @param given  the caller's: as many bytes as its struct_size says and ours has are written, but
 * for struct_size itself; bytes behind ours are left alone
 * @return CUSHIM_OK | CUSHIM_ABI, as above
 */
enum cushim_status cushim_struct_size_give(const char *what, void *given, const void *ours,
                                           size_t our_bytes);

#endif
