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

static void add_bytes(const struct cushim_graph_resources *resources, size_t *pool_bytes,
                      size_t *arena_bytes) {
    for (size_t i = 0; i < resources->n_pools; i++)
        *pool_bytes += cushim_pool_graph_bytes(resources->pools[i]);
    for (size_t i = 0; i < resources->n_arenas; i++)
        *arena_bytes += cushim_arena_graph_bytes(resources->arenas[i]);
}

enum cushim_status cushim_graph_info(struct cushim_graph *g, struct cushim_graph_info *info) {
    size_t counts[CUSHIM_GRAPH_N_TYPES] = {0};
    CUSHIM_NEED(info);
    cushim_graph_resources_collect();
    CUSHIM_ENTER(GRAPH, graph, g);
    const struct cushim_graph_resources *resources = graph->resources;
    struct cushim_graph_info ours = {.host_bytes = atomic_load(&resources->host_bytes),
                                     .attached = atomic_load(&resources->n_attached),
                                     .executables = atomic_load(&resources->n_executables)};
    add_bytes(resources, &ours.pool_bytes, &ours.arena_bytes);
    if (graph->handle)
        CUSHIM_TRY(cushim_graph_count(&scope, graph->handle, counts));
    put_counts(&ours, counts);
    return cushim_struct_size_give(__func__, info, &ours, sizeof ours);
}

enum cushim_status cushim_graphexec_info(struct cushim_graphexec *x,
                                         struct cushim_graphexec_info *info) {
    CUSHIM_NEED(info);
    CUSHIM_ENTER(GRAPHEXEC, graphexec, x);
    pthread_mutex_lock(&graphexec->lock);
    const struct cushim_graph_resources *resources = graphexec->resources;
    struct cushim_graphexec_info ours = {.flags = graphexec->flags,
                                         .has_node_memory = graphexec->left.has_nodes,
                                         .host_bytes = atomic_load(&resources->host_bytes),
                                         .attached = atomic_load(&resources->n_attached),
                                         .launches = atomic_load(&graphexec->n_launches) +
                                                     atomic_load(&graphexec->n_launches_of_counter),
                                         .updates = atomic_load(&graphexec->n_updates)};
    add_bytes(resources, &ours.pool_bytes, &ours.arena_bytes);
    pthread_mutex_unlock(&graphexec->lock);
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

enum cushim_status cushim_graph_memory(int dev, size_t *used, size_t *reserved) {
    cuuint64_t n_used = 0, n_reserved = 0;
    CUSHIM_CLEAR(used);
    CUSHIM_CLEAR(reserved);
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_TRY(cushim_context_ordinal(__func__, dev, &dev));
    CUSHIM_TRY(CUSHIM_ASK(__func__, cuDeviceGetGraphMemAttribute,
                          (dev, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &n_reserved), "device=%d",
                          dev));
    CUSHIM_TRY(CUSHIM_ASK(__func__, cuDeviceGetGraphMemAttribute,
                          (dev, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &n_used), "device=%d", dev));
    if (used)
        *used = n_used;
    if (reserved)
        *reserved = n_reserved;
    return CUSHIM_OK;
}

enum cushim_status cushim_graph_memory_trim(int dev) {
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_TRY(cushim_context_ordinal(__func__, dev, &dev));
    return CUSHIM_ASK(__func__, cuDeviceGraphMemTrim, (dev), "device=%d", dev);
}
