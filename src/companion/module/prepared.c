/*
 * Prepared launches: a function and the types of its arguments.
 *
 * If the driver knows the kernel's layout, the format has been checked against it, and the driver
 * reads the arguments.  If not, we pack the arguments on the stack as the format says, and the
 * driver checks at least their size.
 *
 * A prepared launch keeps the function and its code; the handle of the function shows whether the
 * module was unloaded.
 */

#include <stdlib.h>
#include <string.h>

#include "companion/module/launch.h"

enum {
    MOST_BYTES = 4096, /* of a kernel's parameters, with drivers that give no layout */
    ALIGN_MOST = 4096
};

struct prepared {
    struct cushim_object object;
    struct cushim_fast_launch fast; /* its function is kept */
    size_t n_bytes;
    struct cushim_param params[];
};

static void finish(struct cushim_object *object) {
    struct prepared *prepared = (struct prepared *)object;
    cushim_object_release(prepared->fast.function);
    free(prepared);
}

/* ---- the format ---- */

struct type {
    size_t bytes, align;
};

static size_t bytes_of_letter(char letter) {
    static const struct {
        const char *letters;
        size_t bytes;
    } types[] = {{"bB", 1}, {"hHe", 2}, {"iIf", 4}, {"qQdP", 8}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (letter && strchr(types[i].letters, letter))
            return types[i].bytes;
    }
    return 0;
}

/* A number and the character behind it; 0: neither. */
static size_t read_number(const char **format, char end) {
    size_t number = 0;
    for (; **format >= '0' && **format <= '9' && number <= INT32_MAX; ++*format)
        number = 10 * number + (size_t)(**format - '0');
    if (**format != end || number > INT32_MAX)
        return 0;
    ++*format;
    return number;
}

/* The next type; false: it is none. */
static bool read_type(const char **format, struct type *type) {
    if (**format != '{') {
        type->bytes = type->align = bytes_of_letter(**format);
        ++*format;
        return type->bytes != 0;
    }
    ++*format;
    type->bytes = read_number(format, ',');
    type->align = type->bytes ? read_number(format, '}') : 0;
    return type->align && type->align <= ALIGN_MOST && (type->align & (type->align - 1)) == 0;
}

static bool fits(const struct cushim_function_object *function, size_t i,
                 const struct cushim_param *param) {
    return !function->has_layout ||
           (i < function->n_params && function->params[i].offset == param->offset &&
            function->params[i].bytes == param->bytes);
}

/* Fill params and sizes; the index of the argument that is wrong is in the text. */
static enum cushim_status read_format(struct cushim_scope *scope, struct prepared *prepared,
                                      const char *format) {
    const struct cushim_function_object *function = prepared->fast.function;
    struct type type;
    while (*format) {
        size_t i = prepared->fast.n;
        const char *at = format;
        CUSHIM_FAIL_IF(scope->what, !read_type(&format, &type), CUSHIM_INVALID,
                       "index=%zu format=%s: not a type", i, at);
        struct cushim_param *param = &prepared->params[i];
        param->offset = (prepared->n_bytes + type.align - 1) / type.align * type.align;
        param->bytes = type.bytes;
        prepared->n_bytes = param->offset + type.bytes;
        prepared->fast.n++;
        CUSHIM_FAIL_IF(scope->what, !fits(function, i, param), CUSHIM_INVALID,
                       "index=%zu function=%s parameters=%zu: offset=%zu bytes=%zu "
                       "is not the kernel's",
                       i, function->name, function->n_params, param->offset, param->bytes);
    }
    if (function->has_layout && prepared->fast.n != function->n_params)
        return cushim_scope_fail(scope, CUSHIM_INVALID, "index=%zu function=%s parameters=%zu",
                                 prepared->fast.n, function->name, function->n_params);
    CUSHIM_FAIL_IF(scope->what, !function->has_layout && prepared->n_bytes > MOST_BYTES,
                   CUSHIM_INVALID, "index=%zu bytes=%zu", prepared->fast.n, prepared->n_bytes);
    return CUSHIM_OK;
}

static enum cushim_status prepare(struct cushim_scope *scope,
                                  struct cushim_function_object *function, const char *format,
                                  struct cushim_prepared **q) {
    size_t bytes = sizeof(struct prepared) + strlen(format) * sizeof(struct cushim_param);
    struct prepared *prepared = cushim_object_alloc(bytes);
    CUSHIM_FAIL_IF(scope->what, !prepared, CUSHIM_NOMEM, "bytes=%zu", bytes);
    prepared->fast.function = cushim_object_keep(function);
    prepared->fast.handle = function->fast.handle;
    prepared->fast.must_be_current = function->fast.must_be_current;
    cushim_object_init(&prepared->object, CUSHIM_KIND_PREPARED, scope->context, finish);
    enum cushim_status status = read_format(scope, prepared, format);
    if (status == CUSHIM_OK)
        return cushim_object_open(&prepared->object, q);
    cushim_object_release(prepared);
    return status;
}

enum cushim_status cushim_function_prepare(struct cushim_function *f, const char *format,
                                           struct cushim_prepared **q) {
    CUSHIM_OUT(q);
    CUSHIM_NEED(format);
    CUSHIM_ENTER(FUNCTION, function, f);
    return prepare(&scope, function, format, q);
}

/* ---- launching ---- */

static enum cushim_status run_packed(struct cushim_scope *scope, const struct prepared *prepared,
                                     const struct cushim_launch *launch, const void *const *args) {
    _Alignas(16) char buffer[MOST_BYTES] = {0};
    size_t bytes = prepared->n_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    for (size_t i = 0; i < prepared->fast.n; i++)
        memcpy(buffer + prepared->params[i].offset, args[i], prepared->params[i].bytes);
    return cushim_function_run(scope, prepared->fast.function, launch,
                               (struct cushim_args){.packed = bytes ? extra : NULL});
}

static enum cushim_status run(struct cushim_scope *scope, const struct prepared *prepared,
                              const struct cushim_launch *launch, const void *const *args) {
    struct cushim_function_object *function = prepared->fast.function;
    const void *const *each = prepared->fast.n ? args : NULL;
    size_t n = cushim_args_count(each, prepared->fast.n);
    CUSHIM_FAIL_IF(scope->what, load_acquire(&function->object.is_closed), CUSHIM_BADHANDLE,
                   "function=%s: its module is unloaded", function->name);
    CUSHIM_FAIL_IF(scope->what, n < prepared->fast.n, CUSHIM_INVALID, "index=%zu: NULL", n);
    if (!function->has_layout)
        return run_packed(scope, prepared, launch, args);
    return cushim_function_run(scope, function, launch, (struct cushim_args){.each = each});
}

/* From the start. */
static COLD enum cushim_status launch_slowly(const char *what, struct cushim_prepared *q,
                                             const struct cushim_launch *launch,
                                             const void *const *args) {
    CUSHIM_SCOPE scope = {0};
    struct prepared *prepared;
    uint64_t n_changes = cushim_changes_now(); /* read before the conditions are checked */
    CUSHIM_TRY(cushim_call_begin_object(&scope, what, CUSHIM_KIND_PREPARED, q, &prepared));
    CUSHIM_TRY(run(&scope, prepared, launch, args));
    if (prepared->fast.function->has_layout && !cushim_launch_may_capture(scope.context))
        cushim_pin_note_fast(&prepared->fast.n_fast, n_changes);
    return CUSHIM_OK;
}

enum cushim_status cushim_prepared_launch(struct cushim_prepared *q,
                                          const struct cushim_launch *launch,
                                          const void *const *args) {
    enum cushim_status status = CUSHIM_OK;
    if (likely(cushim_launch_fast(__func__, CUSHIM_KIND_PREPARED, q, launch, args, 0, &status)))
        return status;
    return launch_slowly(__func__, q, launch, args);
}

enum cushim_status cushim_prepared_destroy(struct cushim_prepared *q) {
    return cushim_call_destroy(__func__, CUSHIM_KIND_PREPARED, q);
}
