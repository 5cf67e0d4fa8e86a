/*
 * The last error of a thread, in one form:
 *
 *   <what> failed: <CUDA name>: <text> (<details>)
 *
 * An answer that tells of earlier work (a damaged context) ends its details with "of earlier work".
 * `what` is the driver's entry point without its version suffix, or our own function where we
 * refused.  The text is the thread's own; a success leaves it alone.  Details are printf's, written
 * as key=value; an empty format leaves the parentheses out.
 */
#ifndef CUSHIM_COMPANION_ERROR_H
#define CUSHIM_COMPANION_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

#include "cuda/types.h"
#include "cushim/status.h"
#include "companion/core/export.h"

/**
 * We refuse.
 * @param what     our function: __func__ of the public one
 * @param status   which is returned
 * @param format   details; "" for none
 * Threads  any; keeps errno
 */
CUSHIM_SHARED __attribute__((format(printf, 3, 4))) enum cushim_status
cushim_fail(const char *what, enum cushim_status status, const char *format, ...);

enum cushim_status cushim_fail_list(const char *what, enum cushim_status status, const char *format,
                                    va_list arguments);

/**
 * The driver refused.
 * @param entry   the ABI name: suffixes _v2, _ptsz, .. are cut off the text; may carry an argument,
 *                as in "cuDeviceGetAttribute(83)"
 * @param result  not CUDA_SUCCESS
 * @return the status of result
 */
CUSHIM_SHARED __attribute__((format(printf, 3, 4))) enum cushim_status
cushim_fail_cu(const char *entry, CUresult result, const char *format, ...);

enum cushim_status cushim_fail_cu_list(const char *entry, CUresult result, const char *format,
                                       va_list arguments);

/* The loaded driver has no such entry: NOSYM naming it; `what` is our function. */
CUSHIM_SHARED enum cushim_status cushim_fail_nosym(const char *what, const char *entry);

/* Refuse from inside a public function. */
#define CUSHIM_FAIL(status, ...) cushim_fail(__func__, (status), __VA_ARGS__)

/* An answer that damages the context for good: of a kernel or copy before, whoever hears of it. */
bool cushim_error_is_sticky(CUresult result);

/* The driver's name and text of a result, or our own where it has none; never NULL, static. */
CUSHIM_SHARED const char *cushim_error_cu_name(CUresult result);
const char *cushim_error_cu_text(CUresult result);

#endif
