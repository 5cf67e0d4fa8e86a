#include "dropin/vkgdr/open.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/lock.h"
#include "dropin/vkgdr/error.h"

struct of_context {
    struct of_context *next;
    uint64_t id; /* cushim_context_id: no other context will ever have it */
    struct cushim_mapper *mapper;
};

struct open {
    struct open *next;
    struct cushim_mapper *first; /* of the device, or of the context in which it was opened */
    int device;
    unsigned flags; /* for the mappers of contexts */
    struct of_context *contexts;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct open *opens; /* under the lock, with all that they point to */

/* ---- the list, under the lock ---- */

static struct open **place_of(vkgdr_t g) {
    struct open **at = &opens;
    while (*at && (vkgdr_t)(*at)->first != g)
        at = &(*at)->next;
    return at;
}

static struct cushim_mapper *find_context(const struct open *open, uint64_t id) {
    const struct of_context *at = open->contexts;
    while (at && at->id != id)
        at = at->next;
    return at ? at->mapper : NULL;
}

/* ---- open and close ---- */

static enum cushim_status open_first(struct open *open, CUdevice device, uint32_t flags) {
    struct cushim_context *context;
    /* In libcushim -1 is the thread's device.  Here it is no device, and the driver must report
     * that. */
    enum cushim_status status =
        cushim_mapper_open_device(device < 0 ? INT_MAX : device, flags, &open->first);
    open->device = device;
    open->flags = flags | CUSHIM_MAPPER_FLAG_CURRENT;
    if (status != CUSHIM_OK || !(flags & VKGDR_OPEN_CURRENT_CONTEXT_BIT))
        return status;
    status = cushim_context_current(&context);
    if (status == CUSHIM_OK)
        status = cushim_context_device(context, &open->device);
    if (status != CUSHIM_OK)
        cushim_mapper_close(open->first);
    return status;
}

vkgdr_t vkgdr_open(CUdevice device, uint32_t flags) {
    vkgdr_error_clear();
    struct open *open = calloc(1, sizeof *open);
    if (!open)
        return vkgdr_error_set("calloc", "ENOMEM");
    if (open_first(open, device, flags) != CUSHIM_OK) {
        free(open);
        return vkgdr_error_take();
    }
    vkgdr_t g = (vkgdr_t)open->first;
    CUSHIM_LOCKED(&lock);
    open->next = opens;
    opens = open;
    return g;
}

void vkgdr_close(vkgdr_t g) {
    pthread_mutex_lock(&lock);
    struct open **at = place_of(g), *open = *at;
    if (open)
        *at = open->next;
    pthread_mutex_unlock(&lock);
    if (!open)
        return;
    while (open->contexts) {
        struct of_context *context = open->contexts;
        open->contexts = context->next;
        cushim_mapper_close(context->mapper);
        free(context);
    }
    cushim_mapper_close(open->first);
    free(open);
}

/* ---- by context ---- */

/* Put a mapper in, unless the handle was closed meanwhile or another thread was first.  Returns the
 * mapper to use, or NULL. */
static struct cushim_mapper *put(vkgdr_t g, uint64_t id, struct cushim_mapper *mapper) {
    struct of_context *context = calloc(1, sizeof *context);
    pthread_mutex_lock(&lock);
    struct open *open = *place_of(g);
    struct cushim_mapper *used = open && context ? find_context(open, id) : NULL;
    if (open && context && !used) {
        *context = (struct of_context){open->contexts, id, mapper};
        open->contexts = context;
        used = mapper;
        context = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(context);
    if (used != mapper)
        cushim_mapper_close(mapper);
    if (!used)
        vkgdr_error_set("vkgdr_memory_alloc", "CUSHIM_BADHANDLE");
    return used;
}

/* Look the handle up; false: it is stale. */
static bool look_up(vkgdr_t g, uint64_t id, int *device, unsigned *flags,
                    struct cushim_mapper **mapper) {
    pthread_mutex_lock(&lock);
    const struct open *open = *place_of(g);
    if (open) {
        *device = open->device;
        *flags = open->flags;
        *mapper = find_context(open, id);
    }
    pthread_mutex_unlock(&lock);
    return open != NULL;
}

struct cushim_mapper *vkgdr_mapper_of_current(vkgdr_t g) {
    struct cushim_context *context = NULL;
    struct cushim_mapper *mapper = NULL;
    uint64_t id = 0;
    int device, current = -1;
    unsigned flags;
    if (cushim_context_current(&context) != CUSHIM_OK ||
        (context && (cushim_context_id(context, &id) != CUSHIM_OK ||
                     cushim_context_device(context, &current) != CUSHIM_OK)))
        return vkgdr_error_take();
    if (!look_up(g, id, &device, &flags, &mapper))
        return vkgdr_error_set("vkgdr_memory_alloc", "CUSHIM_BADHANDLE");
    if (context && current != device)
        return vkgdr_error_set("vkgdr_memory_alloc", "CUDA_ERROR_INVALID_CONTEXT");
    if (context && mapper)
        return mapper;
    /* if no context is current, this sets the error */
    return cushim_mapper_open(NULL, flags, &mapper) == CUSHIM_OK ? put(g, id, mapper)
                                                                 : vkgdr_error_take();
}
