/*
 * Device memory of another process on the same machine.
 *
 * A handle names an allocation, by any address in it: the process, the file behind its device's
 * memory, the page it begins in, and at byte 28 its offset in that page.  The opener maps those
 * pages of that file into its own device's range.  A slot says whether the allocation is still
 * there: a handle of a freed one opens nothing.  If it is open in another process when it is freed,
 * it stays unchanged until it is closed there, as on an H100.  A handle whose offset was changed
 * opens there, but no allocation is open at two offsets in one process, as on an H100 with driver
 * 580.159.
 */
#include "tools/sim/driver/core/abi.h"
#include "block.h"
#include "ipc.h"
#include "ipc_slot.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/context/device.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MAGIC[8] = "cushims";

struct handle {
    char magic[8];
    int32_t pid;
    int32_t fd;           /* of the device's memory, in that process */
    uint64_t page_offset; /* in that file */
    uint32_t slot;
    uint32_t offset; /* in the page: at byte 28, as in the driver's handles */
    uint64_t n_bytes;
    uint64_t life;  /* of the slot */
    uint64_t inode; /* of the file */
    int32_t slot_fd;
    uint32_t check;
};
_Static_assert(sizeof(struct handle) <= CU_IPC_HANDLE_SIZE, "a handle has room for ours");
_Static_assert(offsetof(struct handle, offset) == 28, "the offset stands where the real one does");

/* What was opened, and how often. */
struct import {
    struct handle handle;
    unsigned n_opens;
    char *pages; /* the mapping of the block's pages */
    size_t n_page_bytes;
    struct sim_device *device;
    int hold_fd; /* the exporter's memory stays unchanged while this is open */
};

static void drop_slot(void *slot) {
    sim_ipc_slot_drop(slot);
}

static bool is_open_elsewhere(void *slot) {
    return sim_ipc_slot_end(slot);
}

/* The slot of a block that was shown; it goes with the block.  NULL: none available. */
static struct sim_ipc_slot *slot_of(struct sim_block *block) {
    if (!block->owner_data) {
        block->owner_data = sim_ipc_slot_take();
        block->end_owner = block->owner_data ? drop_slot : NULL;
        block->is_held = block->owner_data ? is_open_elsewhere : NULL;
    }
    return block->owner_data;
}

/* FNV-1a over the key and everything before the check itself, except the offset. */
static uint32_t check_of(const struct handle *handle, uint32_t key) {
    uint64_t sum = 0xcbf29ce484222325ull ^ key;
    struct handle rest = *handle;
    rest.offset = 0;
    const unsigned char *bytes = (const unsigned char *)&rest;
    for (size_t i = 0; i < offsetof(struct handle, check); i++)
        sum = (sum ^ bytes[i]) * 0x100000001b3ull;
    return (uint32_t)(sum ^ sum >> 32);
}

CUresult sim_ipc_name(CUipcMemHandle *out, struct sim_block *block, uint32_t key) {
    struct handle handle = {.pid = (int32_t)getpid()};
    struct sim_ipc_name name;
    struct stat status;
    const struct sim_ipc_slot *slot = slot_of(block);
    if (!slot)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct sim_space *space = &block->device->space;
    if (!sim_ipc_slot_name(slot, &name) || fstat(space->fd, &status) != 0 ||
        status.st_ino != space->inode)
        return CUDA_ERROR_OPERATING_SYSTEM; /* the program closed descriptors that it did not
                                               open */
    uint64_t place = (uint64_t)(block->address - space->base);
    memcpy(handle.magic, MAGIC, sizeof MAGIC);
    handle.fd = space->fd;
    handle.page_offset = place / SIM_PAGE_BYTES * SIM_PAGE_BYTES;
    handle.offset = (uint32_t)(place % SIM_PAGE_BYTES);
    handle.n_bytes = block->n_bytes;
    handle.inode = space->inode;
    handle.slot = name.index;
    handle.slot_fd = name.fd;
    handle.life = name.life;
    handle.check = check_of(&handle, key);
    memset(out, 0, sizeof *out);
    memcpy(out, &handle, sizeof handle);
    return CUDA_SUCCESS;
}

static CUresult get(CUipcMemHandle *out, CUdeviceptr address) {
    struct sim_block *block = sim_block_find(address);
    if (!out || !block || block->kind != SIM_BLOCK_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_ipc_name(out, block, 0);
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr) {
    SIM_ENTER(cuIpcGetMemHandle);
    return sim_leave(get(pHandle, dptr));
}

/* The same allocation, opened before. */
static struct sim_block *find_open(const struct handle *handle) {
    struct sim_block *block = NULL;
    while ((block = sim_block_next(block))) {
        if (block->kind == SIM_BLOCK_IMPORTED && !block->pool &&
            ((struct import *)block->owner_data)->handle.check == handle->check)
            return block;
    }
    return NULL;
}

static bool map_pages(struct import *import) {
    char path[64];
    const struct handle *handle = &import->handle;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle->pid, handle->fd);
    struct stat status;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (fstat(fd, &status) != 0 || status.st_ino != handle->inode) {
        close(fd);
        return false;
    }
    import->n_page_bytes =
        sim_space_round(&import->device->space, handle->offset + handle->n_bytes);
    import->pages = sim_space_take(&import->device->space, import->n_page_bytes, 1);
    void *pages = MAP_FAILED;
    if (import->pages)
        pages = mmap(import->pages, import->n_page_bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED, fd, (off_t)handle->page_offset);
    close(fd);
    if (import->pages && pages == MAP_FAILED)
        sim_space_give(&import->device->space, import->pages, import->n_page_bytes);
    return pages != MAP_FAILED;
}

static void unmap_pages(const struct import *import) {
    mmap(import->pages, import->n_page_bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    sim_space_give(&import->device->space, import->pages, import->n_page_bytes);
}

/* The block is gone, closed or with its context. */
static void end_import(void *data) {
    struct import *import = data;
    unmap_pages(import);
    close(import->hold_fd);
    free(import);
}

/* Hold the block of the handle; -1: it is not there any more. */
static int hold(const struct handle *handle) {
    const struct sim_ipc_name name = {
        .pid = handle->pid, .fd = handle->slot_fd, .index = handle->slot, .life = handle->life};
    return sim_ipc_slot_hold(&name);
}

static CUresult open_new(struct sim_block **out, struct sim_context *context,
                         const struct handle *handle) {
    struct sim_block *block;
    struct import *import = calloc(1, sizeof *import);
    if (!import)
        return CUDA_ERROR_OUT_OF_MEMORY;
    import->handle = *handle;
    import->n_opens = 1;
    import->device = context->device;
    CUresult result = CUDA_ERROR_INVALID_VALUE; /* freed, or the process is gone or not ours */
    import->hold_fd = hold(handle);
    if (import->hold_fd < 0)
        goto error_import;
    if (!map_pages(import))
        goto error_hold;
    result = sim_block_note(SIM_BLOCK_IMPORTED, context, context->device,
                            import->pages + handle->offset, handle->n_bytes, &block);
    if (result != CUDA_SUCCESS)
        goto error_pages;
    block->owner_data = import;
    block->end_owner = end_import;
    *out = block;
    return CUDA_SUCCESS;

error_pages:
    unmap_pages(import);
error_hold:
    close(import->hold_fd);
error_import:
    free(import);
    return result;
}

static CUresult read_name(struct handle *out, const CUipcMemHandle *name, uint32_t key) {
    memcpy(out, name, sizeof *out);
    bool is_ours = memcmp(out->magic, MAGIC, sizeof MAGIC) == 0 && out->check == check_of(out, key);
    return is_ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_ipc_note(struct sim_block **out, struct sim_context *root, const CUipcMemHandle *name,
                      uint32_t key) {
    struct handle handle;
    SIM_TRY(read_name(&handle, name, key));
    return open_new(out, root, &handle);
}

static CUresult open_handle(CUdeviceptr *out, const CUipcMemHandle *bytes, unsigned flags) {
    struct sim_context *context;
    struct handle handle;
    SIM_TRY(sim_context_current(&context));
    if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(read_name(&handle, bytes, 0));
    if (handle.pid == (int32_t)getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    struct sim_block *block = find_open(&handle);
    if (block) {
        struct import *import = block->owner_data;
        if (import->handle.offset != handle.offset)
            return CUDA_ERROR_ALREADY_MAPPED;
        import->n_opens++;
    } else {
        SIM_TRY(open_new(&block, context->root, &handle));
    }
    *out = (CUdeviceptr)(uintptr_t)block->address;
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
    SIM_ENTER(cuIpcOpenMemHandle);
    return sim_leave(open_handle(pdptr, &handle, Flags));
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
    SIM_ENTER(cuIpcOpenMemHandle_v2);
    return sim_leave(open_handle(pdptr, &handle, Flags));
}

static CUresult close_handle(CUdeviceptr address) {
    struct sim_block *block = sim_block_at(address);
    if (!block || block->kind != SIM_BLOCK_IMPORTED || block->pool)
        return CUDA_ERROR_INVALID_VALUE;
    struct import *import = block->owner_data;
    if (--import->n_opens == 0)
        sim_block_release(block);
    return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr) {
    SIM_ENTER(cuIpcCloseMemHandle);
    return sim_leave(close_handle(dptr));
}
