/*
 * An allocator for PyTorch (torch.cuda.memory.CUDAPluggableAllocator) that records its calls: each
 * malloc is a cudaMalloc, each free a cudaFree, as with PyTorch's cache off.
 *
 * record_torch.py loads it, sets marks, and turns the events into a trace.  One process, any
 * thread.
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

enum { MAX_EVENTS = 1 << 20 };

struct event {
    uint64_t address; /* 0: a mark */
    uint64_t n_bytes; /* 0: a free */
};

static struct event events[MAX_EVENTS];
static size_t n_events;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define EXPORT __attribute__((visibility("default")))

EXPORT void *record_malloc(ssize_t n_bytes, int device, cudaStream_t stream);
EXPORT void record_free(void *block, ssize_t n_bytes, int device, cudaStream_t stream);
EXPORT void record_mark(void);
EXPORT size_t record_events(const struct event **first);

static void add(uint64_t address, uint64_t n_bytes) {
    if (n_events < MAX_EVENTS)
        events[n_events++] = (struct event){address, n_bytes};
}

/* The lock is held during the calls, so that a free of an address is recorded before the address is
 * handed out again. */
void *record_malloc(ssize_t n_bytes, int device, cudaStream_t stream) {
    void *block = NULL;
    (void)device;
    (void)stream;
    if (n_bytes <= 0)
        return NULL;
    pthread_mutex_lock(&lock);
    if (cudaMalloc(&block, (size_t)n_bytes) == cudaSuccess)
        add((uintptr_t)block, (uint64_t)n_bytes);
    pthread_mutex_unlock(&lock);
    return block;
}

void record_free(void *block, ssize_t n_bytes, int device, cudaStream_t stream) {
    (void)n_bytes;
    (void)device;
    (void)stream;
    if (!block)
        return;
    pthread_mutex_lock(&lock);
    add((uintptr_t)block, 0);
    cudaFree(block);
    pthread_mutex_unlock(&lock);
}

void record_mark(void) {
    pthread_mutex_lock(&lock);
    add(0, 0);
    pthread_mutex_unlock(&lock);
}

/* Returns the number of events and sets `first` to the first of them. */
size_t record_events(const struct event **first) {
    *first = events;
    return n_events;
}
