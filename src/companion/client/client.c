#include "companion/client/client.h"

#include <stdlib.h>
#include <utlist.h>

#include "cushim/pool.h"
#include "cushim/stream.h"
#include "base/lock.h"

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

static void finish(struct cushim_object *object) {
    struct cushim_client_object *client = (struct cushim_client_object *)object;
    struct cushim_scope scope;
    if (cushim_call_begin_quietly(&scope, object->context)) {
        while (client->n_spare)
            CUSHIM_DRIVER(cuEventDestroy_v2)(client->spare[--client->n_spare]);
        cushim_call_end(&scope, CUSHIM_OK);
    }
    if (client->pool && client->owns_pool) {
        lend(CUSHIM_KIND_POOL, client->pool, false);
        cushim_pool_destroy(client->pool);
    }
    end_stream(client->compute);
    end_stream(client->copy);
    if (client->lends_context)
        atomic_fetch_sub(&object->context->object.n_borrowers, 1);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

/* ---- making ---- */

/* Wrap the given stream, or create one, in the current context. */
static enum cushim_status open_stream(CUstream given, struct cushim_stream **stream) {
    CUSHIM_TRY(given ? cushim_stream_wrap(NULL, given, stream)
                     : cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, stream));
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

/* The scope's context is current, so that the calls inside find it without a handle. */
static enum cushim_status open_parts(struct cushim_scope *scope,
                                     const struct cushim_client_options *options,
                                     struct cushim_client_object *client) {
    CUSHIM_TRY(open_stream(options->compute, &client->compute));
    CUSHIM_TRY(open_stream(options->copy, &client->copy));
    if (!options->pool)
        return open_pool(scope, client);
    client->pool = options->pool;
    return cushim_handle_is_open(CUSHIM_KIND_POOL, client->pool)
               ? CUSHIM_OK
               : cushim_scope_fail(scope, CUSHIM_BADHANDLE, "pool=%p", (void *)client->pool);
}

static enum cushim_status make(struct cushim_scope *scope,
                               const struct cushim_client_options *options,
                               struct cushim_client_object **out) {
    struct cushim_client_object *client = calloc(1, sizeof *client);
    *out = NULL;
    CUSHIM_FAIL_IF(scope->what, !client, CUSHIM_NOMEM, "host memory");
    pthread_mutex_init(&client->lock, NULL);
    cushim_object_init(&client->object, CUSHIM_KIND_CLIENT, scope->context, finish);
    enum cushim_status status = open_parts(scope, options, client);
    if (status == CUSHIM_OK)
        *out = client;
    else
        cushim_object_release(client);
    return status;
}

/*
 * The process-wide client of each device: made at the first get, ended by the last destroy.
 *
 * The list keeps its clients.  One that lost its context, as by a reset of the device, leaves the
 * list, and the next get makes another.  Lock: one mutex for the list and the counts of users;
 * clients are made without it, and the first one in is everybody's.
 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cushim_client_object *shared; /* each kept, and with a handle */

/* With the lock: the client of a context, one user more; clients of the same device whose context
 * is gone leave. */
static struct cushim_client_object *use(const struct cushim_context_object *context,
                                        struct cushim_client_object **gone) {
    struct cushim_client_object *found = NULL, *client, **at = &shared;
    while ((client = *at)) {
        const struct cushim_context_object *of_client = client->object.context;
        if (cushim_context_is_same(of_client, context) && !cushim_context_is_dead(of_client)) {
            found = client;
        } else if (of_client->device == context->device) {
            *at = client->next_shared;
            client->next_shared = *gone;
            *gone = client;
            continue;
        }
        at = &client->next_shared;
    }
    if (found)
        found->n_users++;
    return found;
}

static bool is_used(struct cushim_client_object *client) {
    struct cushim_client_object **at = &shared;
    CUSHIM_LOCKED(&lock);
    while (*at && *at != client)
        at = &(*at)->next_shared;
    bool is_listed = *at, has_users = is_listed && --client->n_users;
    if (is_listed && !has_users) {
        *at = client->next_shared;
        cushim_object_release(client); /* not the last: the caller pins it, and closes the handle */
    }
    return has_users;
}

/* The handle of the client in the list, which `made` becomes if there is none.  NULL: no client. */
static struct cushim_client *find(const struct cushim_context_object *context,
                                  struct cushim_client_object *made) {
    struct cushim_client_object *gone = NULL, *old, *next;
    pthread_mutex_lock(&lock);
    struct cushim_client_object *client = use(context, &gone);
    bool is_first = !client && made;
    if (is_first) {
        client = cushim_object_keep(made);
        client->n_users = 1;
        LL_PREPEND2(shared, client, next_shared);
    }
    struct cushim_client *handle = client ? client->object.handle : NULL;
    pthread_mutex_unlock(&lock);
    LL_FOREACH_SAFE2(gone, old, next, next_shared) {
        cushim_object_close(&old->object);
        cushim_object_release(old);
    }
    if (made && !is_first)
        cushim_object_close(&made->object);
    return handle;
}

static enum cushim_status make_shared(struct cushim_scope *scope, struct cushim_client **c) {
    struct cushim_client_options options;
    struct cushim_client_object *client;
    struct cushim_client *handle;
    cushim_client_options_default(&options);
    CUSHIM_TRY(make(scope, &options, &client));
    cushim_object_keep(client);
    enum cushim_status status = cushim_object_open(&client->object, &handle);
    if (status == CUSHIM_OK)
        *c = find(scope->context, client);
    cushim_object_release(client);
    return status;
}

enum cushim_status cushim_client_get(int dev, struct cushim_client **c) {
    CUSHIM_SCOPE scope = {0};
    CUSHIM_OUT(c);
    CUSHIM_TRY(cushim_call_begin_device(&scope, __func__, dev));
    *c = find(scope.context, NULL);
    return *c ? CUSHIM_OK : make_shared(&scope, c);
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
    CUSHIM_TRY(make(&scope, &taken, &client));
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
    if (client && (is_used(client) || cushim_handle_close(&pin)))
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
        CUSHIM_OUT(out);                                                                           \
        CUSHIM_PIN_CLIENT(c);                                                                      \
        *out = client->name;                                                                       \
        return CUSHIM_OK;                                                                          \
    }
PART(compute, cushim_stream, s)
PART(copy, cushim_stream, s)
PART(pool, cushim_pool, p)
