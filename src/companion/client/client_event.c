/* Events of clients: their CUevents are used again. */
#include "companion/client/client.h"

#include <stdlib.h>

#include "companion/stream/stream.h"
#include "base/lock.h"

struct of_client {
    struct cushim_event_object event;
    struct cushim_client_object *client; /* kept */
};

/* false: there are enough. */
static bool put_spare(struct cushim_client_object *client, CUevent event) {
    CUSHIM_LOCKED(&client->lock);
    if (client->n_spare == CUSHIM_CLIENT_N_SPARE)
        return false;
    client->spare[client->n_spare++] = event;
    return true;
}

static void finish(struct cushim_object *object) {
    struct of_client *made = (struct of_client *)object;
    CUSHIM_SCOPE scope = {0};
    /* It may be recorded again at once, because queued waits keep the record that they saw.  An
     * event that other processes may have opened is not used again. */
    bool is_back = !made->event.is_foreign && put_spare(made->client, made->event.handle);
    if (!is_back && cushim_call_begin_quietly(&scope, object->context))
        CUSHIM_DRIVER(cuEventDestroy_v2)(made->event.handle);
    cushim_call_end(&scope, CUSHIM_OK);
    cushim_object_release(made->client);
    free(made);
}

enum cushim_status cushim_client_make_event(struct cushim_scope *scope,
                                            struct cushim_client_object *client,
                                            struct cushim_event_object **out) {
    CUevent handle =
        CUSHIM_UNDER(&client->lock, client->n_spare ? client->spare[--client->n_spare] : NULL);
    *out = NULL;
    if (!handle)
        CUSHIM_TRY(CUSHIM_CALL(scope, cuEventCreate, &handle, CU_EVENT_DISABLE_TIMING));
    struct of_client *made = calloc(1, sizeof *made);
    if (!made) {
        if (!put_spare(client, handle))
            CUSHIM_DRIVER(cuEventDestroy_v2)(handle);
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "host memory");
    }
    made->event.handle = handle;
    made->client = cushim_object_keep(client);
    cushim_object_init(&made->event.object, CUSHIM_KIND_EVENT, scope->context, finish);
    *out = &made->event;
    return CUSHIM_OK;
}

enum cushim_status cushim_client_record(struct cushim_client *c, struct cushim_event **e) {
    CUSHIM_STREAM_USE use = {0};
    struct cushim_event_object *event;
    CUSHIM_OUT(e);
    CUSHIM_ENTER(CLIENT, client, c);
    CUSHIM_TRY(cushim_stream_use_in(&scope, client->compute, &use));
    CUSHIM_TRY(cushim_client_make_event(&scope, client, &event));
    enum cushim_status status = cushim_event_record_in(&scope, event, use.handle);
    if (status == CUSHIM_OK)
        return cushim_object_open(&event->object, e);
    cushim_object_release(event);
    return status;
}
