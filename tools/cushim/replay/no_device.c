#include "tools/cushim/replay/no_device.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "cuda/load.h"

/* Freed memory of one size, which is reused. */
struct size {
    uint64_t n_bytes;
    struct piece *free;
    UT_hash_handle hh;
};

struct piece {
    uint64_t address;
    struct size *size;
    unsigned device; /* NO_DEVICE_MOST for host memory */
    struct piece *next;
    UT_hash_handle hh;
};

static struct size *sizes;
static struct piece *pieces; /* the pieces that are in use */
static uint64_t next_address = (uint64_t)1 << 40, now_ns;
/* The limit of all memory together.  No machine has more, and the engine needs 8 bytes for each
 * 64 KiB. */
static const uint64_t most_bytes = (uint64_t)4 << 40;

static struct { uint64_t used_bytes, total_bytes; } memory[NO_DEVICE_MOST + 1];
static uint64_t all_used_bytes;
static CUcontext current, pushed_over;
static unsigned current_device;

/* ---- memory ---- */

static struct piece *take_piece(struct size *size) {
    struct piece *piece = size->free;
    if (piece) {
        size->free = piece->next;
        return piece;
    }
    piece = calloc(1, sizeof *piece);
    if (!piece)
        return NULL;
    piece->size = size;
    piece->address = next_address;
    next_address += size->n_bytes;
    return piece;
}

/* Allocate whole pages of 2 MiB, as the driver does. */
static CUresult get(uint64_t *address, size_t n_bytes, unsigned device) {
    const uint64_t page_bytes = (uint64_t)2 << 20,
                   all_bytes = (n_bytes + page_bytes - 1) & ~(page_bytes - 1);
    if (n_bytes > most_bytes ||
        all_bytes > memory[device].total_bytes - memory[device].used_bytes ||
        all_bytes > most_bytes - all_used_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct size *size;
    HASH_GET(sizes, n_bytes, all_bytes, size);
    struct piece *piece = size ? take_piece(size) : NULL;
    if (!piece)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory[device].used_bytes += size->n_bytes;
    all_used_bytes += size->n_bytes;
    piece->device = device;
    HASH_ADD(hh, pieces, address, sizeof piece->address, piece);
    *address = piece->address;
    return CUDA_SUCCESS;
}

static CUresult give(uint64_t address) {
    struct piece *piece;
    HASH_FIND(hh, pieces, &address, sizeof address, piece);
    if (!piece)
        return CUDA_ERROR_INVALID_VALUE;
    HASH_DEL(pieces, piece);
    memory[piece->device].used_bytes -= piece->size->n_bytes;
    all_used_bytes -= piece->size->n_bytes;
    piece->next = piece->size->free;
    piece->size->free = piece;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI mem_alloc(CUdeviceptr *address, size_t n_bytes) {
    uint64_t at = 0;
    CUresult answer = get(&at, n_bytes, current_device);
    *address = at;
    return answer;
}

static CUresult CUDAAPI mem_alloc_managed(CUdeviceptr *address, size_t n_bytes, unsigned flags) {
    (void)flags;
    return mem_alloc(address, n_bytes);
}

static CUresult CUDAAPI mem_free(CUdeviceptr address) {
    return give(address);
}

static CUresult CUDAAPI mem_host_alloc(void **address, size_t n_bytes, unsigned flags) {
    uint64_t at = 0;
    CUresult answer = get(&at, n_bytes, NO_DEVICE_MOST);
    (void)flags;
    *address = (void *)(uintptr_t)at; /* nothing reads there */
    return answer;
}

static CUresult CUDAAPI mem_free_host(void *address) {
    return give((uint64_t)(uintptr_t)address);
}

static CUresult CUDAAPI mem_get_info(size_t *free_bytes, size_t *all_bytes) {
    *all_bytes = memory[current_device].total_bytes;
    *free_bytes = *all_bytes - memory[current_device].used_bytes;
    return CUDA_SUCCESS;
}

/* ---- contexts and work ---- */

static CUresult CUDAAPI get_current(CUcontext *context) {
    *context = current;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI push_current(CUcontext context) {
    pushed_over = current;
    current = context;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI pop_current(CUcontext *context) {
    *context = current;
    current = pushed_over;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI event_create(CUevent *event, unsigned flags) {
    static char any;
    (void)flags;
    *event = (CUevent)(void *)&any;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI event_done(CUevent event) {
    (void)event;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI context_record(CUcontext context, CUevent event) {
    (void)context;
    (void)event;
    return CUDA_SUCCESS;
}

static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
    {"cuMemAlloc_v2", (void (*)(void))mem_alloc},
    {"cuMemAllocManaged", (void (*)(void))mem_alloc_managed},
    {"cuMemFree_v2", (void (*)(void))mem_free},
    {"cuMemHostAlloc", (void (*)(void))mem_host_alloc},
    {"cuMemFreeHost", (void (*)(void))mem_free_host},
    {"cuMemGetInfo_v2", (void (*)(void))mem_get_info},
    {"cuCtxGetCurrent", (void (*)(void))get_current},
    {"cuCtxPushCurrent_v2", (void (*)(void))push_current},
    {"cuCtxPopCurrent_v2", (void (*)(void))pop_current},
    {"cuCtxRecordEvent", (void (*)(void))context_record},
    {"cuEventCreate", (void (*)(void))event_create},
    {"cuEventQuery", (void (*)(void))event_done},
    {"cuEventSynchronize", (void (*)(void))event_done},
    {"cuEventDestroy_v2", (void (*)(void))event_done},
};

static void *find(const char *name, void *cookie) {
    (void)cookie;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(functions[i].name, name) == 0)
            return (void *)(uintptr_t)functions[i].function;
    }
    return NULL;
}

struct cushim_cuda *no_device_open(void) {
    struct cushim_cuda *cuda = cushim_cuda_create();
    if (cuda)
        cushim_cuda_load(cuda, find, NULL, NULL);
    for (unsigned i = 0; i <= NO_DEVICE_MOST; i++)
        memory[i].total_bytes = most_bytes;
    return cuda;
}

void no_device_set_memory(unsigned device, uint64_t n_bytes) {
    uint64_t used_bytes = memory[device].used_bytes;
    memory[device].total_bytes = n_bytes > used_bytes ? n_bytes : used_bytes;
}

void no_device_set_context(uint64_t context, unsigned device) {
    current_device = device;
    current = (CUcontext)(uintptr_t)context;
}

/* ---- time ---- */

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

/* The linker redirects all calls of the command to this, because what the engine keeps depends on
 * how long ago it was used, and a recording of minutes is planned in less than a second. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *time) {
    if (!now_ns)
        return __real_clock_gettime(clock, time);
    time->tv_sec = (time_t)(now_ns / 1000000000);
    time->tv_nsec = (long)(now_ns % 1000000000);
    return 0;
}

void no_device_set_time(uint64_t ns) {
    now_ns = ns;
}
