#include "preload/entry/graph_memory.h"

#include <pthread.h>

#include "base/lock.h"
#include "cuda/table.h"
#include "preload/entry/entry.h"
#include "preload/entry/rows.h"
#include "preload/state/live.h"

atomic_uint_fast64_t cushim_graph_memory_devices;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cushim_rows nodes; /* their addresses */

void cushim_graph_memory_note(int device, CUdeviceptr address) {
    if (device < 0 || device >= CUSHIM_MAX_DEVICES)
        return;
    CUSHIM_LOCKED(&lock);
    if (!cushim_rows_at(&nodes, address, 1))
        cushim_rows_insert(&nodes, (struct cushim_row){.address = address, .n_bytes = 1});
    atomic_fetch_or(&cushim_graph_memory_devices, (uint64_t)1 << device);
}

bool cushim_graph_memory_has(CUdeviceptr address) {
    if (!atomic_load_explicit(&cushim_graph_memory_devices, memory_order_relaxed))
        return false;
    CUSHIM_LOCKED(&lock);
    return cushim_rows_at(&nodes, address, 1);
}

/* Under the lock.  The counters of the device stand for the address, which graphs have none of. */
static void look_at(struct cushim_cuda *cuda, int device) {
    struct cushim_mem_stats *stats = &cushim_page.stats[device][CUSHIM_KIND_GRAPH];
    struct cushim_foreign now = {
        .address = (uintptr_t)stats, .kind = CUSHIM_KIND_GRAPH, .stats = stats};
    cuuint64_t n_bytes = 0;
    if (cuda->cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                                           &n_bytes) != CUDA_SUCCESS ||
        n_bytes == cushim_foreign_bytes(now.address))
        return;
    cushim_foreign_gone(now.address);
    if (!n_bytes)
        return;
    now.n_bytes = n_bytes;
    cuda->cuCtxGetCurrent(&now.context);
    cushim_live_show(cushim_page.stats[device], sizeof cushim_page.stats[device]);
    cushim_entry_note_foreign(&now, CUDA_SUCCESS);
}

void cushim_graph_memory_look(struct cushim_cuda *cuda) {
    uint64_t devices = atomic_load(&cushim_graph_memory_devices);
    if (!cuda->cuDeviceGetGraphMemAttribute || !cushim_entry_is_open(cuda))
        return;
    CUSHIM_LOCKED(&lock);
    for (int device = 0; devices; device++, devices >>= 1) {
        if (devices & 1)
            look_at(cuda, device);
    }
}
