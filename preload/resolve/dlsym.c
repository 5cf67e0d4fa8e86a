/*
 * What dlsym and dlvsym do in this process (interposition.md B1-B6).
 *
 * The exported functions are assembly (dlsym_*.S).  They ask a filter here, and then either jump to
 * the real function, with the original arguments and return address, or return a value. "Real" is
 * the next one in load order: that of another preload that hooks them, or the C library's. They
 * have to jump, because for RTLD_NEXT and RTLD_DEFAULT the C library decides by the return address.
 * All names but CUDA's leave after a few byte compares.
 */
#include "preload/resolve/lookup.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/environment.h"
#include "preload/resolve/nvml.h"

_Thread_local unsigned cushim_lookup_depth __attribute__((tls_model("initial-exec")));

/* What the stub does next; returned in two registers. */
struct verdict {
    void *target; /* jump there; NULL: return value */
    void *value;
};

typedef void *dlsym_fn(void *, const char *);
typedef void *dlvsym_fn(void *, const char *, const char *);

/* Called only by the stubs. */
struct verdict cushim_filter_dlsym(void *handle, const char *name, const void *caller);
struct verdict cushim_filter_dlvsym(void *handle, const char *name, const char *version,
                                    const void *caller);

static _Atomic(void *) real_dlsym, real_dlvsym;

/* All threads that come first find the same address. */
CUSHIM_EARLY static void *bootstrap(_Atomic(void *) *real, const char *name) {
    void *address = atomic_load_explicit(real, memory_order_relaxed);
    if (!address) {
        address = cushim_object_next_symbol(name);
        atomic_store_explicit(real, address, memory_order_relaxed);
    }
    return address;
}

/* cu[A-Z]* and cuda[A-Z]*, but not cublas, cudnn, curl (B2). */
CUSHIM_EARLY static bool is_cuda_name(const char *name) {
    if (name[0] != 'c' || name[1] != 'u')
        return false;
    if (name[2] == 'd' && name[3] == 'a')
        name += 2;
    return name[2] >= 'A' && name[2] <= 'Z';
}

/* The size of a device, which a limit changes, and what may be spilled. */
CUSHIM_EARLY static void *nvml_hook(const char *name) {
    if (cushim_object_equal(name, "nvmlDeviceGetMemoryInfo"))
        return (void *)(uintptr_t)nvmlDeviceGetMemoryInfo;
    if (cushim_object_equal(name, "nvmlDeviceGetMemoryInfo_v2"))
        return (void *)(uintptr_t)nvmlDeviceGetMemoryInfo_v2;
    return NULL;
}

CUSHIM_EARLY static bool is_ours_to_judge(const void *handle, const char *name) {
    return name && (is_cuda_name(name) || nvml_hook(name)) && handle != RTLD_NEXT &&
           handle != RTLD_DEFAULT && cushim_lookup_depth == 0;
}

/* The driver's functions, unless a driver asks for them (B4). */
static void *substitute_driver(void *real, const char *name, void *hook,
                               const struct cushim_object *owner, const void *caller) {
    struct cushim_object from;
    if (cushim_object_at(caller, &from) && cushim_object_is_named(&from, "libcuda.so"))
        return real;
    if (!hook) {
        cushim_route_count_unhooked(name);
        return real;
    }
    return cushim_driver_adopt(owner) ? hook : real;
}

/* With one runtime a hook knows where to forward.  With several, or with another preload between us
 * and the runtime, which such a look-up would bypass, the driver's entry points have to do. */
static void *substitute_runtime(void *real, void *hook, const struct cushim_object *owner) {
    if (cushim_runtime_is_interposed() ||
        cushim_object_list("libcudart", "cudaMalloc", NULL, 0) != 1 || !cushim_runtime_adopt(owner))
        return real;
    return hook;
}

static void *substitute(void *real, const char *name, const void *caller) {
    struct cushim_object owner;
    bool of_runtime = false;
    void *hook = nvml_hook(name), *given = real;
    if (hook) /* the options may not have been read yet */
        return cushim_environment("CUSHIM_LIMIT") || cushim_environment("CUSHIM_LIMIT_GROUP") ||
                       cushim_environment("CUSHIM_SPILL")
                   ? hook
                   : real;
    hook = cushim_route_by_abi_name(name, &of_runtime);
    cushim_lookup_count(&cushim_page_calls.lookups.n_lookups);
    if (!cushim_object_at(real, &owner))
        return real;
    if (!of_runtime && cushim_object_is_named(&owner, "libcuda.so"))
        given = substitute_driver(real, name, hook, &owner, caller);
    else if (of_runtime && cushim_object_is_named(&owner, "libcudart.so"))
        given = substitute_runtime(real, hook, &owner);
    if (given != real)
        cushim_lookup_count(&cushim_page_calls.lookups.n_routed);
    return given;
}

/* The real function has answered, inside this look-up. */
static struct verdict answered(void *value, const char *name, const void *caller) {
    if (value)
        value = substitute(value, name, caller);
    cushim_lookup_depth--;
    return (struct verdict){NULL, value};
}

CUSHIM_EARLY struct verdict cushim_filter_dlsym(void *handle, const char *name,
                                                const void *caller) {
    void *address = bootstrap(&real_dlsym, "dlsym");
    dlsym_fn *real = NULL;
    if (!address || !is_ours_to_judge(handle, name))
        return (struct verdict){address, NULL};
    memcpy(&real, &address, sizeof real);
    cushim_lookup_depth++;
    return answered(real(handle, name), name, caller);
}

/*
 * A hook ahead of us looks for the next dlsym in the C library's version.  Ours is the next, but
 * has no version, so the loader would skip it, and us with it.
 */
CUSHIM_EARLY static void *own_hook(const void *handle, const char *name, const void *caller) {
    void *hook = NULL;
    if (handle != RTLD_NEXT || !name)
        return NULL;
    if (cushim_object_equal(name, "dlsym"))
        hook = (void *)(uintptr_t)dlsym;
    else if (cushim_object_equal(name, "dlvsym"))
        hook = (void *)(uintptr_t)dlvsym;
    return hook && cushim_object_is_ahead(caller) ? hook : NULL;
}

CUSHIM_EARLY struct verdict cushim_filter_dlvsym(void *handle, const char *name,
                                                 const char *version, const void *caller) {
    void *address = bootstrap(&real_dlvsym, "dlvsym"), *own = own_hook(handle, name, caller);
    dlvsym_fn *real = NULL;
    if (own)
        return (struct verdict){NULL, own};
    if (!address || !is_ours_to_judge(handle, name))
        return (struct verdict){address, NULL};
    memcpy(&real, &address, sizeof real);
    cushim_lookup_depth++;
    return answered(real(handle, name, version), name, caller);
}
