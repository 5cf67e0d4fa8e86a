/* Other libraries, by absolute path (cushim/library.h). */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/vet.h"
#include "cushim/library.h"
#include "companion/context/call.h"
#include "companion/libdir.h" /* the folder of installed libraries */

struct cushim_library_object {
    struct cushim_object object;
    void *handle; /* of dlopen */
};

static void finish(struct cushim_object *object) {
    struct cushim_library_object *library = (struct cushim_library_object *)object;
    dlclose(library->handle);
    free(library);
}

static const char *reason(void) {
    const char *text = dlerror();
    return text ? text : "unknown";
}

static enum cushim_status open_path(const char *what, const char *path, struct cushim_library **h) {
    struct cushim_library_object *library = calloc(1, sizeof *library);
    CUSHIM_FAIL_IF(what, !library, CUSHIM_NOMEM, "host=%zu", sizeof *library);
    library->handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!library->handle) {
        free(library);
        return cushim_fail(what, CUSHIM_NOFILE, "path=%s: %s", path, cushim_vet_refusal(path));
    }
    cushim_object_init(&library->object, CUSHIM_KIND_LIBRARY, NULL, finish);
    return cushim_object_open(&library->object, h);
}

enum cushim_status cushim_dl_open(const char *path, struct cushim_library **h) {
    CUSHIM_OUT(h);
    if (!path || path[0] != '/')
        return CUSHIM_FAIL(CUSHIM_INVALID, "path=%s: not an absolute path", path ? path : "NULL");
    CUSHIM_TRY(cushim_driver_use_process(__func__));
    return open_path(__func__, path, h);
}

enum cushim_status cushim_dl_symbol(struct cushim_library *h, const char *name, void **fn) {
    CUSHIM_OUT(fn);
    CUSHIM_NEED(name);
    CUSHIM_NEED(h);
    CUSHIM_ENTER(LIBRARY, library, h);
    *fn = dlsym(library->handle, name);
    return *fn ? CUSHIM_OK
               : cushim_scope_fail(&scope, CUSHIM_NOTFOUND, "name=%s: %s", name, reason());
}

enum cushim_status cushim_dl_close(struct cushim_library *h) {
    return cushim_call_destroy(__func__, CUSHIM_KIND_LIBRARY, h);
}

/* ---- kernels ---- */

/* The folder that this library was loaded from; false: unknown. */
static bool find_own_folder(char folder[PATH_MAX]) {
    Dl_info facts;
    void *here;
    enum cushim_status (*self)(int, struct cushim_library **) = cushim_kernels_open;
    memcpy(&here, &self, sizeof here);
    if (!dladdr(here, &facts) || !facts.dli_fname || !realpath(facts.dli_fname, folder))
        return false;
    *strrchr(folder, '/') = 0;
    return true;
}

enum cushim_status cushim_kernels_open(int dropin, struct cushim_library **h) {
    char places[3][PATH_MAX + 32] = {"", "", ""}, own[PATH_MAX];
    /* By its soname, because the link without a number comes only with the headers. */
    const char *name = dropin ? "libkernels.so" : "libcushim-kernels.so.0";
    const char *given = secure_getenv("CUSHIM_KERNELS");
    CUSHIM_OUT(h);
    CUSHIM_FAIL_IF(__func__, dropin != 0 && dropin != 1, CUSHIM_INVALID, "dropin=%d", dropin);
    CUSHIM_TRY(cushim_driver_use_process(__func__));
    if (given && given[0] == '/')
        snprintf(places[0], sizeof places[0], "%s", given);
    else if (given)
        log_warn("kernels", "CUSHIM_KERNELS=%s is no absolute path and is ignored", given);
    if (find_own_folder(own))
        snprintf(places[1], sizeof places[1], "%s/%s", own, name);
    snprintf(places[2], sizeof places[2], "%s/%s", CUSHIM_LIBDIR, name);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (places[i][0] && access(places[i], R_OK) == 0)
            return open_path(__func__, places[i], h);
    }
    return CUSHIM_FAIL(CUSHIM_NOTFOUND, "library=%s CUSHIM_KERNELS=%s tried=%s,%s", name,
                       given ? given : "", places[1], places[2]);
}
