/*
 * The process-wide client of each device: made at the first get, ended by the last destroy.
 *
 * A row keeps its client.  One that lost its context, as by a reset of the device, leaves the list,
 * and the next get makes another.  Lock: one mutex for the list and the counts of users; clients
 * are made without it, and the first one in is everybody's.
 */
#include "companion/client/client.h"

#include <stdlib.h>

#include "base/try.h"

struct row {
    struct cushim_client_object *client; /* kept, and it has a handle */
    struct row *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct row *rows;

/* With the lock: the client of a context, one user more; clients of the same device whose context
 * is gone leave. */
static struct cushim_client_object *use(const struct cushim_context_object *context,
                                        struct row **gone) {
    struct cushim_client_object *client = NULL;
    struct row **at = &rows;
    while (*at) {
        struct row *row = *at;
        const struct cushim_context_object *of_row = row->client->object.context;
        if (cushim_context_is_same(of_row, context) && !cushim_context_is_dead(of_row)) {
            client = row->client;
        } else if (of_row->device == context->device) {
            *at = row->next;
            row->next = *gone;
            *gone = row;
            continue;
        }
        at = &row->next;
    }
    if (client)
        client->n_users++;
    return client;
}

static void drop_rows(struct row *row) {
    while (row) {
        struct row *next = row->next;
        cushim_object_close(&row->client->object);
        cushim_object_release(row->client);
        free(row);
        row = next;
    }
}

bool cushim_client_is_used(struct cushim_client_object *client) {
    struct row *gone = NULL;
    pthread_mutex_lock(&lock);
    struct row **at = &rows;
    while (*at && (*at)->client != client)
        at = &(*at)->next;
    bool is_used = *at && --client->n_users;
    if (*at && !is_used) {
        gone = *at;
        *at = gone->next;
    }
    pthread_mutex_unlock(&lock);
    if (gone) {
        cushim_object_release(client); /* the caller pins it, and closes the handle */
        free(gone);
    }
    return is_used;
}

/* The handle of the client in the list; NULL: there is none. */
static struct cushim_client *find(const struct cushim_context_object *context) {
    struct row *gone = NULL;
    pthread_mutex_lock(&lock);
    struct cushim_client_object *client = use(context, &gone);
    struct cushim_client *handle = client ? client->object.handle : NULL;
    pthread_mutex_unlock(&lock);
    drop_rows(gone);
    return handle;
}

/* Put a new one in, unless another thread was first. */
static struct cushim_client *offer(struct cushim_client_object *made, struct cushim_client *handle,
                                   struct row *row) {
    struct row *gone = NULL;
    pthread_mutex_lock(&lock);
    struct cushim_client_object *client = use(made->object.context, &gone);
    if (client) {
        handle = client->object.handle;
    } else {
        made->n_users = 1;
        *row = (struct row){cushim_object_keep(made), rows};
        rows = row;
    }
    pthread_mutex_unlock(&lock);
    drop_rows(gone);
    if (client) {
        cushim_object_close(&made->object);
        free(row);
    }
    return handle;
}

static enum cushim_status make(struct cushim_scope *scope, struct cushim_client **c) {
    struct cushim_client_options options;
    struct cushim_client_object *client;
    struct cushim_client *handle;
    cushim_client_options_default(&options);
    struct row *row = malloc(sizeof *row);
    if (!row)
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "host memory");
    enum cushim_status status = cushim_client_make(scope, &options, &client);
    if (status == CUSHIM_OK) {
        cushim_object_keep(client);
        status = cushim_object_open(&client->object, &handle);
        if (status == CUSHIM_OK)
            *c = offer(client, handle, row);
        cushim_object_release(client);
    }
    if (status != CUSHIM_OK)
        free(row);
    return status;
}

enum cushim_status cushim_client_get(int dev, struct cushim_client **c) {
    CUSHIM_SCOPE scope = {0};
    CUSHIM_OUT(c);
    CUSHIM_TRY(cushim_call_begin_device(&scope, __func__, dev));
    *c = find(scope.context);
    return *c ? CUSHIM_OK : make(&scope, c);
}
