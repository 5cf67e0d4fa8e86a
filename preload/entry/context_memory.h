/*
 * What contexts and modules take of a device: foreign allocations by their handles (foreign.h).
 *
 * The driver does not tell, so it is measured, if sites or a recording are wanted: a context by
 * what NVML says that this process has before and after it was made, or where NVML does not see
 * the process, as in some containers, by what is in use of the device; a module by what is free
 * before and after it was loaded.  If the process got or gave back other memory meanwhile, nothing
 * is counted.  What is taken later, as by code that is loaded at its first launch, is what NVML
 * says that the process has beyond the account, at the last look.  If the account has more than
 * NVML, because another process took memory while a module was loaded, that look replaces all that
 * was measured.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

struct cushim_context_memory {
    struct cushim_cuda *cuda; /* NULL: nothing is measured */
    int device;
    uint64_t held_bytes; /* by our own account */
    /* In use of the device; and, for a context, by this process, 0 if NVML does not know it. */
    uint64_t used_bytes, own_bytes;
    bool is_context;
};

/* Before and after a call that may make the device's primary context, or a context on it.  After a
 * refusal, call only what tells of one without memory. */
struct cushim_context_memory cushim_context_memory_of_context(struct cushim_cuda *cuda, int device);

/* The same for a call that loads code. */
struct cushim_context_memory cushim_context_memory_of_module(struct cushim_cuda *cuda);

void cushim_context_memory_taken(const struct cushim_context_memory *before, const void *handle);

/* There was no memory for a context. */
void cushim_context_memory_refused(int device);

/* Look what the process has now, unless that was done just now: looks take one part in 100 of the
 * time.  For calls that wait anyway. */
void cushim_context_memory_look(void);

/* The code is about to be unloaded. */
void cushim_context_memory_unload(const void *handle);
