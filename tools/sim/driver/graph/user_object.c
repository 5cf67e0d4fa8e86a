#include "user_object.h"

#include "tools/sim/driver/core/calls.h"
#include "graph.h"
#include "tools/sim/driver/core/handle.h"
#include "tools/sim/driver/core/thread.h"

#include <stdlib.h>

struct sim_user_object {
    unsigned n_refs;
    CUhostFn destroy;
    void *data;
};

static void unref(struct sim_user_object *object, unsigned n_refs) {
    object->n_refs -= n_refs;
    if (object->n_refs)
        return;
    sim_handle_remove(object);
    sim_thread()->is_in_destructor = true;
    object->destroy(object->data);
    sim_thread()->is_in_destructor = false;
    free(object);
}

/* The row of an object, made if there is none; NULL: no memory. */
static struct sim_user_row *row_of(struct sim_user_rows *rows, struct sim_user_object *object) {
    for (size_t i = 0; i < rows->n; i++) {
        if (rows->rows[i].object == object)
            return &rows->rows[i];
    }
    if (rows->n == rows->cap) {
        size_t cap = rows->cap ? 2 * rows->cap : 4;
        struct sim_user_row *grown = realloc(rows->rows, cap * sizeof *grown);
        if (!grown)
            return NULL;
        rows->rows = grown;
        rows->cap = cap;
    }
    rows->rows[rows->n] = (struct sim_user_row){object, 0};
    return &rows->rows[rows->n++];
}

/* Move references of the object's own to a graph; false: no memory. */
static bool add(struct sim_user_rows *rows, struct sim_user_object *object, unsigned n_refs) {
    struct sim_user_row *row = row_of(rows, object);
    if (row)
        row->n_refs += n_refs;
    return row != NULL;
}

bool sim_user_rows_copy(struct sim_user_rows *rows, const struct sim_user_rows *from) {
    for (size_t i = 0; i < from->n; i++) {
        struct sim_user_object *object = from->rows[i].object;
        if (!add(rows, object, 1))
            return false;
        object->n_refs++;
    }
    return true;
}

void sim_user_rows_finish(struct sim_user_rows *rows) {
    for (size_t i = 0; i < rows->n; i++)
        unref(rows->rows[i].object, rows->rows[i].n_refs);
    free(rows->rows);
    *rows = (struct sim_user_rows){NULL, 0, 0};
}

/* ---- as the program uses them ---- */

static CUresult object_of_handle(CUuserObject handle, struct sim_user_object **out) {
    if (!sim_handle_is(handle, SIM_HANDLE_USER_OBJECT))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct sim_user_object *)handle;
    return CUDA_SUCCESS;
}

static CUresult create(CUuserObject *out, void *data, CUhostFn destroy, unsigned n_refs,
                       unsigned flags) {
    if (!out || !destroy || n_refs == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_user_object *object = calloc(1, sizeof *object);
    if (!object || !sim_handle_add(object, SIM_HANDLE_USER_OBJECT)) {
        free(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *object = (struct sim_user_object){n_refs, destroy, data};
    *out = (CUuserObject)object;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                            unsigned int initialRefcount, unsigned int flags) {
    SIM_ENTER(cuUserObjectCreate);
    return sim_leave(create(object_out, ptr, destroy, initialRefcount, flags));
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count) {
    SIM_ENTER(cuUserObjectRetain);
    struct sim_user_object *object;
    CUresult result = count ? object_of_handle(handle, &object) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        object->n_refs += count;
    return sim_leave(result);
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count) {
    SIM_ENTER(cuUserObjectRelease);
    struct sim_user_object *object;
    CUresult result = count ? object_of_handle(handle, &object) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && object->n_refs < count)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        unref(object, count);
    return sim_leave(result);
}

/* Moved references were the caller's; without a move the graph gets ones of its own. */
static CUresult retain(CUgraph graph_handle, CUuserObject handle, unsigned n_refs, unsigned flags) {
    struct sim_graph *graph;
    struct sim_user_object *object;
    SIM_TRY(sim_graph_of_handle(graph_handle, &graph));
    SIM_TRY(object_of_handle(handle, &object));
    if (n_refs == 0 || (flags && flags != CU_GRAPH_USER_OBJECT_MOVE) ||
        (flags && object->n_refs < n_refs))
        return CUDA_ERROR_INVALID_VALUE;
    if (!add(&graph->objects, object, n_refs))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!flags)
        object->n_refs += n_refs;
    return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                 unsigned int flags) {
    SIM_ENTER(cuGraphRetainUserObject);
    return sim_leave(retain(graph, object, count, flags));
}

static CUresult release(CUgraph graph_handle, CUuserObject handle, unsigned n_refs) {
    struct sim_graph *graph;
    struct sim_user_object *object;
    SIM_TRY(sim_graph_of_handle(graph_handle, &graph));
    SIM_TRY(object_of_handle(handle, &object));
    for (size_t i = 0; i < graph->objects.n; i++) {
        struct sim_user_row *row = &graph->objects.rows[i];
        if (row->object != object || row->n_refs < n_refs)
            continue;
        row->n_refs -= n_refs;
        if (row->n_refs == 0)
            *row = graph->objects.rows[--graph->objects.n];
        unref(object, n_refs);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
    SIM_ENTER(cuGraphReleaseUserObject);
    return sim_leave(count ? release(graph, object, count) : CUDA_ERROR_INVALID_VALUE);
}
