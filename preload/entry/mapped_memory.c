#include "preload/entry/mapped_memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/cancel.h"
#include "base/log.h"
#include "cuda/table.h"
#include "preload/entry/device_limit.h"
#include "preload/entry/entry.h"
#include "preload/state/live.h"

struct memory {
    CUmemGenericAllocationHandle handle;
    uint64_t n_references, n_mappings; /* none of either: it is gone */
    UT_hash_handle hh;
};

struct mapping {
    CUdeviceptr address;
    struct memory *memory;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory *memories;
static struct mapping *mappings; /* by address, the lowest first */
static size_t n_mappings, most_mappings;

/* A thread that was cancelled in here would keep the lock. */
static int enter(void) {
    int cancel = cushim_cancel_hold();
    pthread_mutex_lock(&lock);
    return cancel;
}

static void leave(int cancel) {
    pthread_mutex_unlock(&lock);
    cushim_cancel_let(cancel);
}

/* ---- the table, under the lock ---- */

static struct memory *find(CUmemGenericAllocationHandle handle) {
    struct memory *memory;
    HASH_FIND(hh, memories, &handle, sizeof handle, memory);
    return memory;
}

static void settle(struct memory *memory) {
    struct cushim_foreign foreign;
    if (memory->n_references || memory->n_mappings)
        return;
    if (cushim_foreign_erase(memory->handle, &foreign))
        cushim_foreign_count_free(&foreign);
    HASH_DEL(memories, memory);
    free(memory);
}

static bool add(CUmemGenericAllocationHandle handle) {
    struct memory *memory = find(handle);
    if (memory) { /* it went in a way that we do not see */
        memory->n_references = 1;
        return true;
    }
    memory = calloc(1, sizeof *memory);
    if (!memory)
        return false;
    memory->handle = handle;
    memory->n_references = 1;
    HASH_ADD(hh, memories, handle, sizeof memory->handle, memory);
    bool is_added = find(handle) == memory; /* else uthash was out of memory */
    if (!is_added)
        free(memory);
    return is_added;
}

static void add_reference(CUmemGenericAllocationHandle handle) {
    struct memory *memory = find(handle);
    if (memory)
        memory->n_references++;
}

/* The first mapping at this address or above. */
static size_t place_of(CUdeviceptr address) {
    size_t low = 0, high = n_mappings;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (mappings[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has_room(void) {
    if (n_mappings < most_mappings)
        return true;
    size_t most = most_mappings ? 2 * most_mappings : 64;
    struct mapping *grown = reallocarray(mappings, most, sizeof *grown);
    if (!grown)
        return false;
    mappings = grown;
    most_mappings = most;
    return true;
}

/* Without memory of the host for it, the mapping does not keep its memory alive in the account. */
static void add_mapping(CUdeviceptr address, struct memory *memory) {
    if (!memory || !has_room())
        return;
    size_t place = place_of(address);
    memmove(mappings + place + 1, mappings + place, (n_mappings - place) * sizeof *mappings);
    mappings[place] = (struct mapping){address, memory};
    n_mappings++;
    memory->n_mappings++;
}

/* The driver unmaps whole mappings alone, and passes over what is not mapped between them. */
static void drop_mappings(CUdeviceptr address, size_t n_bytes) {
    size_t first = place_of(address), end = first;
    for (; end < n_mappings && mappings[end].address - address < n_bytes; end++) {
        mappings[end].memory->n_mappings--;
        settle(mappings[end].memory);
    }
    memmove(mappings + first, mappings + end, (n_mappings - end) * sizeof *mappings);
    n_mappings -= end - first;
}

void cushim_mapped_memory_drop_all(void) {
    struct memory *memory, *next;
    int cancel = enter();
    n_mappings = 0;
    HASH_ITER(hh, memories, memory, next) {
        memory->n_references = memory->n_mappings = 0;
        settle(memory);
    }
    leave(cancel);
}

/* ---- calls ---- */

/* NULL: it is no device's memory, or of a device that nobody counts. */
static struct cushim_mem_stats *stats_of(const CUmemAllocationProp *properties) {
    if (!cushim_process_is_on() || !properties ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->location.id < 0 ||
        properties->location.id >= CUSHIM_MAX_DEVICES)
        return NULL;
    struct cushim_mem_stats *of_device = cushim_page.stats[properties->location.id];
    cushim_live_show(of_device, sizeof cushim_page.stats[0]);
    return &of_device[CUSHIM_KIND_MAPPED];
}

CUresult cushim_mapped_memory_create(struct cushim_cuda *cuda, CUmemGenericAllocationHandle *handle,
                                     size_t n_bytes, const CUmemAllocationProp *properties,
                                     unsigned long long flags) {
    struct cushim_foreign foreign = {
        .n_bytes = n_bytes, .kind = CUSHIM_KIND_MAPPED, .stats = stats_of(properties)};
    if (!foreign.stats)
        return cuda->cuMemCreate(handle, n_bytes, properties, flags);
    if (!cushim_device_limit_admits_on(cuda, properties->location.id, n_bytes))
        return cushim_entry_note_foreign(&foreign, CUDA_ERROR_OUT_OF_MEMORY);
    CUresult answer = cuda->cuMemCreate(handle, n_bytes, properties, flags);
    if (cushim_entry_should_retry(answer))
        answer = cuda->cuMemCreate(handle, n_bytes, properties, flags);
    if (answer == CUDA_SUCCESS) {
        log_debug("request", "cuMemCreate of size %zu was forwarded", n_bytes);
        foreign.address = *handle;
        int cancel = enter();
        bool is_added = add(*handle);
        leave(cancel);
        if (!is_added)
            return answer;
    }
    return cushim_entry_note_foreign(&foreign, answer);
}

CUresult cushim_mapped_memory_release(struct cushim_cuda *cuda,
                                      CUmemGenericAllocationHandle handle) {
    int cancel = enter();
    CUresult answer = cuda->cuMemRelease(handle);
    struct memory *memory = answer == CUDA_SUCCESS ? find(handle) : NULL;
    if (memory && memory->n_references) {
        memory->n_references--;
        settle(memory);
    }
    leave(cancel);
    return answer;
}

CUresult cushim_mapped_memory_retain(struct cushim_cuda *cuda, CUmemGenericAllocationHandle *handle,
                                     void *address) {
    int cancel = enter();
    CUresult answer = cuda->cuMemRetainAllocationHandle(handle, address);
    if (answer == CUDA_SUCCESS)
        add_reference(*handle);
    leave(cancel);
    return answer;
}

/* Of memory that this process made, a driver may give the handle that it has. */
CUresult cushim_mapped_memory_import(struct cushim_cuda *cuda, CUmemGenericAllocationHandle *handle,
                                     void *shared, CUmemAllocationHandleType type) {
    int cancel = enter();
    CUresult answer = cuda->cuMemImportFromShareableHandle(handle, shared, type);
    if (answer == CUDA_SUCCESS)
        add_reference(*handle);
    leave(cancel);
    return answer;
}

CUresult cushim_mapped_memory_map(struct cushim_cuda *cuda, CUdeviceptr address, size_t n_bytes,
                                  size_t offset, CUmemGenericAllocationHandle handle,
                                  unsigned long long flags) {
    int cancel = enter();
    CUresult answer = cuda->cuMemMap(address, n_bytes, offset, handle, flags);
    if (answer == CUDA_SUCCESS)
        add_mapping(address, find(handle));
    leave(cancel);
    return answer;
}

CUresult cushim_mapped_memory_unmap(struct cushim_cuda *cuda, CUdeviceptr address, size_t n_bytes) {
    int cancel = enter();
    CUresult answer = cuda->cuMemUnmap(address, n_bytes);
    if (answer == CUDA_SUCCESS)
        drop_mappings(address, n_bytes);
    leave(cancel);
    return answer;
}
