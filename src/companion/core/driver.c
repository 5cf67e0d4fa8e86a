#include "companion/core/driver.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "companion/core/driver_slots.h"
#include "companion/core/error.h"
#include "companion/core/handle.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/vet.h"

enum { REASON_BYTES = 1024 };

atomic_int cushim_driver_state_now = CUSHIM_DRIVER_UNLOADED;

/* All under the lock, except the atomics. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *handle;          /* of the loaded library; never closed, because calls may be in it */
static char loaded[PATH_MAX]; /* its name, as it was opened */
static CUresult init_answer;  /* while FAILED: what cuInit said, or success */

/* Why loads failed, the last first; never freed, because callers keep the texts. */
struct reason {
    struct reason *before;
    char text[];
};
static struct reason *reasons;
static _Atomic(const char *) reason; /* of the last load */
static atomic_int version;
static atomic_bool watches_forks;
static pthread_once_t watch_once = PTHREAD_ONCE_INIT;

/* ---- forks ---- */

static struct cushim_options settings;
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;

static void read_settings(void) {
    cushim_options_load_at(&settings, CUSHIM_LOG_OFF);
    /* without a log the check would not show what it finds */
    if (settings.check && !getenv("CUSHIM_LOG"))
        cushim_log_set_level(CUSHIM_LOG_ERROR);
}

const struct cushim_options *cushim_settings(void) {
    pthread_once(&settings_once, read_settings);
    return &settings;
}

static void in_child(void) {
    atomic_store(&cushim_driver_state_now, CUSHIM_DRIVER_FORKED);
    cushim_changes_note();
}

static void watch(void) {
    cushim_settings();
    pthread_atfork(NULL, NULL, in_child);
    store_release(&watches_forks, true);
}

enum cushim_status cushim_driver_use_process(const char *what) {
    CUSHIM_FAIL_IF(what, cushim_driver_is_forked(), CUSHIM_NOCUDA,
                   "forked after the library was first used");
    if (!load_acquire(&watches_forks))
        pthread_once(&watch_once, watch);
    return CUSHIM_OK;
}

/* ---- opening ---- */

/* The handle, or NULL with the reason in text. */
static void *open_library(const char *path, char text[REASON_BYTES]) {
    const char *given = secure_getenv("CUSHIM_LIBCUDA");
    void *found;
    if (!path && (found = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD))) {
        strcpy(loaded, "libcuda.so.1");
        return found; /* share pointers and streams with the code that has loaded it */
    }
    const char *name = path ? path : given && *given ? given : "libcuda.so.1";
    const char *wrong = name == given || path ? cushim_vet_library(name) : NULL;
    found = wrong ? NULL : dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (found)
        snprintf(loaded, sizeof loaded, "%s", name);
    else
        snprintf(text, REASON_BYTES, "%s%.512s: %.400s", name == given ? "CUSHIM_LIBCUDA=" : "",
                 name, wrong ? wrong : cushim_vet_refusal(name));
    return found;
}

/* ---- the table ---- */

struct resolver {
    void *handle;
    __typeof__(&cuGetProcAddress) get;
    __typeof__(&cuGetProcAddress_v2) get_v2;
};

static void *find(const struct cushim_driver_symbol *row, const void *cookie) {
    const struct resolver *resolver = cookie;
    bool is_per_thread = strstr(row->abi, "_ptsz") || strstr(row->abi, "_ptds");
    cuuint64_t flags = is_per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                     : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    CUdriverProcAddressQueryResult how = CU_GET_PROC_ADDRESS_SUCCESS;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    void *address = NULL;
    if (resolver->get_v2)
        result = resolver->get_v2(row->asked_as, &address, row->since, flags, &how);
    else if (resolver->get)
        result = resolver->get(row->asked_as, &address, row->since, flags);
    if (result == CUDA_SUCCESS && how == CU_GET_PROC_ADDRESS_SUCCESS && address)
        return address;
    return dlsym(resolver->handle, row->abi);
}

/* NULL, or the first entry that is missing of those without which the library cannot work. */
static const char *fill(void) {
    static const char *const needed[] = {
        "cuInit",          "cuDriverGetVersion", "cuDeviceGetCount",         "cuDeviceGetAttribute",
        "cuCtxGetCurrent", "cuCtxSetCurrent",    "cuCtxPopCurrent_v2",       "cuCtxSynchronize",
        "cuCtxDestroy_v2", "cuCtxGetDevice",     "cuDevicePrimaryCtxRetain", "cuMemAlloc_v2",
        "cuMemFree_v2",    "cuMemcpyHtoD_v2",    "cuMemcpyDtoH_v2",          "cuGetErrorName",
        "cuGetErrorString"};
    struct resolver resolver = {.handle = handle};
    void *address = dlsym(handle, "cuGetProcAddress_v2");
    memcpy(&resolver.get_v2, &address, sizeof address);
    address = dlsym(handle, "cuGetProcAddress");
    memcpy(&resolver.get, &address, sizeof address);
    cushim_driver_slots_fill(find, &resolver);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (!cushim_driver_slots_find(needed[i]))
            return needed[i];
    }
    return NULL;
}

/* ---- loading, under the lock ---- */

static void fail_load(const char *text) {
    struct reason *kept = malloc(sizeof *kept + strlen(text) + 1);
    if (kept) {
        kept->before = reasons;
        strcpy(kept->text, text);
        reasons = kept;
    }

    store_release(&reason, kept ? kept->text : "host memory exhausted");
    store_release(&cushim_driver_state_now, CUSHIM_DRIVER_FAILED);
}

static void load(const char *path) {
    char text[REASON_BYTES] = "";
    int number = 0;
    init_answer = CUDA_SUCCESS;
    handle = open_library(path, text);
    const char *missing = handle ? fill() : NULL;
    if (missing) {
        snprintf(text, sizeof text, "%.512s: it has no %s", loaded, missing);
        handle = NULL;
    }
    if (handle && (init_answer = CUSHIM_DRIVER(cuInit)(0)) != CUDA_SUCCESS)
        snprintf(text, sizeof text, "%.512s: cuInit: %s: %s", loaded,
                 cushim_error_cu_name(init_answer), cushim_error_cu_text(init_answer));
    if (*text) {
        fail_load(text);
        return;
    }
    if (CUSHIM_DRIVER(cuDriverGetVersion)(&number) == CUDA_SUCCESS)
        store_relaxed(&version, number);
    store_release(&reason, "");
    store_release(&cushim_driver_state_now, CUSHIM_DRIVER_READY);
}

/* Set the text of a failed load; an error of cuInit is the driver's. */
static enum cushim_status tell(const char *what) {
    if (init_answer != CUDA_SUCCESS)
        return cushim_fail_cu("cuInit", init_answer, "%s", loaded);
    return cushim_fail(what, CUSHIM_NOCUDA, "%s", cushim_driver_reason());
}

enum cushim_status cushim_driver_use_slow(const char *what) {
    CUSHIM_TRY(cushim_driver_use_process(what));
    CUSHIM_LOCKED(&lock);
    if (atomic_load(&cushim_driver_state_now) == CUSHIM_DRIVER_UNLOADED)
        load(NULL);
    return atomic_load(&cushim_driver_state_now) == CUSHIM_DRIVER_READY ? CUSHIM_OK : tell(what);
}

enum cushim_status cushim_driver_load(const char *what, const char *path) {
    CUSHIM_TRY(cushim_driver_use_process(what));
    CUSHIM_LOCKED(&lock);
    bool is_loaded = atomic_load(&cushim_driver_state_now) == CUSHIM_DRIVER_READY;
    if (is_loaded && path && strcmp(path, loaded) != 0)
        return cushim_fail(what, CUSHIM_STATE, "loaded=%s asked=%s", loaded, path);
    if (!is_loaded)
        load(path);
    /* A driver without a device is loaded all the same; cushim_available asks for a device, too. */
    return handle ? CUSHIM_OK : tell(what);
}

void cushim_driver_unload(void) {
    CUSHIM_LOCKED(&lock);
    handle = NULL;
    store_relaxed(&version, 0);
    store_release(&reason, "");
    atomic_store(&cushim_driver_state_now, CUSHIM_DRIVER_UNLOADED);
    cushim_changes_note();
}

/* ---- questions ---- */

int cushim_driver_number(void) {
    return load_relaxed(&version);
}

const char *cushim_driver_reason(void) {
    const char *text = load_acquire(&reason);
    return text ? text : "";
}

void *cushim_driver_find(const char *name) {
    void *address = cushim_driver_slots_find(name);
    return address || !handle ? address : dlsym(handle, name);
}
