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
        /* the rest of the old chunk is lost, which is less than one piece of this size */
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

void *cushim_mem_meta_obtain_as(struct cushim_mem_meta *meta, enum cushim_mem_meta_type type,
                                size_t n_bytes, size_t link_at) {
    unsigned order = order_of(n_bytes);
    if (order >= CUSHIM_MEM_META_ORDERS)
        return NULL;
    char *piece = meta->free_lists[type][order];
    if (!piece)
        return cut(meta, (size_t)1 << order);
    memcpy(&meta->free_lists[type][order], piece + link_at, sizeof(void *));
    return piece;
}

void cushim_mem_meta_release_as(struct cushim_mem_meta *meta, enum cushim_mem_meta_type type,
                                void *piece, size_t n_bytes, size_t link_at) {
    unsigned order = order_of(n_bytes);
    /* at once, because a look-up of memory that is being given back may read a cell's state */
    typedef void *__attribute__((may_alias)) any_link;
    __atomic_store_n((any_link *)((char *)piece + link_at), meta->free_lists[type][order],
                     __ATOMIC_RELAXED);
    meta->free_lists[type][order] = piece;
}

void *cushim_mem_meta_obtain(struct cushim_mem_meta *meta, size_t n_bytes) {
    void *piece = cushim_mem_meta_obtain_as(meta, CUSHIM_MEM_META_ANY, n_bytes, 0);
    return piece ? memset(piece, 0, n_bytes) : NULL;
}

void cushim_mem_meta_release(struct cushim_mem_meta *meta, void *piece, size_t n_bytes) {
    if (piece)
        cushim_mem_meta_release_as(meta, CUSHIM_MEM_META_ANY, piece, n_bytes, 0);
}
