/*
 * The process-wide client of each device: made at the first get, ended by the last destroy.
 *
 * The list keeps its clients.  One that lost its context, as by a reset of the device, leaves the
 * list, and the next get makes another.  Lock: one mutex for the list and the counts of users;
 * clients are made without it, and the first one in is everybody's.
 */
#include "companion/client/client.h"

#include <utlist.h>

#include "base/lock.h"

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

static void drop_all(struct cushim_client_object *gone) {
    struct cushim_client_object *client, *next;
    LL_FOREACH_SAFE2(gone, client, next, next_shared) {
        cushim_object_close(&client->object);
        cushim_object_release(client);
    }
}

bool cushim_client_is_used(struct cushim_client_object *client) {
    struct cushim_client_object **at = &shared;
    CUSHIM_LOCKED(&lock);
    while (*at && *at != client)
        at = &(*at)->next_shared;
    bool is_listed = *at, is_used = is_listed && --client->n_users;
    if (is_listed && !is_used) {
        *at = client->next_shared;
        cushim_object_release(client); /* not the last: the caller pins it, and closes the handle */
    }
    return is_used;
}

/* The handle of the client in the list, which `made` becomes if there is none.  NULL: no client. */
static struct cushim_client *find(const struct cushim_context_object *context,
                                  struct cushim_client_object *made) {
    struct cushim_client_object *gone = NULL;
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
    drop_all(gone);
    if (made && !is_first)
        cushim_object_close(&made->object);
    return handle;
}

static enum cushim_status make(struct cushim_scope *scope, struct cushim_client **c) {
    struct cushim_client_options options;
    struct cushim_client_object *client;
    struct cushim_client *handle;
    cushim_client_options_default(&options);
    CUSHIM_TRY(cushim_client_make(scope, &options, &client));
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
    return *c ? CUSHIM_OK : make(&scope, c);
}
