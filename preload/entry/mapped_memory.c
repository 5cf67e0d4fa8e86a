#include "preload/entry/mapped_memory.h"

#include <string.h>

#include <utlist.h>

#include "base/log.h"
#include "cuda/table.h"
#include "memory/provider/provider.h"
#include "preload/entry/device_limit.h"
#include "preload/entry/entry.h"
#include "preload/entry/mapped.h"
#include "preload/state/live.h"

/* ---- calls for a part of kept memory ---- */

/*
 * Kept memory of which the program lacks this part, its handle or its address: that of which this
 * thread took the other part first, else that of which the program has no part, the last unmapped.
 */
static struct cushim_mapped_memory *pick(size_t n_bytes, const CUmemAllocationProp *properties,
                                         size_t align_bytes) {
    struct cushim_mapped_memory *memory, *parked = NULL;
    DL_FOREACH(cushim_mapped_unmapped, memory) {
        bool has_part = properties ? memory->n_references : memory->has_address;
        bool has_other = properties ? memory->has_address : memory->n_references;
        bool fits = properties ? !memcmp(&memory->properties, properties, sizeof *properties)
                               : memory->align_bytes == align_bytes;
        if (has_part || memory->is_unmapped || memory->n_bytes != n_bytes || !fits)
            continue;
        if (has_other && memory->thread == &cushim_thread)
            return memory;
        if (!has_other)
            parked = memory;
    }
    return parked;
}

static bool create_kept(CUmemGenericAllocationHandle *handle, size_t n_bytes,
                        const CUmemAllocationProp *properties) {
    CUSHIM_MAPPED_LOCKED;
    struct cushim_mapped_memory *memory = pick(n_bytes, properties, 0);
    if (memory) {
        cushim_mapped_take(memory);
        memory->thread = &cushim_thread;
        *handle = memory->handle;
    }
    return memory;
}

static bool reserve_kept(CUdeviceptr *address, size_t n_bytes, size_t align_bytes) {
    CUSHIM_MAPPED_LOCKED;
    struct cushim_mapped_memory *memory = pick(n_bytes, NULL, align_bytes);
    if (memory) {
        memory->has_address = true;
        memory->thread = &cushim_thread;
        *address = memory->address;
    }
    return memory;
}

/* Under the lock, as the next three. */
static bool map_kept(CUdeviceptr address, size_t n_bytes, CUmemGenericAllocationHandle handle) {
    struct cushim_mapped_memory *memory = cushim_mapped_at(address, n_bytes);
    if (!memory || memory->handle != handle || !memory->n_references || memory->n_mappings ||
        !memory->has_address ||
        !cushim_rows_insert(&cushim_mapped_places,
                            (struct cushim_row){address, n_bytes, 0, memory, NULL}))
        return false;
    memory->n_mappings = 1;
    DL_DELETE(cushim_mapped_unmapped, memory);
    return true;
}

static struct cushim_mapped_memory *unmap_kept(CUdeviceptr address, size_t n_bytes) {
    struct cushim_mapped_memory *memory = cushim_mapped_at(address, n_bytes);
    if (!memory || !memory->n_mappings)
        return NULL;
    cushim_rows_erase(&cushim_mapped_places, cushim_rows_place(&cushim_mapped_places, address));
    cushim_mapped_unmap(memory);
    return memory;
}

static struct cushim_mapped_memory *release_kept(CUmemGenericAllocationHandle handle) {
    struct cushim_mapped_memory *memory = cushim_mapped_find(handle);
    if (!memory || !memory->address || memory->n_references != 1)
        return NULL;
    memory->n_references = 0;
    cushim_mapped_settle(memory);
    return memory;
}

static bool unreserve_kept(CUdeviceptr address, size_t n_bytes) {
    struct cushim_mapped_memory *memory = cushim_mapped_at(address, n_bytes);
    if (!memory || !memory->has_address || memory->n_mappings)
        return false;
    memory->has_address = false;
    return true;
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

static CUresult create_on_device(struct cushim_cuda *cuda, CUmemGenericAllocationHandle *handle,
                                 size_t n_bytes, const CUmemAllocationProp *properties,
                                 unsigned long long flags, bool may_keep) {
    if (!cushim_device_limit_admits_on(cuda, properties->location.id, n_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (may_keep)
        cushim_mapped_make_room(cuda, properties->location.id, n_bytes);
    return CUSHIM_ENTRY_RETRIED(cuda->cuMemCreate(handle, n_bytes, properties, flags));
}

/* A handle type and GPUDirect RDMA are used by later calls alone, which are refused, and PyTorch
 * asks for both whatever it does.  Host memory has no compression and no tiles of arrays. */
static bool create_on_host(struct cushim_cuda *cuda, CUmemGenericAllocationHandle *handle,
                           size_t n_bytes, const CUmemAllocationProp *properties,
                           unsigned long long flags) {
    return handle && n_bytes && !flags && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           !properties->allocFlags.compressionType && !properties->allocFlags.usage &&
           cushim_device_limit_admits_spilled(properties->location.id, n_bytes) &&
           cushim_mem_provider_spill_create(cuda, properties->location.id, n_bytes, handle) ==
               CUDA_SUCCESS;
}

CUresult cushim_mapped_memory_create(struct cushim_cuda *cuda, CUmemGenericAllocationHandle *handle,
                                     size_t n_bytes, const CUmemAllocationProp *properties,
                                     unsigned long long flags) {
    struct cushim_foreign foreign = {
        .n_bytes = n_bytes, .kind = CUSHIM_KIND_MAPPED, .stats = stats_of(properties)};
    if (!foreign.stats)
        return cuda->cuMemCreate(handle, n_bytes, properties, flags);
    bool may_keep = handle && !flags && cushim_mapped_keeps(cuda);
    foreign.is_hit = may_keep && create_kept(handle, n_bytes, properties);
    if (foreign.is_hit) {
        foreign.address = *handle;
        return cushim_entry_note_foreign(&foreign, CUDA_SUCCESS);
    }
    CUresult answer = create_on_device(cuda, handle, n_bytes, properties, flags, may_keep);
    if (answer == CUDA_ERROR_OUT_OF_MEMORY &&
        create_on_host(cuda, handle, n_bytes, properties, flags)) {
        answer = CUDA_SUCCESS;
        foreign.kind = CUSHIM_KIND_SPILLED;
        foreign.stats += CUSHIM_KIND_SPILLED - CUSHIM_KIND_MAPPED;
    }
    if (answer == CUDA_SUCCESS) {
        log_debug("request", "cuMemCreate of size %zu was forwarded", n_bytes);
        foreign.address = *handle;
        int cancel = cushim_mapped_enter();
        bool is_added = cushim_mapped_add(cuda, &foreign, properties);
        cushim_mapped_leave(cancel);
        if (!is_added)
            return answer;
    }
    return cushim_entry_note_foreign(&foreign, answer);
}

CUresult cushim_mapped_memory_release(struct cushim_cuda *cuda,
                                      CUmemGenericAllocationHandle handle) {
    bool may_keep = cushim_mapped_keeps(cuda);
    int cancel = cushim_mapped_enter();
    struct cushim_mapped_memory *memory = may_keep ? release_kept(handle) : NULL;
    if (memory) {
        int device = memory->properties.location.id;
        cushim_mapped_leave(cancel);
        cushim_mapped_look(cuda, device);
        return CUDA_SUCCESS;
    }
    memory = cushim_mapped_find(handle);
    CUresult answer = CUDA_SUCCESS;
    if (memory && memory->address && memory->n_references <= 1)
        answer = cushim_mapped_catch_up(cuda, memory);
    memory = cushim_mapped_find(handle);
    cushim_mapped_leave(cancel);
    if (answer == CUDA_SUCCESS)
        answer = cuda->cuMemRelease(handle);
    CUSHIM_MAPPED_LOCKED;
    if (memory && memory->n_references && answer == CUDA_SUCCESS) {
        memory->n_references--;
        cushim_mapped_settle(memory);
    }
    return answer;
}

static bool count_reference(CUmemGenericAllocationHandle handle) {
    struct cushim_mapped_memory *memory = cushim_mapped_find(handle);
    if (memory)
        memory->n_references++;
    return memory;
}

/* If the program released all references of what it has mapped, the driver still has ours. */
CUresult cushim_mapped_memory_retain(struct cushim_cuda *cuda, CUmemGenericAllocationHandle *handle,
                                     void *address) {
    CUresult answer = cushim_mapped_memory_ask_at(cuda, (CUdeviceptr)(uintptr_t)address);
    int cancel = cushim_mapped_enter();
    struct cushim_mapped_memory *memory = cushim_mapped_in((CUdeviceptr)(uintptr_t)address, 1);
    bool is_ours = memory && memory->n_mappings && !memory->n_references && handle;
    if (is_ours) {
        memory->n_references = 1;
        *handle = memory->handle;
    }
    cushim_mapped_leave(cancel);
    if (is_ours || answer != CUDA_SUCCESS)
        return answer;
    answer = cuda->cuMemRetainAllocationHandle(handle, address);
    CUSHIM_MAPPED_LOCKED;
    if (answer == CUDA_SUCCESS)
        count_reference(*handle);
    return answer;
}

/* Of memory that this process made, a driver may give the handle that it has. */
CUresult cushim_mapped_memory_import(struct cushim_cuda *cuda, CUmemGenericAllocationHandle *handle,
                                     void *shared, CUmemAllocationHandleType type) {
    CUmemAllocationProp properties;
    CUresult answer = cuda->cuMemImportFromShareableHandle(handle, shared, type);
    struct cushim_foreign foreign = {0};
    if (answer == CUDA_SUCCESS && cuda->cuMemGetAllocationPropertiesFromHandle &&
        cuda->cuMemGetAllocationPropertiesFromHandle(&properties, *handle) == CUDA_SUCCESS) {
        foreign.address = *handle;
        foreign.stats = stats_of(&properties);
    }
    CUSHIM_MAPPED_LOCKED;
    if (answer == CUDA_SUCCESS && !count_reference(*handle) && foreign.stats &&
        cushim_mapped_add(cuda, &foreign, &properties))
        cushim_mapped_find(*handle)->is_shared = true;
    return answer;
}

CUresult cushim_mapped_memory_reserve(struct cushim_cuda *cuda, CUdeviceptr *address,
                                      size_t n_bytes, size_t align_bytes, CUdeviceptr hint,
                                      unsigned long long flags) {
    bool is_plain = address && !hint && !flags;
    if (is_plain && cushim_mapped_keeps(cuda) && reserve_kept(address, n_bytes, align_bytes))
        return CUDA_SUCCESS;
    int cancel = cushim_mapped_enter();
    CUresult answer = hint ? cushim_mapped_catch_up_in(cuda, hint, n_bytes) : CUDA_SUCCESS;
    cushim_mapped_leave(cancel);
    if (answer == CUDA_SUCCESS)
        answer = CUSHIM_ENTRY_RETRIED(
            cuda->cuMemAddressReserve(address, n_bytes, align_bytes, hint, flags));
    if (answer != CUDA_SUCCESS || !is_plain)
        return answer;
    CUSHIM_MAPPED_LOCKED;
    cushim_rows_insert(&cushim_mapped_reservations,
                       (struct cushim_row){.address = *address, n_bytes, align_bytes, NULL, NULL});
    return answer;
}

CUresult cushim_mapped_memory_unreserve(struct cushim_cuda *cuda, CUdeviceptr address,
                                        size_t n_bytes) {
    struct cushim_row row = {0};
    bool may_keep = cushim_mapped_keeps(cuda);
    int cancel = cushim_mapped_enter();
    bool is_done = may_keep && unreserve_kept(address, n_bytes);
    CUresult answer = is_done ? CUDA_SUCCESS : cushim_mapped_catch_up_in(cuda, address, n_bytes);
    struct cushim_row *found = is_done || answer != CUDA_SUCCESS
                                   ? NULL
                                   : cushim_rows_at(&cushim_mapped_reservations, address, n_bytes);
    if (found) { /* before another thread may get the address */
        row = *found;
        cushim_rows_erase(&cushim_mapped_reservations,
                          (size_t)(found - cushim_mapped_reservations.row));
    }
    cushim_mapped_leave(cancel);
    if (is_done || answer != CUDA_SUCCESS)
        return answer;
    answer = cuda->cuMemAddressFree(address, n_bytes);
    if (answer == CUDA_SUCCESS || !found)
        return answer;
    CUSHIM_MAPPED_LOCKED;
    cushim_rows_insert(&cushim_mapped_reservations, row);
    return answer;
}

/* Its first mapping tells how large imported memory is, because programs map it as a whole. */
static void count_imported(const struct cushim_mapped_memory *memory, size_t n_bytes) {
    const struct cushim_foreign foreign = {
        .address = memory->handle,
        .n_bytes = n_bytes,
        .kind = CUSHIM_KIND_IMPORTED,
        .stats = &cushim_page.stats[memory->properties.location.id][CUSHIM_KIND_IMPORTED]};
    if (!cushim_foreign_bytes(foreign.address))
        cushim_foreign_record(&foreign);
}

/* After the driver's map.  Without memory of the host for its row, the mapping does not keep its
 * memory alive in the account. */
static void mapped(CUdeviceptr address, size_t n_bytes, CUmemGenericAllocationHandle handle,
                   bool is_whole) {
    struct cushim_mapped_memory *memory = cushim_mapped_find(handle);
    struct cushim_row *reservation = cushim_rows_at(&cushim_mapped_reservations, address, n_bytes);
    if (!memory || !cushim_rows_insert(&cushim_mapped_places,
                                       (struct cushim_row){address, n_bytes, 0, memory, NULL}))
        return;
    memory->n_mappings++;
    if (!memory->n_bytes)
        count_imported(memory, n_bytes);
    if (!is_whole || !reservation || reservation->memory || memory->n_bytes != n_bytes ||
        memory->n_mappings != 1 || !memory->n_references || memory->is_shared)
        return;
    reservation->memory = memory;
    memory->address = address;
    memory->align_bytes = reservation->align_bytes;
    memory->has_address = true;
    memory->access = 0;
}

CUresult cushim_mapped_memory_map(struct cushim_cuda *cuda, CUdeviceptr address, size_t n_bytes,
                                  size_t offset, CUmemGenericAllocationHandle handle,
                                  unsigned long long flags) {
    bool is_whole = !offset && !flags && cushim_mapped_keeps(cuda);
    int cancel = cushim_mapped_enter();
    bool is_done = is_whole && map_kept(address, n_bytes, handle);
    CUresult answer = is_done ? CUDA_SUCCESS : cushim_mapped_catch_up_in(cuda, address, n_bytes);
    if (answer == CUDA_SUCCESS && !is_done)
        answer = cushim_mapped_catch_up_of(cuda, handle);
    cushim_mapped_leave(cancel);
    if (is_done || answer != CUDA_SUCCESS)
        return answer;
    answer = cuda->cuMemMap(address, n_bytes, offset, handle, flags);
    CUSHIM_MAPPED_LOCKED;
    if (answer == CUDA_SUCCESS)
        mapped(address, n_bytes, handle, is_whole);
    return answer;
}

/* The driver unmaps whole mappings alone, and passes over what is not mapped between them. */
static void mark(CUdeviceptr address, size_t n_bytes) {
    for (size_t place = cushim_rows_place(&cushim_mapped_places, address);
         cushim_rows_reach(&cushim_mapped_places, place, address, n_bytes); place++)
        cushim_mapped_places.row[place].leaver = &cushim_thread;
}

/* The driver has answered for what was marked. */
static void drop_marked(CUdeviceptr address, size_t n_bytes, bool is_gone) {
    size_t place = cushim_rows_place(&cushim_mapped_places, address);
    while (cushim_rows_reach(&cushim_mapped_places, place, address, n_bytes)) {
        struct cushim_row *row = &cushim_mapped_places.row[place];
        bool is_mine = row->leaver == &cushim_thread;
        if (!is_mine || !is_gone) {
            row->leaver = is_mine ? NULL : row->leaver;
            place++;
            continue;
        }
        row->memory->n_mappings--;
        cushim_mapped_settle(row->memory);
        cushim_rows_erase(&cushim_mapped_places, place);
    }
}

CUresult cushim_mapped_memory_unmap(struct cushim_cuda *cuda, CUdeviceptr address, size_t n_bytes) {
    bool may_keep = cushim_mapped_keeps(cuda);
    int cancel = cushim_mapped_enter();
    struct cushim_mapped_memory *memory = may_keep ? unmap_kept(address, n_bytes) : NULL;
    if (memory) {
        int device = memory->properties.location.id;
        cushim_mapped_leave(cancel);
        cushim_mapped_look(cuda, device);
        return CUDA_SUCCESS;
    }
    CUresult answer = cushim_mapped_catch_up_in(cuda, address, n_bytes);
    if (answer == CUDA_SUCCESS)
        mark(address, n_bytes);
    cushim_mapped_leave(cancel);
    if (answer != CUDA_SUCCESS)
        return answer;
    answer = cuda->cuMemUnmap(address, n_bytes);
    CUSHIM_MAPPED_LOCKED;
    drop_marked(address, n_bytes, answer == CUDA_SUCCESS);
    return answer;
}

/* The devices that are to read and write; 0: something else is asked. */
static uint64_t devices_of(const CUmemAccessDesc *access, size_t n) {
    uint64_t devices = 0;
    for (size_t i = 0; access && i < n; i++) {
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || access[i].location.id < 0 ||
            access[i].location.id >= 64 || access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return 0;
        devices |= (uint64_t)1 << access[i].location.id;
    }
    return devices;
}

CUresult cushim_mapped_memory_set_access(struct cushim_cuda *cuda, CUdeviceptr address,
                                         size_t n_bytes, const CUmemAccessDesc *access, size_t n) {
    uint64_t devices = devices_of(access, n);
    int cancel = cushim_mapped_enter();
    struct cushim_mapped_memory *memory = cushim_mapped_at(address, n_bytes);
    bool is_kept = devices && memory && memory->n_mappings;
    bool is_done = is_kept && !(devices & ~memory->access);
    CUresult answer = is_kept ? CUDA_SUCCESS : cushim_mapped_catch_up_in(cuda, address, n_bytes);
    cushim_mapped_leave(cancel);
    if (is_done || answer != CUDA_SUCCESS)
        return answer;
    answer = cuda->cuMemSetAccess(address, n_bytes, access, n);
    CUSHIM_MAPPED_LOCKED;
    memory = cushim_mapped_at(address, n_bytes);
    if (is_kept && answer == CUDA_SUCCESS && memory && memory->n_mappings)
        memory->access |= devices;
    return answer;
}

CUresult cushim_mapped_memory_ask_at(struct cushim_cuda *cuda, CUdeviceptr address) {
    CUSHIM_MAPPED_LOCKED;
    struct cushim_mapped_memory *memory = cushim_mapped_in(address, 1);
    return memory && !memory->n_mappings ? cushim_mapped_catch_up(cuda, memory) : CUDA_SUCCESS;
}

bool cushim_mapped_memory_is_spilled(CUmemGenericAllocationHandle handle,
                                     CUmemAllocationProp *properties) {
    CUSHIM_MAPPED_LOCKED;
    const struct cushim_mapped_memory *memory = cushim_mapped_find(handle);
    bool is_spilled = memory && memory->is_spilled && memory->n_references;
    if (is_spilled)
        *properties = memory->properties;
    return is_spilled;
}

CUresult cushim_mapped_memory_share(struct cushim_cuda *cuda, CUmemGenericAllocationHandle handle) {
    CUSHIM_MAPPED_LOCKED;
    CUresult answer = cushim_mapped_catch_up_of(cuda, handle);
    struct cushim_mapped_memory *memory = cushim_mapped_find(handle);
    if (memory)
        memory->is_shared = true;
    return answer;
}

CUresult cushim_mapped_memory_share_at(struct cushim_cuda *cuda, CUdeviceptr address,
                                       size_t n_bytes) {
    CUSHIM_MAPPED_LOCKED;
    CUresult answer = cushim_mapped_catch_up_in(cuda, address, n_bytes);
    for (size_t place = cushim_rows_place(&cushim_mapped_places, address);
         cushim_rows_reach(&cushim_mapped_places, place, address, n_bytes); place++)
        cushim_mapped_places.row[place].memory->is_shared = true;
    return answer;
}
