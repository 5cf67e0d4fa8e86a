#include "companion/capture/graph_resources.h"

#include <stdlib.h>
#include <string.h>

#include "companion/capture/known_captures.h"
#include "base/lock.h"

struct cushim_graph_resources_attached {
    cushim_graph_attach_fn *fn;
    void *cookie;
    struct cushim_graph_resources_attached *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cushim_graph_resources *first_over, *first_uncalled; /* lock */
atomic_size_t cushim_graph_resources_n_over,
    cushim_graph_resources_n_uncalled; /* of the lists; written under lock */

struct cushim_graph_resources *
cushim_graph_resources_create(void (*give_back)(struct cushim_graph_resources *resources)) {
    struct cushim_graph_resources *resources = calloc(1, sizeof *resources);
    if (resources) {
        resources->give_back = give_back;
        resources->n_owners = 1;
    }
    return resources;
}

/* With the lock. */
static void push(struct cushim_graph_resources **first, atomic_size_t *n,
                 struct cushim_graph_resources *resources) {
    resources->next = *first;
    *first = resources;
    atomic_fetch_add(n, 1);
}

static struct cushim_graph_resources *pop(struct cushim_graph_resources **first, atomic_size_t *n) {
    CUSHIM_LOCKED(&lock);
    struct cushim_graph_resources *resources = *first;
    if (resources) {
        *first = resources->next;
        atomic_fetch_sub(n, 1);
    }
    return resources;
}

/* With the lock: if the last owner is gone, the resources are over. */
static void judge(struct cushim_graph_resources *resources) {
    if (resources->is_over || resources->n_owners || (resources->is_bound && !resources->is_lost))
        return;
    resources->is_over = true;
    push(&first_over, &cushim_graph_resources_n_over, resources);
    cushim_changes_note();
}

/* The driver's destructor: the last copy of the graph is gone, and no launch is running.  It may
 * run in a thread of the driver, and must not call CUDA. */
static void driver_is_done(void *data) {
    struct cushim_graph_resources *resources = data;
    pthread_mutex_lock(&lock);
    bool is_shell = resources->is_shell;
    resources->is_bound = false;
    judge(resources);
    pthread_mutex_unlock(&lock);
    if (is_shell)
        free(resources);
}

/* *data is NULL once the driver will destroy it. */
static enum cushim_status hang_relaxed(struct cushim_scope *scope, CUgraph graph, CUhostFn destroy,
                                       void **data) {
    CUuserObject object;
    CUSHIM_TRY(CUSHIM_CALL(scope, cuUserObjectCreate, &object, *data, destroy, 1,
                           CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    enum cushim_status status =
        CUSHIM_CALL(scope, cuGraphRetainUserObject, graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
    if (status == CUSHIM_OK || (CUSHIM_DRIVER(cuUserObjectRelease) &&
                                CUSHIM_DRIVER(cuUserObjectRelease)(object, 1) == CUDA_SUCCESS))
        *data = NULL;
    return status;
}

/* Hang an object on a graph: `destroy` gets `data` when the graph and all its copies are gone, and
 * at once after a failure.  It calls no CUDA function. */
static enum cushim_status hang(struct cushim_scope *scope, CUgraph graph, CUhostFn destroy,
                               void *data) {
    enum cushim_status status = CUSHIM_RELAXED(hang_relaxed(scope, graph, destroy, &data));
    if (data)
        destroy(data);
    return status;
}

enum cushim_status cushim_graph_resources_bind(struct cushim_scope *scope,
                                               struct cushim_graph_resources *resources,
                                               CUgraph graph) {
    pthread_mutex_lock(&lock);
    resources->is_bound = true;
    pthread_mutex_unlock(&lock);
    return hang(scope, graph, driver_is_done, resources);
}

struct cushim_graph_resources *
cushim_graph_resources_own(struct cushim_graph_resources *resources) {
    CUSHIM_LOCKED(&lock);
    resources->n_owners++;
    return resources;
}

void cushim_graph_resources_disown(struct cushim_graph_resources *resources, bool is_lost) {
    if (!resources)
        return;
    CUSHIM_LOCKED(&lock);
    resources->n_owners--;
    resources->is_lost = resources->is_lost || is_lost;
    judge(resources);
}

bool cushim_graph_resources_attach(struct cushim_graph_resources *resources,
                                   cushim_graph_attach_fn *fn, void *cookie) {
    struct cushim_graph_resources_attached *attached = malloc(sizeof *attached);
    if (!attached)
        return false;
    pthread_mutex_lock(&lock);
    *attached = (struct cushim_graph_resources_attached){fn, cookie, resources->attached};
    resources->attached = attached;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&resources->n_attached, 1);
    return true;
}

/* ---- giving back ---- */

/* Attached functions run in the order they were attached, after the memory went back. */
static void run_attached(struct cushim_graph_resources_attached *newest) {
    struct cushim_graph_resources_attached *oldest = NULL;
    while (newest) {
        struct cushim_graph_resources_attached *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest) {
        struct cushim_graph_resources_attached *next = oldest->next;
        oldest->fn(oldest->cookie);
        free(oldest);
        oldest = next;
    }
}

static void end(struct cushim_graph_resources *resources) {
    pthread_mutex_lock(&lock);
    resources->is_shell = resources->is_bound;
    bool is_shell = resources->is_shell;
    pthread_mutex_unlock(&lock);
    if (!is_shell)
        free(resources);
}

static void give_back(struct cushim_graph_resources *resources) {
    resources->give_back(resources);
    if (!resources->attached) {
        end(resources);
        return;
    }
    CUSHIM_LOCKED(&lock);
    push(&first_uncalled, &cushim_graph_resources_n_uncalled, resources);
}

void cushim_graph_resources_give_back_now(void) {
    struct cushim_graph_resources *resources;
    while ((resources = pop(&first_over, &cushim_graph_resources_n_over)))
        give_back(resources);
}

void cushim_graph_resources_collect_now(void) {
    struct cushim_graph_resources *resources;
    cushim_graph_resources_give_back_now();
    while ((resources = pop(&first_uncalled, &cushim_graph_resources_n_uncalled))) {
        run_attached(resources->attached);
        end(resources);
    }
}

/* ---- bytes of a capture ---- */

/* The graph that a stream is being captured into. */
static enum cushim_status graph_of_capture(struct cushim_scope *scope, CUstream stream,
                                           CUgraph *graph) {
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    enum cushim_status status;
    *graph = NULL;
    if (CUSHIM_DRIVER(cuStreamGetCaptureInfo_v3))
        status = CUSHIM_CALL(scope, cuStreamGetCaptureInfo_v3, stream, &state, NULL, graph, NULL,
                             NULL, NULL);
    else
        status =
            CUSHIM_CALL(scope, cuStreamGetCaptureInfo_v2, stream, &state, NULL, graph, NULL, NULL);
    if (status == CUSHIM_OK && state != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        status = cushim_scope_fail(scope, CUSHIM_CAPTURE, "the capture was invalidated");
    return status;
}

enum cushim_status cushim_graph_resources_bytes(struct cushim_scope *scope, CUstream stream,
                                                const void *src, size_t bytes, void **copy) {
    CUgraph graph;
    *copy = NULL;
    CUSHIM_TRY(graph_of_capture(scope, stream, &graph));
    void *kept = malloc(bytes);
    CUSHIM_FAIL_IF(scope->what, !kept, CUSHIM_NOMEM, "asked=%zu", bytes);
    memcpy(kept, src, bytes);
    CUSHIM_TRY(hang(scope, graph, free, kept));
    *copy = kept;
    return CUSHIM_OK;
}
