#include "alloc.h"

#include <dlfcn.h>
#include <string.h>

#include "tests/bench/bench.h"

typedef int peer_open_fn(const char *kind);
typedef int peer_obtain_fn(void **block, size_t n_bytes, cudaStream_t stream);
typedef int peer_release_fn(void *block, size_t n_bytes, cudaStream_t stream);

static peer_obtain_fn *peer_obtain;
static peer_release_fn *peer_release;
static cudaMemPool_t kept_pool;

cudaStream_t allocator_stream(void) {
    static _Thread_local cudaStream_t stream; /* never destroyed */
    if (!stream)
        bench_must("stream", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static int settle_stream(void) {
    return cudaStreamSynchronize(allocator_stream());
}

static int obtain_malloc(void **block, size_t n_bytes) {
    return cudaMalloc(block, n_bytes);
}

static int release_malloc(void *block, size_t n_bytes) {
    (void)n_bytes;
    return cudaFree(block);
}

static int obtain_async(void **block, size_t n_bytes) {
    return cudaMallocAsync(block, n_bytes, allocator_stream());
}

static int obtain_kept(void **block, size_t n_bytes) {
    return cudaMallocFromPoolAsync(block, n_bytes, kept_pool, allocator_stream());
}

static int release_async(void *block, size_t n_bytes) {
    (void)n_bytes;
    return cudaFreeAsync(block, allocator_stream());
}

static int obtain_pinned(void **block, size_t n_bytes) {
    return cudaMallocHost(block, n_bytes);
}

static int release_pinned(void *block, size_t n_bytes) {
    (void)n_bytes;
    return cudaFreeHost(block);
}

static int obtain_peer(void **block, size_t n_bytes) {
    return peer_obtain(block, n_bytes, allocator_stream());
}

static int release_peer(void *block, size_t n_bytes) {
    return peer_release(block, n_bytes, allocator_stream());
}

static const struct allocator allocators[] = {
    {"malloc", false, obtain_malloc, release_malloc, NULL},
    {"async", false, obtain_async, release_async, settle_stream},
    {"async-kept", false, obtain_kept, release_async, settle_stream},
    {"pinned", true, obtain_pinned, release_pinned, NULL},
    {"rmm-pool", false, obtain_peer, release_peer, NULL},
    {"rmm-arena", false, obtain_peer, release_peer, NULL},
    {"rmm-async", false, obtain_peer, release_peer, settle_stream},
};

/* Stores a function of the library in a pointer; false if the symbol is missing. */
static bool look_up(void *library, const char *name, void *function) {
    void *address = library ? dlsym(library, name) : NULL;
    memcpy(function, &address, sizeof address);
    return address;
}

static const char *open_kept(void) {
    uint64_t everything = UINT64_MAX;
    struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                          .location = {.type = cudaMemLocationTypeDevice}};
    if (cudaMemPoolCreate(&kept_pool, &properties) ||
        cudaMemPoolSetAttribute(kept_pool, cudaMemPoolAttrReleaseThreshold, &everything))
        return "no pool of its own";
    return NULL;
}

static const char *open_peer(const char *kind, const char *path) {
    peer_open_fn *peer_open;
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    if (path && !library)
        return dlerror();
    if (!look_up(library, "peer_open", &peer_open) ||
        !look_up(library, "peer_obtain", &peer_obtain) ||
        !look_up(library, "peer_release", &peer_release))
        return "no library of the peer";
    return peer_open(kind) ? "the peer does not start" : NULL;
}

static const char *open_any(const char *name, const char *library) {
    if (!strcmp(name, "async-kept"))
        return open_kept();
    if (!strncmp(name, "rmm-", 4))
        return open_peer(name + 4, library);
    return NULL;
}

const struct allocator *allocator_open(const char *name, const char *library, const char **why) {
    for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++) {
        if (!strcmp(allocators[i].name, name)) {
            *why = open_any(name, library);
            return *why ? NULL : &allocators[i];
        }
    }
    *why = "no such allocator";
    return NULL;
}

void allocator_warm(void) {
    enum { N_BYTES = 1 << 20 };
    cudaStream_t stream = allocator_stream();
    cudaMemPool_t pool;
    void *block;
    char byte;
    bench_must("warming up", cudaMallocAsync(&block, N_BYTES, stream));
    bench_must("warming up", cudaMemsetAsync(block, 0, N_BYTES, stream));
    bench_must("warming up", cudaMemcpyAsync(&byte, block, 1, cudaMemcpyDefault, stream));
    bench_must("warming up", cudaFreeAsync(block, stream));
    bench_must("warming up", cudaDeviceSynchronize());
    bench_must("warming up", cudaDeviceGetDefaultMemPool(&pool, 0));
    bench_must("warming up", cudaMemPoolTrimTo(pool, 0));
}

void allocator_check(const struct allocator *allocator, size_t n_bytes) {
    enum { N_MOST = 64 };
    unsigned char head[N_MOST] = {0}, tail[N_MOST] = {0}, want[N_MOST];
    size_t n = n_bytes < N_MOST ? n_bytes : N_MOST;
    void *block = NULL;
    cudaStream_t stream = allocator_stream();
    memset(want, 0xa5, sizeof want);
    bench_must("malloc", allocator->obtain(&block, n_bytes));
    if (!block)
        bench_fail("address", 0);
    if (allocator->is_host)
        memset(block, 0xa5, n_bytes);
    else
        bench_must("memset", cudaMemsetAsync(block, 0xa5, n_bytes, stream));
    bench_must("copy", cudaMemcpyAsync(head, block, n, cudaMemcpyDefault, stream));
    bench_must("copy",
               cudaMemcpyAsync(tail, (char *)block + n_bytes - n, n, cudaMemcpyDefault, stream));
    bench_must("wait", cudaStreamSynchronize(stream));
    if (memcmp(head, want, n) || memcmp(tail, want, n))
        bench_fail("contents", 0);
    bench_must("free", allocator->release(block, n_bytes));
    bench_must("wait", cudaDeviceSynchronize());
}

size_t size_of(const char *text) {
    static const char units[] = "KMG";
    char *end;
    size_t n_bytes = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    return unit ? n_bytes << (10 * (unit - units + 1)) : n_bytes;
}
