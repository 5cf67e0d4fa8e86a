/* Work of clients: memory of the pool, strided copies, captures, waits. */
#include "companion/client/client.h"

#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "cushim/library.h"
#include "cushim/pool.h"
#include "companion/core/struct_size.h"
#include "companion/capture/graph_resources.h"
#include "companion/stream/stream.h"

enum { MOST_DIMENSIONS = 8 };

/* ---- memory ---- */

enum cushim_status cushim_client_alloc(struct cushim_client *c, size_t bytes, cushim_devptr *p) {
    struct cushim_pin pin;
    struct cushim_client_object *client;
    CUSHIM_OUT(p);
    CUSHIM_TRY(cushim_client_pin(&pin, __func__, c, &client));
    enum cushim_status status = cushim_pool_alloc(client->pool, client->object.context->device,
                                                  CUSHIM_MEMORY_DEVICE, bytes, client->compute, p);
    cushim_handle_unpin(&pin);
    return status;
}

enum cushim_status cushim_client_free(struct cushim_client *c, cushim_devptr p, size_t bytes) {
    struct cushim_pin pin;
    struct cushim_client_object *client;
    CUSHIM_TRY(cushim_client_pin(&pin, __func__, c, &client));
    enum cushim_status status =
        cushim_pool_free(client->pool, client->object.context->device, p, bytes, client->compute);
    cushim_handle_unpin(&pin);
    return status;
}

/* ---- strided copies ---- */

/* The kernel library's, whose header this library does not need. */
typedef enum cushim_status strided_fn(const void *src, void *dst, const int64_t *shape,
                                      const int64_t *strides, int ndim, size_t elem_bytes,
                                      struct CUstream_st *stream);

/* Looked for until it is found; then the library stays open. */
static enum cushim_status find_strided(strided_fn **fn) {
    static _Atomic(strided_fn *) found;
    struct cushim_library *library;
    void *address;
    *fn = atomic_load_explicit(&found, memory_order_acquire);
    if (*fn)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_kernels_open(0, &library));
    enum cushim_status status = cushim_dl_symbol(library, "cushim_strided_copy", &address);
    if (status != CUSHIM_OK) {
        cushim_dl_close(library);
        return status;
    }
    memcpy(fn, &address, sizeof *fn);
    atomic_store_explicit(&found, *fn, memory_order_release);
    return CUSHIM_OK;
}

enum cushim_status cushim_client_strided(struct cushim_client *c, cushim_devptr src,
                                         cushim_devptr dst, const int64_t *shape,
                                         const int64_t *strides, int ndim, size_t elem_bytes) {
    struct cushim_scope scope;
    struct cushim_stream_use use;
    struct cushim_client_object *client;
    strided_fn *copy;
    if (ndim < 0 || ndim > MOST_DIMENSIONS || (ndim && (!shape || !strides)) || !elem_bytes)
        return CUSHIM_FAIL(CUSHIM_INVALID, "ndim=%d elem_bytes=%zu", ndim, elem_bytes);
    CUSHIM_TRY(cushim_call_begin_object(&scope, __func__, CUSHIM_KIND_CLIENT, c, &client));
    enum cushim_status status = find_strided(&copy);
    if (status == CUSHIM_OK)
        status = cushim_stream_use_in(&scope, client->compute, &use);
    if (status == CUSHIM_OK) {
        status = copy((const void *)(uintptr_t)src, (void *)(uintptr_t)dst, shape, strides, ndim,
                      elem_bytes, use.handle);
        cushim_stream_let_go(&use);
    }
    return cushim_call_end(&scope, status);
}

/* ---- captures and waits ---- */

static bool has_pool(const struct cushim_graph_options *options, const struct cushim_pool *pool) {
    for (size_t i = 0; options->pools && i < options->n_pools; i++) {
        if (options->pools[i] == pool)
            return true;
    }
    return false;
}

enum cushim_status cushim_client_capture(struct cushim_client *c,
                                         const struct cushim_graph_options *options,
                                         cushim_graph_fn *fn, void *cookie, int *fn_result,
                                         struct cushim_graph **g, struct cushim_graphexec **x) {
    struct cushim_pin pin;
    struct cushim_client_object *client;
    struct cushim_graph_options ours;
    struct cushim_pool *pools[CUSHIM_GRAPH_RESOURCES_MOST];
    if (fn_result)
        *fn_result = 0;
    if (g)
        *g = NULL;
    if (x)
        *x = NULL;
    cushim_graph_options_default(&ours);
    CUSHIM_TRY(cushim_struct_size_take(__func__, &ours, sizeof ours, options));
    CUSHIM_TRY(cushim_client_pin(&pin, __func__, c, &client));
    if (ours.n_pools < CUSHIM_GRAPH_RESOURCES_MOST && !has_pool(&ours, client->pool)) {
        if (ours.pools)
            memcpy(pools, ours.pools, ours.n_pools * sizeof *pools);
        else
            ours.n_pools = 0;
        pools[ours.n_pools++] = client->pool;
        ours.pools = pools;
    }
    enum cushim_status status =
        cushim_graph_capture(client->compute, &ours, fn, cookie, fn_result, g, x);
    cushim_handle_unpin(&pin);
    return status;
}

/* Neither is waited for where one of them captures. */
static enum cushim_status synchronize(struct cushim_scope *scope, CUstream compute, CUstream copy) {
    CUSHIM_TRY(cushim_stream_refuse_captured(scope, compute));
    CUSHIM_TRY(cushim_stream_refuse_captured(scope, copy));
    CUSHIM_TRY(cushim_stream_wait(scope, compute));
    return cushim_stream_wait(scope, copy);
}

enum cushim_status cushim_client_synchronize(struct cushim_client *c) {
    struct cushim_scope scope;
    struct cushim_stream_use compute, copy;
    struct cushim_client_object *client;
    CUSHIM_TRY(cushim_call_begin_object(&scope, __func__, CUSHIM_KIND_CLIENT, c, &client));
    enum cushim_status status = cushim_stream_use_in(&scope, client->compute, &compute);
    if (status == CUSHIM_OK) {
        status = cushim_stream_use_in(&scope, client->copy, &copy);
        if (status == CUSHIM_OK) {
            status = synchronize(&scope, compute.handle, copy.handle);
            cushim_stream_let_go(&copy);
        }
        cushim_stream_let_go(&compute);
    }
    cushim_call_end(&scope, status);
    cushim_graph_resources_collect();
    return status;
}
