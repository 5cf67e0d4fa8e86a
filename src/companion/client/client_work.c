/* Work of clients: memory of the pool, strided copies, captures, waits. */
#include "companion/client/client.h"

#include <stdlib.h>
#include <string.h>

#include "cushim/library.h"
#include "cushim/pool.h"
#include "companion/capture/graph_resources.h"
#include "companion/stream/stream.h"

enum { MOST_DIMENSIONS = 8 };

/* ---- memory ---- */

enum cushim_status cushim_client_alloc(struct cushim_client *c, size_t bytes, cushim_devptr *p) {
    CUSHIM_OUT(p);
    CUSHIM_PIN_CLIENT(c);
    return cushim_pool_alloc(client->pool, client->object.context->device, CUSHIM_MEMORY_DEVICE,
                             bytes, client->compute, p);
}

enum cushim_status cushim_client_free(struct cushim_client *c, cushim_devptr p, size_t bytes) {
    CUSHIM_PIN_CLIENT(c);
    return cushim_pool_free(client->pool, client->object.context->device, p, bytes,
                            client->compute);
}

/* ---- strided copies ---- */

/* The function of the kernel library, declared here because its header is not needed otherwise. */
typedef enum cushim_status strided_fn(const void *src, void *dst, const int64_t *shape,
                                      const int64_t *strides, int ndim, size_t elem_bytes,
                                      struct CUstream_st *stream);

/* Each call looks until one has found it; then the library stays open. */
static enum cushim_status find_strided(strided_fn **fn) {
    static _Atomic(strided_fn *) found;
    struct cushim_library *library;
    void *address;
    *fn = load_acquire(&found);
    if (*fn)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_kernels_open(0, &library));
    enum cushim_status status = cushim_dl_symbol(library, "cushim_strided_copy", &address);
    if (status != CUSHIM_OK) {
        cushim_dl_close(library);
        return status;
    }
    memcpy(fn, &address, sizeof *fn);
    store_release(&found, *fn);
    return CUSHIM_OK;
}

enum cushim_status cushim_client_strided(struct cushim_client *c, cushim_devptr src,
                                         cushim_devptr dst, const int64_t *shape,
                                         const int64_t *strides, int ndim, size_t elem_bytes) {
    CUSHIM_STREAM_USE use = {0};
    strided_fn *copy;
    if (ndim < 0 || ndim > MOST_DIMENSIONS || (ndim && (!shape || !strides)) || !elem_bytes)
        return CUSHIM_FAIL(CUSHIM_INVALID, "ndim=%d elem_bytes=%zu", ndim, elem_bytes);
    CUSHIM_ENTER(CLIENT, client, c);
    CUSHIM_TRY(find_strided(&copy));
    CUSHIM_TRY(cushim_stream_use_in(&scope, client->compute, &use));
    return copy((const void *)(uintptr_t)src, (void *)(uintptr_t)dst, shape, strides, ndim,
                elem_bytes, use.handle);
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
    struct cushim_graph_options ours;
    struct cushim_pool *pools[CUSHIM_GRAPH_RESOURCES_MOST];
    CUSHIM_CLEAR(fn_result);
    CUSHIM_CLEAR(g);
    CUSHIM_CLEAR(x);
    cushim_graph_options_default(&ours);
    CUSHIM_TRY(cushim_struct_size_take(__func__, &ours, sizeof ours, options));
    CUSHIM_PIN_CLIENT(c);
    if (ours.n_pools < CUSHIM_GRAPH_RESOURCES_MOST && !has_pool(&ours, client->pool)) {
        if (ours.pools)
            memcpy(pools, ours.pools, ours.n_pools * sizeof *pools);
        else
            ours.n_pools = 0;
        pools[ours.n_pools++] = client->pool;
        ours.pools = pools;
    }
    return cushim_graph_capture(client->compute, &ours, fn, cookie, fn_result, g, x);
}

/* Neither stream is waited for if one of them captures. */
static enum cushim_status synchronize(const char *what, struct cushim_client *c) {
    CUSHIM_STREAM_USE compute = {0}, copy = {0};
    CUSHIM_ENTER_AS(what, CLIENT, client, c);
    CUSHIM_TRY(cushim_stream_use_in(&scope, client->compute, &compute));
    CUSHIM_TRY(cushim_stream_use_in(&scope, client->copy, &copy));
    CUSHIM_TRY(cushim_stream_refuse_captured(&scope, compute.handle));
    CUSHIM_TRY(cushim_stream_refuse_captured(&scope, copy.handle));
    CUSHIM_TRY(cushim_stream_wait(&scope, compute.handle));
    return cushim_stream_wait(&scope, copy.handle);
}

enum cushim_status cushim_client_synchronize(struct cushim_client *c) {
    return cushim_graph_resources_collected(synchronize(__func__, c));
}
