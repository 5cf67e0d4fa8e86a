/* Questions about graphs: nodes, what is kept, DOT text, the memory behind nodes. */
#include "companion/graph/graph.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "companion/arena/arena.h"
#include "companion/pool/pool.h"

/* ---- nodes ---- */

static enum cushim_status count_types(struct cushim_scope *scope, const CUgraphNode *nodes,
                                      size_t n, size_t counts[CUSHIM_GRAPH_N_TYPES]) {
    for (size_t i = 0; i < n; i++) {
        CUgraphNodeType type;
        CUSHIM_TRY(CUSHIM_CALL(scope, cuGraphNodeGetType, nodes[i], &type));
        unsigned place = (unsigned)type;
        counts[place < CUSHIM_GRAPH_N_TYPES ? place : CUSHIM_GRAPH_N_TYPES - 1]++;
    }
    return CUSHIM_OK;
}

enum cushim_status cushim_graph_nodes(struct cushim_scope *scope, CUgraph graph,
                                      CUgraphNode **nodes, size_t *n) {
    *nodes = NULL;
    CUSHIM_TRY(CUSHIM_CALL(scope, cuGraphGetNodes, graph, NULL, n));
    if (*n == 0)
        return CUSHIM_OK;
    *nodes = malloc(*n * sizeof **nodes);
    CUSHIM_FAIL_IF(scope->what, !*nodes, CUSHIM_NOMEM, "nodes=%zu", *n);
    return CUSHIM_CALL(scope, cuGraphGetNodes, graph, *nodes, n);
}

enum cushim_status cushim_graph_count(struct cushim_scope *scope, CUgraph graph,
                                      size_t counts[CUSHIM_GRAPH_N_TYPES]) {
    CUgraphNode *nodes;
    size_t n = 0;
    memset(counts, 0, CUSHIM_GRAPH_N_TYPES * sizeof *counts);
    enum cushim_status status = cushim_graph_nodes(scope, graph, &nodes, &n);
    if (status == CUSHIM_OK)
        status = count_types(scope, nodes, n, counts);
    free(nodes);
    return status;
}

static void put_counts(struct cushim_graph_info *info, const size_t *counts) {
    for (size_t i = 0; i < CUSHIM_GRAPH_N_TYPES; i++)
        info->nodes += counts[i];
    info->kernels = counts[CU_GRAPH_NODE_TYPE_KERNEL];
    info->copies = counts[CU_GRAPH_NODE_TYPE_MEMCPY];
    info->sets = counts[CU_GRAPH_NODE_TYPE_MEMSET];
    info->hosts = counts[CU_GRAPH_NODE_TYPE_HOST];
    info->children = counts[CU_GRAPH_NODE_TYPE_GRAPH];
    info->allocs = counts[CU_GRAPH_NODE_TYPE_MEM_ALLOC];
    info->frees = counts[CU_GRAPH_NODE_TYPE_MEM_FREE];
    info->others = info->nodes - info->kernels - info->copies - info->sets - info->hosts -
                   info->children - info->allocs - info->frees;
}

/* ---- info ---- */

static size_t pool_bytes(const struct cushim_graph_resources *resources) {
    size_t bytes = 0;
    for (size_t i = 0; i < resources->n_pools; i++)
        bytes += cushim_pool_graph_bytes(resources->pools[i]);
    return bytes;
}

static size_t arena_bytes(const struct cushim_graph_resources *resources) {
    size_t bytes = 0;
    for (size_t i = 0; i < resources->n_arenas; i++)
        bytes += cushim_arena_graph_bytes(resources->arenas[i]);
    return bytes;
}

enum cushim_status cushim_graph_info(struct cushim_graph *g, struct cushim_graph_info *info) {
    size_t counts[CUSHIM_GRAPH_N_TYPES] = {0};
    CUSHIM_NEED(info);
    cushim_graph_resources_collect();
    CUSHIM_ENTER(GRAPH, graph, g);
    const struct cushim_graph_resources *resources = graph->resources;
    struct cushim_graph_info ours = {.pool_bytes = pool_bytes(resources),
                                     .arena_bytes = arena_bytes(resources),
                                     .host_bytes = atomic_load(&resources->host_bytes),
                                     .attached = atomic_load(&resources->n_attached),
                                     .executables = atomic_load(&resources->n_executables)};
    if (graph->handle)
        CUSHIM_TRY(cushim_graph_count(&scope, graph->handle, counts));
    put_counts(&ours, counts);
    return cushim_struct_size_give(__func__, info, &ours, sizeof ours);
}

enum cushim_status cushim_graphexec_info(struct cushim_graphexec *x,
                                         struct cushim_graphexec_info *info) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_graphexec_object *exec;
    CUSHIM_NEED(info);
    CUSHIM_TRY(cushim_call_begin_object(&scope, __func__, CUSHIM_KIND_GRAPHEXEC, x, &exec));
    pthread_mutex_lock(&exec->lock);
    const struct cushim_graph_resources *resources = exec->resources;
    struct cushim_graphexec_info ours = {.flags = exec->flags,
                                         .has_node_memory = exec->has_node_memory,
                                         .pool_bytes = pool_bytes(resources),
                                         .arena_bytes = arena_bytes(resources),
                                         .host_bytes = atomic_load(&resources->host_bytes),
                                         .attached = atomic_load(&resources->n_attached),
                                         .launches = atomic_load(&exec->n_launches) +
                                                     atomic_load(&exec->n_launches_of_counter),
                                         .updates = atomic_load(&exec->n_updates)};
    pthread_mutex_unlock(&exec->lock);
    return cushim_struct_size_give(__func__, info, &ours, sizeof ours);
}

/* ---- DOT ---- */

/* The driver has no status for a file that cannot be written. */
static bool is_writable(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file >= 0)
        close(file);
    return file >= 0;
}

enum cushim_status cushim_graph_dot(struct cushim_graph *g, const char *path, unsigned flags) {
    CUSHIM_NEED(path);
    CUSHIM_ENTER(GRAPH, graph, g);
    CUSHIM_TRY(cushim_graph_check_handle(&scope, graph));
    CUSHIM_FAIL_IF(scope.what, !is_writable(path), CUSHIM_NOFILE, "path=%s", path);
    return CUSHIM_CALL(&scope, cuGraphDebugDotPrint, graph->handle, path, flags);
}

/* ---- memory behind nodes ---- */

static enum cushim_status ask_memory(CUdevice device, CUgraphMem_attribute attribute, size_t *out) {
    cuuint64_t bytes = 0;
    *out = 0;
    CUresult result = CUSHIM_DRIVER(cuDeviceGetGraphMemAttribute)(device, attribute, &bytes);
    if (result != CUDA_SUCCESS)
        return cushim_fail_cu("cuDeviceGetGraphMemAttribute", result, "device=%d", device);
    *out = bytes;
    return CUSHIM_OK;
}

enum cushim_status cushim_graph_memory(int dev, size_t *used, size_t *reserved) {
    size_t n_reserved, unwanted;
    used = used ? used : &unwanted;
    reserved = reserved ? reserved : &unwanted;
    *used = *reserved = 0;
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_TRY(cushim_context_ordinal(__func__, dev, &dev));
    CUSHIM_NEED_ENTRY(__func__, cuDeviceGetGraphMemAttribute);
    CUSHIM_TRY(ask_memory(dev, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &n_reserved));
    CUSHIM_TRY(ask_memory(dev, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, used));
    *reserved = n_reserved;
    return CUSHIM_OK;
}

enum cushim_status cushim_graph_memory_trim(int dev) {
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_TRY(cushim_context_ordinal(__func__, dev, &dev));
    CUSHIM_NEED_ENTRY(__func__, cuDeviceGraphMemTrim);
    CUresult result = CUSHIM_DRIVER(cuDeviceGraphMemTrim)(dev);
    return result == CUDA_SUCCESS
               ? CUSHIM_OK
               : cushim_fail_cu("cuDeviceGraphMemTrim", result, "device=%d", dev);
}
