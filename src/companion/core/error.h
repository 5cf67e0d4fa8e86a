/*
 * The last error of a thread, in one form:
 *
 *   <what> failed: <CUDA name>: <text> (<details>)
 *
 * If the error comes from earlier work (a damaged context), the details end with "of earlier work".
 * `what` is the driver's entry point without its version suffix, or our own function if we refused.
 * Each thread has its own text, and a success does not change it.  Details are written as
 * key=value; an empty format leaves the parentheses out.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "base/try.h" /* for all that includes this */
#include "companion/shared.h"

enum cushim_status cushim_fail_cu_list(const char *entry, CUresult result, const char *format,
                                       va_list arguments);

/* Refuse an argument that is NULL, by its name. */
enum cushim_status cushim_check_given(const char *what, const char *name, const void *argument);

/* The same for an out parameter, which then is all zero until the call succeeds. */
enum cushim_status cushim_check_out(const char *what, const char *name, void *out, size_t bytes);

/*
 * Structs of the public headers that may grow: each begins with size_t struct_size.  An older
 * program's is shorter than ours, a newer one's longer.
 */

/**
 * Read options.
 * @param ours       filled with the defaults; what `given` has is put over them
 * @param our_bytes  its size
 * @param given      the caller's; NULL: the defaults stay
 * @return CUSHIM_OK | CUSHIM_ABI: struct_size is less than itself, or a byte behind our last field
 *         is not zero; the error text is set
 */
enum cushim_status cushim_struct_size_take(const char *what, void *ours, size_t our_bytes,
                                           const void *given);

/**
 * Fill a struct of statistics.
 * @param given  the caller's: as many bytes as its struct_size says and ours has are written, but
 *               for struct_size itself; bytes behind ours are left alone
 * @return CUSHIM_OK | CUSHIM_ABI, as above
 */
enum cushim_status cushim_struct_size_give(const char *what, void *given, const void *ours,
                                           size_t our_bytes);

/* Refuse if a condition holds: CUSHIM_FAIL_IF(__func__, n < 0, CUSHIM_INVALID, "n=%d", n). */
#define CUSHIM_FAIL_IF(what, condition, ...)                                                       \
    do {                                                                                           \
        if (condition)                                                                             \
            return cushim_fail(what, __VA_ARGS__);                                                 \
    } while (0)

/* Both checks of arguments inside a public function. */
#define CUSHIM_NEED(argument) CUSHIM_TRY(cushim_check_given(__func__, #argument, argument))
#define CUSHIM_OUT(out)       CUSHIM_TRY(cushim_check_out(__func__, #out, out, sizeof *(out)))

/* An out parameter that may be NULL is 0 until the call succeeds. */
#define CUSHIM_CLEAR(out) ((void)((out) && (*(out) = 0, 1)))

/* Write a text into the caller's array; INVALID with how much it needs, if that is too short. */
enum cushim_status cushim_give_text(const char *what, char *buf, size_t cap_bytes,
                                    const char *text);

/* The driver's answer to a call outside a scope, with details: CUSHIM_OK, or its failure. */
#define CUSHIM_ANSWER(entry, result, ...)                                                          \
    __extension__({                                                                                \
        CUresult result_ = (result);                                                               \
        result_ == CUDA_SUCCESS ? CUSHIM_OK : cushim_fail_cu((entry), result_, __VA_ARGS__);       \
    })

/* Make that call: CUSHIM_ASK(__func__, cuDeviceGet, (&device, 0), "device=%d", 0). */
#define CUSHIM_ASK(what, entry, arguments, ...)                                                    \
    (CUSHIM_DRIVER(entry) ? CUSHIM_ANSWER(#entry, CUSHIM_DRIVER(entry) arguments, __VA_ARGS__)     \
                          : cushim_fail_nosym((what), #entry))

/* Refuse with NOSYM if the driver lacks an entry. */
#define CUSHIM_NEED_ENTRY(what, entry)                                                             \
    CUSHIM_TRY(CUSHIM_DRIVER(entry) ? CUSHIM_OK : cushim_fail_nosym(what, #entry))

/* An error after which the context is useless.  It may come from an earlier kernel or copy. */
bool cushim_error_is_sticky(CUresult result);

/* The driver's text of a result, or our own if the driver has none; never NULL, static. */
const char *cushim_error_cu_text(CUresult result);
