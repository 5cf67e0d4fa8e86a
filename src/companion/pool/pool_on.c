/*
 * Shorter calls on pools: memory of a stream's device, host memory as a pointer, and the pool of
 * the process.  The device comes from the stream, so that the next hit of cushim_pool_alloc need
 * not look it up.
 */

#include "companion/pool/pool_call.h"
#include "companion/stream/stream.h"

/* The device of a handle's context; -1: `s` is no handle, and the pool finds the device. */
static inline int device_of(const struct cushim_stream *s) {
    struct cushim_pin pin;
    const struct cushim_stream_object *stream = cushim_pin(&pin, CUSHIM_KIND_STREAM, s);
    int device = stream ? stream->object.context->device : -1;
    cushim_unpin(&pin);
    return device;
}

enum cushim_status cushim_pool_alloc_on(struct cushim_pool *p, size_t bytes,
                                        struct cushim_stream *s, cushim_devptr *ptr) {
    return cushim_pool_alloc(p, device_of(s), CUSHIM_MEMORY_DEVICE, bytes, s, ptr);
}

enum cushim_status cushim_pool_free_on(struct cushim_pool *p, cushim_devptr ptr,
                                       struct cushim_stream *s) {
    return cushim_pool_free(p, -1, ptr, 0, s);
}

enum cushim_status cushim_pool_alloc_host(struct cushim_pool *p, enum cushim_memory_kind kind,
                                          size_t bytes, struct cushim_stream *s, void **ptr) {
    cushim_devptr address;
    CUSHIM_OUT(ptr);
    if (kind != CUSHIM_MEMORY_MANAGED && kind != CUSHIM_MEMORY_PINNED)
        return CUSHIM_FAIL(CUSHIM_INVALID, "kind=%d is none of the host", (int)kind);
    enum cushim_status status = cushim_pool_alloc(p, device_of(s), kind, bytes, s, &address);
    *ptr = (void *)(uintptr_t)address;
    return status;
}

enum cushim_status cushim_pool_free_host(struct cushim_pool *p, void *ptr,
                                         struct cushim_stream *s) {
    return cushim_pool_free(p, -1, (uintptr_t)ptr, 0, s);
}

static _Atomic(struct cushim_pool *) pool; /* written once; NULL: not made yet */

/* Takes no lock, because a forked child could find it held.  After a failure the next call tries
 * again. */
static struct cushim_pool *pool_of_process(void) {
    struct cushim_pool *made = atomic_load(&pool), *none = NULL;
    if (made || cushim_pool_create(NULL, &made) != CUSHIM_OK)
        return made;
    if (atomic_compare_exchange_strong(&pool, &none, made))
        return made;
    cushim_pool_destroy(made);
    return none;
}

enum cushim_status cushim_pool_process(struct cushim_pool **p) {
    CUSHIM_OUT(p);
    *p = pool_of_process();
    return *p ? CUSHIM_OK : CUSHIM_NOMEM;
}

static struct cushim_mem_stream_block *block_at(const void *ptr) {
    const struct cushim_thread *thread = cushim_thread_mine;
    return cushim_pool_block_find(thread ? thread->pool_memory : NULL, (uintptr_t)ptr);
}

static void *alloc(const char *what, ssize_t bytes, int device, struct cushim_stream *s) {
    cushim_devptr ptr = 0;
    struct cushim_pool *p = pool_of_process();
    if (bytes < 0)
        cushim_fail(what, CUSHIM_INVALID, "bytes=%zd", bytes);
    else if (p)
        cushim_pool_alloc(p, device, CUSHIM_MEMORY_DEVICE, (size_t)bytes, s, &ptr);
    const struct cushim_mem_stream_block *block = ptr ? block_at((void *)(uintptr_t)ptr) : NULL;
    if (block) {
        struct cushim_pool_heap *heap = cushim_pool_heap_of(block->streams);
        uint64_t before = atomic_fetch_add(&heap->process_bytes, block->bucket_bytes);
        cushim_mem_stats_raise(&heap->process_peak_bytes, before + block->bucket_bytes);
    }
    return (void *)(uintptr_t)ptr;
}

static void free_on(void *ptr, int device, struct cushim_stream *s) {
    const struct cushim_mem_stream_block *block = block_at(ptr);
    struct cushim_pool_heap *heap = block ? cushim_pool_heap_of(block->streams) : NULL;
    uint64_t n_bytes = block ? block->bucket_bytes : 0;
    struct cushim_pool *p = pool_of_process();
    if (p && cushim_pool_free(p, device, (uintptr_t)ptr, 0, s) == CUSHIM_OK && heap)
        atomic_fetch_sub(&heap->process_bytes, n_bytes);
}

/* Allocates and frees for all streams, because frameworks name the stream that a block was
 * allocated for, and not those that used it. */
void *cushim_pool_process_alloc(ssize_t bytes, int device, struct CUstream_st *stream) {
    (void)stream;
    return alloc(__func__, bytes, device, CUSHIM_STREAM_ALL);
}

void cushim_pool_process_free(void *ptr, ssize_t bytes, int device, struct CUstream_st *stream) {
    (void)bytes;
    (void)stream;
    free_on(ptr, device, CUSHIM_STREAM_ALL);
}

/* ---- in stream order, for frameworks that report the use by other streams ---- */

/* Only the default stream is ordered here, because a framework may destroy any other stream without
 * telling us, and we would record a fence on a handle that is gone. */
static struct cushim_stream *order_of(const struct CUstream_st *stream) {
    return stream ? CUSHIM_STREAM_ALL : NULL;
}

void *cushim_pool_process_alloc_ordered(ssize_t bytes, int device, struct CUstream_st *stream) {
    return alloc(__func__, bytes, device, order_of(stream));
}

void cushim_pool_process_record_stream(void *ptr, struct CUstream_st *stream) {
    struct cushim_mem_stream_block *block = block_at(ptr);
    (void)stream;
    if (block)
        block->is_shared = true;
}

void cushim_pool_process_free_ordered(void *ptr, ssize_t bytes, int device,
                                      struct CUstream_st *stream) {
    struct cushim_mem_stream_block *block = block_at(ptr);
    bool is_shared = block && block->is_shared;
    (void)bytes;
    if (is_shared)
        block->is_shared = false;
    free_on(ptr, device, is_shared ? CUSHIM_STREAM_ALL : order_of(stream));
}

void *cushim_pool_process_alloc_for(struct CUstream_st *stream, size_t bytes, int device) {
    return cushim_pool_process_alloc_ordered((ssize_t)bytes, device, stream);
}

void cushim_pool_process_free_for(struct CUstream_st *stream, void *ptr, int device) {
    cushim_pool_process_free_ordered(ptr, 0, device, stream);
}

void cushim_pool_process_trim(void) {
    struct cushim_pool *p = atomic_load(&pool);
    if (p)
        cushim_pool_drain(p);
}
