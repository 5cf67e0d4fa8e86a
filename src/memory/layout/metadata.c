#include "memory/layout/metadata.h"

#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/helgrind.h"

enum { LOG2_SMALLEST = 6, CHUNK_BYTES = 1 << 18 };

static unsigned order_of(size_t n_bytes) {
    return n_bytes <= (size_t)1 << LOG2_SMALLEST ? LOG2_SMALLEST
                                                 : cushim_log2_floor(n_bytes - 1) + 1;
}

void *cushim_mem_meta_map(size_t n_bytes) {
    void *fresh = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED)
        return NULL;
    cushim_helgrind_ignore(fresh, n_bytes);
    return fresh;
}

static void *cut(struct cushim_mem_meta *meta, size_t n_bytes) {
    if (n_bytes >= CHUNK_BYTES)
        return cushim_mem_meta_map(n_bytes);
    if (meta->chunk_left_bytes < n_bytes) {
        /* what is left of the old chunk is given up: less than one piece of this size */
        meta->chunk = cushim_mem_meta_map(CHUNK_BYTES);
        meta->chunk_left_bytes = meta->chunk ? CHUNK_BYTES : 0;
        if (!meta->chunk)
            return NULL;
    }
    void *piece = meta->chunk;
    meta->chunk += n_bytes;
    meta->chunk_left_bytes -= n_bytes;
    return piece;
}

static void *obtain(struct cushim_mem_meta *meta, void **lists, size_t n_bytes) {
    unsigned order = order_of(n_bytes);
    if (order >= CUSHIM_MEM_META_ORDERS)
        return NULL;
    void *piece = lists[order];
    if (!piece)
        return cut(meta, (size_t)1 << order);
    memcpy(&lists[order], piece, sizeof(void *));
    return memset(piece, 0, n_bytes);
}

static void release(void **lists, void *piece, size_t n_bytes) {
    if (!piece)
        return;
    unsigned order = order_of(n_bytes);
    memcpy(piece, &lists[order], sizeof(void *));
    lists[order] = piece;
}

void *cushim_mem_meta_obtain(struct cushim_mem_meta *meta, size_t n_bytes) {
    return obtain(meta, meta->free_lists, n_bytes);
}

void cushim_mem_meta_release(struct cushim_mem_meta *meta, void *piece, size_t n_bytes) {
    release(meta->free_lists, piece, n_bytes);
}

void *cushim_mem_meta_obtain_cells(struct cushim_mem_meta *meta, size_t n_bytes) {
    return obtain(meta, meta->cell_lists, n_bytes);
}

void cushim_mem_meta_release_cells(struct cushim_mem_meta *meta, void *cells, size_t n_bytes) {
    release(meta->cell_lists, cells, n_bytes);
}
