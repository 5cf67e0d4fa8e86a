#include "companion/core/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/translate.h"
#include "cushim/library.h"
#include "companion/core/driver.h"
#include "companion/core/thread.h"

/* A compiler's log and the words around it; longer texts are cut. */
enum { TEXT_MOST_BYTES = 34 * 1024, WHAT_BYTES = 128 };

/* Names for the case that there is no driver to ask. */
static const struct {
    CUresult result;
    const char *name, *text;
} known[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

typedef CUresult ask_fn(CUresult, const char **);

/* What the driver's function says, else our own text of that kind; NULL: neither knows. */
static const char *ask(ask_fn *function, CUresult result, bool is_name) {
    const char *text = NULL;
    if (function && !cushim_driver_is_forked() && function(result, &text) == CUDA_SUCCESS && text)
        return text;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].result == result)
            return is_name ? known[i].name : known[i].text;
    }
    return NULL;
}

const char *cushim_error_cu_name(CUresult result) {
    const char *name = ask(CUSHIM_DRIVER(cuGetErrorName), result, true);
    return name ? name : "CUDA_ERROR_?";
}

const char *cushim_error_cu_text(CUresult result) {
    const char *text = ask(CUSHIM_DRIVER(cuGetErrorString), result, false);
    return text ? text : cushim_status_text(cushim_status_from_cu(result));
}

bool cushim_error_is_sticky(CUresult result) {
    enum cushim_status status = cushim_status_from_cu(result);
    return status == CUSHIM_FAULT || status == CUSHIM_ECC || result == CUDA_ERROR_LAUNCH_FAILED ||
           result == CUDA_ERROR_LAUNCH_TIMEOUT;
}

/* ---- the text ---- */

/* Make room for n bytes, or for fewer if host memory is out; the old text may be lost. */
static void make_room(struct cushim_thread *thread, size_t n_bytes) {
    if (n_bytes > TEXT_MOST_BYTES)
        n_bytes = TEXT_MOST_BYTES;
    if (n_bytes <= thread->text_cap_bytes)
        return;
    char *text = malloc(n_bytes);
    if (!text)
        return;
    if (thread->text != thread->room)
        free(thread->text);
    thread->text = text;
    thread->text_cap_bytes = n_bytes;
}

/*
 * Details may quote the thread's old text, so they are written to a buffer of their own first; one
 * that is too long for the stack is written straight behind the head, its size known by then.
 */
static void set_text(int code, const char *what, const char *name, const char *text,
                     const char *format, va_list arguments) {
    const char *since = cushim_error_is_sticky((CUresult)code) ? "of earlier work" : "";
    int saved_errno = errno;
    struct cushim_thread *thread = cushim_thread_get();
    if (thread) {
        char details[CUSHIM_THREAD_TEXT_BYTES];
        char *behind = NULL; /* a text of details too long for the stack */
        va_list again;
        va_copy(again, arguments);
        int n = vsnprintf(details, sizeof details, format, arguments);
        if (n >= (int)sizeof details && (behind = malloc((size_t)n + 1)))
            vsnprintf(behind, (size_t)n + 1, format, again);
        va_end(again);
        const char *shown = behind ? behind : details;
        size_t need =
            strlen(what) + strlen(name) + strlen(text) + strlen(shown) + strlen(since) + 32;
        make_room(thread, need);
        const char *form = n > 0 || *since ? "%s failed: %s: %s (%s%s%s)" : "%s failed: %s: %s";
        snprintf(thread->text, thread->text_cap_bytes, form, what, name, text, shown,
                 n > 0 && *since ? ", " : "", since);
        thread->cuda_code = code;
        free(behind);
    }
    errno = saved_errno;
}

enum cushim_status cushim_fail(const char *what, enum cushim_status status, const char *format,
                               ...) {
    va_list arguments;
    va_start(arguments, format);
    set_text(0, what, cushim_status_name(status), cushim_status_text(status), format, arguments);
    va_end(arguments);
    return status;
}

enum cushim_status cushim_check_given(const char *what, const char *name, const void *argument) {
    return argument ? CUSHIM_OK : cushim_fail(what, CUSHIM_INVALID, "%s=NULL", name);
}

enum cushim_status cushim_check_out(const char *what, const char *name, void *out, size_t bytes) {
    if (out)
        memset(out, 0, bytes);
    return cushim_check_given(what, name, out);
}

static enum cushim_status read_size(const char *what, const void *given, size_t *bytes) {
    memcpy(bytes, given, sizeof *bytes);
    CUSHIM_FAIL_IF(what, *bytes < sizeof *bytes, CUSHIM_ABI, "struct_size=%zu", *bytes);
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
        CUSHIM_FAIL_IF(what, tail[i], CUSHIM_ABI, "struct_size=%zu known=%zu byte=%zu", bytes,
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

enum cushim_status cushim_give_text(const char *what, char *buf, size_t cap_bytes,
                                    const char *text) {
    size_t need = strlen(text) + 1;
    CUSHIM_FAIL_IF(what, need > cap_bytes, CUSHIM_INVALID, "cap=%zu need=%zu", cap_bytes, need);
    memcpy(buf, text, need);
    return CUSHIM_OK;
}

/* The length of the name without _v2, _ptsz and _ptds. */
static size_t plain_length(const char *entry, size_t n) {
    for (;;) {
        if (n > 5 && (!memcmp(entry + n - 5, "_ptsz", 5) || !memcmp(entry + n - 5, "_ptds", 5)))
            n -= 5;
        else if (n > 3 && entry[n - 3] == '_' && entry[n - 2] == 'v' && entry[n - 1] >= '0' &&
                 entry[n - 1] <= '9')
            n -= 3;
        else
            return n;
    }
}

static void cut_suffix(char out[WHAT_BYTES], const char *entry) {
    size_t n_name = strcspn(entry, "(");
    snprintf(out, WHAT_BYTES, "%.*s%s", (int)plain_length(entry, n_name), entry, entry + n_name);
}

enum cushim_status cushim_fail_cu_list(const char *entry, CUresult result, const char *format,
                                       va_list arguments) {
    char what[WHAT_BYTES];
    cut_suffix(what, entry);
    set_text((int)result, what, cushim_error_cu_name(result), cushim_error_cu_text(result), format,
             arguments);
    return cushim_status_from_cu(result);
}

enum cushim_status cushim_fail_cu(const char *entry, CUresult result, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    enum cushim_status status = cushim_fail_cu_list(entry, result, format, arguments);
    va_end(arguments);
    return status;
}

enum cushim_status cushim_fail_nosym(const char *what, const char *entry) {
    char plain[WHAT_BYTES];
    cut_suffix(plain, entry);
    return cushim_fail(what, CUSHIM_NOSYM, "entry=%s driver=%d", plain, cushim_driver_number());
}

/* ---- public ---- */

const char *cushim_last_error(void) {
    struct cushim_thread *thread = cushim_thread_get();
    return thread ? thread->text : "";
}

int cushim_last_cuda_code(void) {
    struct cushim_thread *thread = cushim_thread_get();
    return thread ? thread->cuda_code : 0;
}

enum cushim_status cushim_error_copy(char *buf, size_t cap_bytes, size_t *need_bytes) {
    const char *text = cushim_last_error();
    size_t need = strlen(text) + 1;
    if (need_bytes)
        *need_bytes = need;
    /* without a text, because that would replace the one that the caller wants */
    if ((!buf && cap_bytes) || cap_bytes > SIZE_MAX / 2)
        return CUSHIM_INVALID;
    if (cap_bytes) {
        size_t n = need <= cap_bytes ? need - 1 : cap_bytes - 1;
        memcpy(buf, text, n);
        buf[n] = 0;
    }
    return !buf || need <= cap_bytes ? CUSHIM_OK : CUSHIM_INVALID;
}
