/*
 * The driver's table.
 *
 * It is filled from one libcuda object: the one a look-up led to, or the first one loaded that is
 * fit.  An unfit driver (a stub, or one that lacks what we need) is left alone: look-ups in it get
 * its own functions. The table has an unfit one only for programs that are linked to it, until a
 * fit one comes.  Of two fit ones the first is ours, and the second is not touched.
 *
 * A program may unload the driver and load another, or the same one elsewhere (a probe does, or a
 * plugin).  Then the table goes, and all that we know of its contexts (preload/resolve/unload.c).
 */
#include "cuda/table.h"
#include "preload/resolve/lookup.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "cuda/load.h"
#include "preload/events.h"
#include "preload/resolve/fork.h"

enum { MAX_DRIVERS = 16 };

static struct cushim_cuda table;
_Atomic(struct cushim_cuda *) cushim_driver_known; /* &table, or NULL */
static _Atomic(const char *) first_missing;
static atomic_bool is_software;

/*
 * The object behind the table; only compared with what is loaded now.  Written under the lock while
 * forks are held off; no foreign code is called under it.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(const char *) object_name;
static _Atomic(const Elf64_Dyn *) object_dynamic;

static void *find(const char *name, void *object) {
    return cushim_object_symbol(object, name);
}

typedef __typeof__(&cuDriverGetVersion) get_version_fn;

/* Does a driver report that it is a stub for linking?  It need not be initialised. */
static bool is_stub(get_version_fn get_version) {
    int version = 0;
    if (!get_version)
        return false;
    cushim_lookup_depth++;
    CUresult answer = get_version(&version);
    cushim_lookup_depth--;
    return answer == CUDA_ERROR_STUB_LIBRARY;
}

static bool is_object_fit(const struct cushim_object *object) {
    struct cushim_object copy = *object;
    get_version_fn get_version = NULL;
    void *address = cushim_object_symbol(object, "cuDriverGetVersion");
    memcpy(&get_version, &address, sizeof get_version);
    return !cushim_cuda_missing(find, &copy) && !is_stub(get_version);
}

/* The caller holds the lock.  What was learnt of the driver is void. */
static void forget(void) {
    atomic_store(&cushim_driver_known, NULL);
    atomic_store(&object_dynamic, NULL);
    atomic_store(&object_name, NULL);
    cushim_route_forget();
    cushim_events.driver_lost();
}

/* The caller holds the lock. */
static void fill(const struct cushim_object *object) {
    struct cushim_object copy = *object;
    const char *missing = NULL;
    cushim_cuda_load(&table, find, &copy, &missing);
    cushim_route_fill(&table);
    atomic_store(&first_missing, missing);
    atomic_store(&is_software, cushim_object_symbol(object, "cushim_sim_version") != NULL);
    atomic_store(&object_name, object->name);
    atomic_store(&object_dynamic, object->dynamic);
    atomic_store_explicit(&cushim_driver_known, &table, memory_order_release);
    cushim_events.driver_met();
}

/* Take an object as the driver if there is none but `unfit` (NULL: none at all). */
static bool take(const struct cushim_object *object, const Elf64_Dyn *unfit) {
    bool is_held_off = cushim_fork_hold_off();
    pthread_mutex_lock(&lock);
    if (unfit && atomic_load(&object_dynamic) == unfit)
        forget();
    if (!atomic_load(&object_dynamic))
        fill(object);
    bool is_taken = atomic_load(&object_dynamic) == object->dynamic;
    pthread_mutex_unlock(&lock);
    cushim_fork_let_go(is_held_off);
    return is_taken;
}

void cushim_driver_settle(void) {
    struct cushim_object was = {0, atomic_load(&object_name), atomic_load(&object_dynamic)};
    if (!was.dynamic || cushim_object_is_loaded(&was))
        return;
    bool is_held_off = cushim_fork_hold_off();
    pthread_mutex_lock(&lock);
    if (atomic_load(&object_dynamic) == was.dynamic && atomic_load(&object_name) == was.name)
        forget();
    pthread_mutex_unlock(&lock);
    cushim_fork_let_go(is_held_off);
}

bool cushim_driver_adopt(const struct cushim_object *object) {
    cushim_unload_settle();
    const Elf64_Dyn *ours = atomic_load(&object_dynamic);
    if (ours == object->dynamic)
        return !atomic_load(&first_missing);
    /* the one we have is asked only if there is another */
    if (ours && !atomic_load(&first_missing) && !is_stub(table.cuDriverGetVersion))
        return false;
    return is_object_fit(object) && take(object, ours);
}

/* The first fit one in load order, or else the first one.  A single one is not asked. */
struct cushim_cuda *cushim_driver_search(void) {
    struct cushim_object found[MAX_DRIVERS];
    cushim_unload_settle();
    struct cushim_cuda *cuda = atomic_load_explicit(&cushim_driver_known, memory_order_acquire);
    if (cuda)
        return cuda;
    unsigned n = cushim_object_list("libcuda.so", "cuInit", found, MAX_DRIVERS);
    if (n > MAX_DRIVERS)
        n = MAX_DRIVERS;
    unsigned i = 0;
    while (n > 1 && i < n && !is_object_fit(&found[i]))
        i++;
    if (n)
        take(&found[i < n ? i : 0], NULL);
    return atomic_load_explicit(&cushim_driver_known, memory_order_acquire);
}

const char *cushim_driver_missing(void) {
    return atomic_load(&cushim_driver_known) ? atomic_load(&first_missing) : NULL;
}

bool cushim_driver_is_software(void) {
    return atomic_load(&is_software);
}
