#include "companion/client/client.h"

#include <stdlib.h>

#include "cushim/pool.h"
#include "cushim/stream.h"

void cushim_client_options_default(struct cushim_client_options *options) {
    if (options)
        *options = (struct cushim_client_options){.struct_size = sizeof *options};
}

/* ---- lending ---- */

/* Begin or end to lend the object of a handle. */
static void lend(enum cushim_kind kind, const void *handle, bool begins) {
    CUSHIM_PIN pin = {0};
    struct cushim_object *object = cushim_handle_pin(&pin, kind, handle);
    if (object)
        atomic_fetch_add(&object->n_borrowers, begins ? 1 : -1);
}

/* ---- ending ---- */

static void end_stream(struct cushim_stream *stream) {
    if (!stream)
        return;
    lend(CUSHIM_KIND_STREAM, stream, false);
    cushim_stream_destroy(stream);
}

static void end_pool(struct cushim_client_object *client) {
    if (!client->pool || !client->owns_pool)
        return;
    lend(CUSHIM_KIND_POOL, client->pool, false);
    cushim_pool_destroy(client->pool);
}

static void finish(struct cushim_object *object) {
    struct cushim_client_object *client = (struct cushim_client_object *)object;
    struct cushim_scope scope;
    if (cushim_call_begin_quietly(&scope, object->context)) {
        while (client->n_spare)
            CUSHIM_DRIVER(cuEventDestroy_v2)(client->spare[--client->n_spare]);
        cushim_call_end(&scope, CUSHIM_OK);
    }
    end_pool(client);
    end_stream(client->compute);
    end_stream(client->copy);
    if (client->lends_context)
        atomic_fetch_sub(&object->context->object.n_borrowers, 1);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

/* ---- making ---- */

/* Wrap the given stream, or create one, in the scope's context. */
static enum cushim_status open_stream(struct cushim_context *ctx, CUstream given,
                                      struct cushim_stream **stream) {
    CUSHIM_TRY(given ? cushim_stream_wrap(ctx, given, stream)
                     : cushim_stream_create(ctx, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, stream));
    lend(CUSHIM_KIND_STREAM, *stream, true);
    return CUSHIM_OK;
}

/* A pool needs a context in its options only if that is not a primary one. */
static enum cushim_status open_pool(const struct cushim_scope *scope,
                                    struct cushim_client_object *client) {
    struct cushim_pool_options options;
    cushim_pool_options_default(&options);
    if (scope->context->form != CUSHIM_CONTEXT_PRIMARY)
        CUSHIM_TRY(cushim_handle_share(&scope->context->object, &options.ctx));
    CUSHIM_TRY(cushim_pool_create(&options, &client->pool));
    client->owns_pool = true;
    lend(CUSHIM_KIND_POOL, client->pool, true);
    return CUSHIM_OK;
}

static enum cushim_status check_pool(struct cushim_scope *scope, const struct cushim_pool *pool) {
    return cushim_handle_is_open(CUSHIM_KIND_POOL, pool)
               ? CUSHIM_OK
               : cushim_scope_fail(scope, CUSHIM_BADHANDLE, "pool=%p", (const void *)pool);
}

/* The scope's context is current, so that the calls inside find it without a handle. */
static enum cushim_status open_parts(struct cushim_scope *scope,
                                     const struct cushim_client_options *options,
                                     struct cushim_client_object *client) {
    CUSHIM_TRY(open_stream(NULL, options->compute, &client->compute));
    CUSHIM_TRY(open_stream(NULL, options->copy, &client->copy));
    if (!options->pool)
        return open_pool(scope, client);
    client->pool = options->pool;
    return check_pool(scope, options->pool);
}

enum cushim_status cushim_client_make(struct cushim_scope *scope,
                                      const struct cushim_client_options *options,
                                      struct cushim_client_object **out) {
    struct cushim_client_object *client = calloc(1, sizeof *client);
    *out = NULL;
    if (!client)
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "host memory");
    pthread_mutex_init(&client->lock, NULL);
    cushim_object_init(&client->object, CUSHIM_KIND_CLIENT, scope->context, finish);
    enum cushim_status status = open_parts(scope, options, client);
    if (status == CUSHIM_OK)
        *out = client;
    else
        cushim_object_release(client);
    return status;
}

enum cushim_status cushim_client_create(struct cushim_context *ctx,
                                        const struct cushim_client_options *options,
                                        struct cushim_client **c) {
    struct cushim_client_object *client;
    struct cushim_client_options taken;
    CUSHIM_OUT(c);
    cushim_client_options_default(&taken);
    CUSHIM_TRY(cushim_struct_size_take(__func__, &taken, sizeof taken, options));
    CUSHIM_ENTER_CONTEXT(ctx);
    CUSHIM_TRY(cushim_client_make(&scope, &taken, &client));
    return cushim_object_open(&client->object, c);
}

enum cushim_status cushim_client_pin(struct cushim_pin *pin, const char *what,
                                     const struct cushim_client *handle,
                                     struct cushim_client_object **client) {
    *pin = (struct cushim_pin){.object = NULL};
    *client = NULL;
    CUSHIM_TRY(cushim_check_given(what, "c", handle));
    CUSHIM_TRY(cushim_driver_use(what));
    *client = cushim_handle_pin(pin, CUSHIM_KIND_CLIENT, handle);
    return *client ? CUSHIM_OK
                   : cushim_fail(what, CUSHIM_BADHANDLE, "client=%p", (const void *)handle);
}

enum cushim_status cushim_client_destroy(struct cushim_client *c) {
    CUSHIM_PIN pin = {0};
    if (!c)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_driver_use_process(__func__));
    struct cushim_client_object *client = cushim_handle_pin(&pin, CUSHIM_KIND_CLIENT, c);
    if (client && (cushim_client_is_used(client) || cushim_handle_close(&pin)))
        return CUSHIM_OK;
    return CUSHIM_FAIL(CUSHIM_BADHANDLE, "client=%p", (void *)c);
}

/* ---- what it has ---- */

enum cushim_status cushim_client_context(struct cushim_client *c, struct cushim_context **ctx) {
    CUSHIM_OUT(ctx);
    CUSHIM_ENTER(CLIENT, client, c);
    enum cushim_status status = cushim_handle_share(&scope.context->object, ctx);
    if (status == CUSHIM_OK && !atomic_exchange(&client->lends_context, true))
        atomic_fetch_add(&scope.context->object.n_borrowers, 1);
    return status;
}

/* A part of the client. */
#define PART(name, type, out)                                                                      \
    enum cushim_status cushim_client_##name(struct cushim_client *c, struct type **out) {          \
        CUSHIM_PIN pin = {0};                                                                      \
        struct cushim_client_object *client;                                                       \
        CUSHIM_OUT(out);                                                                           \
        CUSHIM_TRY(cushim_client_pin(&pin, __func__, c, &client));                                 \
        *out = client->name;                                                                       \
        return CUSHIM_OK;                                                                          \
    }
PART(compute, cushim_stream, s)
PART(copy, cushim_stream, s)
PART(pool, cushim_pool, p)
