/*
 * Memory that another interface allocated, and passed as a file descriptor.
 *
 * An imported memory owns its descriptor.  Each buffer of it is a mapping of the same pages in the
 * device's range of addresses; cuMemFree gives it back and waits as usual.  The memory may be
 * destroyed before its buffers: the pages stay until the last of them goes.
 */
#include "tools/sim/driver/core/abi.h"
#include "block.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/context/device.h"
#include "tools/sim/driver/core/handle.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* An offset into a file must be a multiple of this. */
enum { FILE_PAGE_BYTES = 4096 };

struct external {
    int fd;
    size_t n_bytes;
    unsigned n_refs; /* the handle, and the buffers */
};

struct buffer {
    struct external *external;
    struct sim_device *device;
    char *pages;
    size_t n_page_bytes; /* of the device's range; the file may end earlier */
};

static void unref(struct external *external) {
    if (--external->n_refs)
        return;
    close(external->fd);
    free(external);
}

static CUresult import(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc) {
    struct sim_context *context;
    struct stat file;
    SIM_TRY(sim_context_current(&context));
    if (!out || !desc || desc->size == 0 || (desc->flags & ~CUDA_EXTERNAL_MEMORY_DEDICATED))
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (fstat(desc->handle.fd, &file) != 0 || !S_ISREG(file.st_mode) ||
        (unsigned long long)file.st_size < desc->size)
        return CUDA_ERROR_INVALID_VALUE;
    struct external *external = calloc(1, sizeof *external);
    if (!external)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *external = (struct external){desc->handle.fd, desc->size, 1};
    if (!sim_handle_add(external, SIM_HANDLE_EXTERNAL)) {
        free(external);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = (CUexternalMemory)external;
    return CUDA_SUCCESS;
}

CUresult cuImportExternalMemory(CUexternalMemory *extMem_out,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc) {
    SIM_ENTER(cuImportExternalMemory);
    return sim_leave(import(extMem_out, memHandleDesc));
}

/* The block is gone: freed, or with its context. */
static void end_buffer(void *data) {
    struct buffer *buffer = data;
    mmap(buffer->pages, buffer->n_page_bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    sim_space_give(&buffer->device->space, buffer->pages, buffer->n_page_bytes);
    unref(buffer->external);
    free(buffer);
}

/* n_bytes of the file, from a page of it, at new addresses of the device. */
static bool map_pages(struct buffer *buffer, size_t offset, size_t n_bytes) {
    struct sim_space *space = &buffer->device->space;
    buffer->n_page_bytes = sim_space_round(space, n_bytes);
    buffer->pages = sim_space_take(space, buffer->n_page_bytes, 1);
    if (!buffer->pages)
        return false;
    if (mmap(buffer->pages, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             buffer->external->fd, (off_t)offset) != MAP_FAILED)
        return true;
    sim_space_give(space, buffer->pages, buffer->n_page_bytes);
    return false;
}

static CUresult map_buffer(CUdeviceptr *out, CUexternalMemory handle,
                           const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc) {
    struct external *external = (struct external *)handle;
    struct sim_context *context;
    struct sim_block *block;
    SIM_TRY(sim_context_current(&context));
    if (!sim_handle_is(external, SIM_HANDLE_EXTERNAL))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !desc || desc->flags || desc->size == 0 || desc->offset > external->n_bytes ||
        desc->size > external->n_bytes - desc->offset)
        return CUDA_ERROR_INVALID_VALUE;
    struct buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer)
        return CUDA_ERROR_OUT_OF_MEMORY;
    buffer->external = external;
    buffer->device = context->device;
    size_t in_page = desc->offset % FILE_PAGE_BYTES;
    if (!map_pages(buffer, desc->offset - in_page, in_page + desc->size)) {
        free(buffer);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    external->n_refs++;
    CUresult result = sim_block_note(SIM_BLOCK_EXTERNAL, context->root, context->device,
                                     buffer->pages + in_page, desc->size, &block);
    if (result != CUDA_SUCCESS) {
        end_buffer(buffer);
        return result;
    }
    block->owner_data = buffer;
    block->end_owner = end_buffer;
    *out = (CUdeviceptr)(uintptr_t)block->address;
    return CUDA_SUCCESS;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc) {
    SIM_ENTER(cuExternalMemoryGetMappedBuffer);
    return sim_leave(map_buffer(devPtr, extMem, bufferDesc));
}

static CUresult destroy(CUexternalMemory handle) {
    struct external *external = (struct external *)handle;
    if (!sim_handle_is(external, SIM_HANDLE_EXTERNAL))
        return CUDA_ERROR_INVALID_HANDLE;
    sim_handle_remove(external);
    unref(external);
    return CUDA_SUCCESS;
}

CUresult cuDestroyExternalMemory(CUexternalMemory extMem) {
    SIM_ENTER(cuDestroyExternalMemory);
    return sim_leave(destroy(extMem));
}
