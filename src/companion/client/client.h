/*
 * Clients as objects, and the events that they hand out.
 *
 * A client's streams and its own pool are ordinary objects with handles.  It opens them first and
 * destroys them last; until then object.n_borrowers makes their destroy fail.  An event of a client
 * is an ordinary event that keeps the client, and whose CUevent returns to the client's spares when
 * it is finished.
 * Lock: one mutex a client for the spares, held over no driver call.
 */
#pragma once

#include "cushim/client.h"
#include "companion/stream/event.h"

enum { CUSHIM_CLIENT_N_SPARE = 32 };

struct cushim_client_object {
    struct cushim_object object;
    struct cushim_stream *compute, *copy; /* set once */
    struct cushim_pool *pool;             /* set once */
    bool owns_pool;
    atomic_bool lends_context;
    unsigned n_users; /* of the process-wide one; 0: another; the lock of client_shared.c */
    struct cushim_client_object *next_shared; /* in the list of client_shared.c; its lock */

    pthread_mutex_t lock;
    CUevent spare[CUSHIM_CLIENT_N_SPARE]; /* lock */
    size_t n_spare;                       /* lock */
};

/* Pin a client by its handle, without a driver call and without a scope. */
enum cushim_status cushim_client_pin(struct cushim_pin *pin, const char *what,
                                     const struct cushim_client *handle,
                                     struct cushim_client_object **client);

/* An event of the client without a handle, not recorded; the scope is in its context. */
enum cushim_status cushim_client_make_event(struct cushim_scope *scope,
                                            struct cushim_client_object *client,
                                            struct cushim_event_object **out);

/* The same for a public call that ends with its block: declare the client and its pin. */
#define CUSHIM_PIN_CLIENT(c)                                                                       \
    CUSHIM_PIN pin = {0};                                                                          \
    struct cushim_client_object *client;                                                           \
    CUSHIM_TRY(cushim_client_pin(&pin, __func__, (c), &client))
