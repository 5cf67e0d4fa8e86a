/*
 * The interface of vkgdr 1, for programs that are linked with libvkgdr.so.1; libcushim answers it.
 * New programs use cushim/mapped.h.
 *
 * A handle that is stale or NULL does not crash: functions without a result do nothing, others
 * return 0.
 */
#ifndef VKGDR_H
#define VKGDR_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VKGDR_API __attribute__((visibility("default")))

typedef struct vkgdr *vkgdr_t;
typedef struct vkgdr_memory *vkgdr_memory_t;

typedef enum vkgdr_open_flags {
    VKGDR_OPEN_CURRENT_CONTEXT_BIT = 1,
    VKGDR_OPEN_FORCE_NON_COHERENT_BIT = 2,
    VKGDR_OPEN_REQUIRE_COHERENT_BIT = 4
} vkgdr_open_flags;

/**
 * Get the reason why the calling thread's last open or alloc failed.
 * @return "<what> failed (<ENUM>)", to be freed with free(); NULL: it succeeded, or there was none
 * Threads  any
 */
VKGDR_API char *vkgdr_last_error(void);

/**
 * Open a device for mapped allocations.
 * @param device  ignored with VKGDR_OPEN_CURRENT_CONTEXT_BIT, which means the current context's
 * @param flags   of vkgdr_open_flags
 * @return a handle, for vkgdr_close | NULL
 * Threads  any
 */
VKGDR_API vkgdr_t vkgdr_open(CUdevice device, uint32_t flags);

/* Close it; its memory stays. */
VKGDR_API void vkgdr_close(vkgdr_t g);

/**
 * Allocate device memory that the host can access, in the current context.
 * @param size   bytes, at least 1
 * @param flags  0
 * @return a handle, for vkgdr_memory_free | NULL: also if no context is current, or one of another
 *         device
 * Threads  any
 */
VKGDR_API vkgdr_memory_t vkgdr_memory_alloc(vkgdr_t g, size_t size, uint32_t flags);

/* Free it, and wait for the work of the context. */
VKGDR_API void vkgdr_memory_free(vkgdr_memory_t mem);

/* Addresses and size, and whether host and device see each other's writes. */
VKGDR_API void *vkgdr_memory_get_host_ptr(vkgdr_memory_t mem);
VKGDR_API CUdeviceptr vkgdr_memory_get_device_ptr(vkgdr_memory_t mem);
VKGDR_API size_t vkgdr_memory_get_size(vkgdr_memory_t mem);
VKGDR_API bool vkgdr_memory_is_coherent(vkgdr_memory_t mem);
VKGDR_API size_t vkgdr_memory_non_coherent_atom_size(vkgdr_memory_t mem);

/* Make host writes visible to the device, and device writes to the host.  A range is widened to
 * whole atoms, and cut at the end of the memory. */
VKGDR_API void vkgdr_memory_flush(vkgdr_memory_t mem, size_t offset, size_t size);
VKGDR_API void vkgdr_memory_invalidate(vkgdr_memory_t mem, size_t offset, size_t size);

#ifdef __cplusplus
}
#endif

#endif
