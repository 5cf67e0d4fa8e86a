/*
 * The driver's table.
 *
 * It is filled from one libcuda object: the one a look-up led to, or the first one loaded.  The
 * program may have unloaded it and loaded another since (a probe does that), so a look-up that ends
 * in a new object fills the table anew; two at once keep the first, and the second stays native.
 */
#include "preload/lookup.h"

#include <stddef.h>

#include "cuda/load.h"

static struct cushim_cuda table;
static _Atomic(struct cushim_cuda *) ready; /* NULL, then &table for good */

/* The object behind the table; only ever compared with what is loaded now. */
static _Atomic(const char *) object_name;
static _Atomic(const Elf64_Dyn *) object_dynamic;
static _Atomic(const char *) first_missing;

static void *find(const char *name, void *object) {
    return cushim_object_symbol(object, name);
}

static void fill(const struct cushim_object *object) {
    struct cushim_object copy = *object;
    const char *missing = NULL;
    cushim_cuda_load(&table, find, &copy, &missing);
    cushim_route_fill(object);
    atomic_store(&first_missing, missing);
    atomic_store(&object_name, object->name);
    atomic_store(&object_dynamic, object->dynamic);
    atomic_store_explicit(&ready, &table, memory_order_release);
}

bool cushim_driver_adopt(const struct cushim_object *object) {
    struct cushim_object known = {0, atomic_load(&object_name), atomic_load(&object_dynamic)};
    if (known.dynamic == object->dynamic && atomic_load(&ready))
        return true;
    if (known.dynamic && cushim_object_is_loaded(&known))
        return false;
    if (!cushim_object_symbol(object, "cuInit"))
        return false;
    fill(object);
    return true;
}

static struct cushim_cuda *search(void) {
    struct cushim_object object;
    if (!cushim_object_list("libcuda.so", "cuInit", &object, 1))
        return NULL;
    cushim_driver_adopt(&object);
    return atomic_load_explicit(&ready, memory_order_acquire);
}

struct cushim_cuda *cushim_driver(void) {
    struct cushim_cuda *cuda = atomic_load_explicit(&ready, memory_order_acquire);
    return cuda ? cuda : search();
}

const char *cushim_driver_missing(void) {
    return atomic_load(&first_missing);
}
