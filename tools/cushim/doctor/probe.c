#include "tools/cushim/doctor/probe.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/cushim/doctor/driver.h"
#include "tools/cushim/json.h"
#include "tools/cushim/launch.h"
#include "tools/cushim/options.h"

enum {
    PATIENCE_SECONDS = 60, /* for a driver that starts; then the child is ended */
    ALLOCATION_BYTES = 1 << 20,
    ASKED_VERSION = 3020 /* the version in which cuMemAlloc means cuMemAlloc_v2 */
};

/* Allocate and free by one way to the driver's allocator. */
static CUresult use(__typeof__(&cuMemAlloc_v2) allocate, const struct driver *driver) {
    CUdeviceptr address = 0;
    CUresult error = allocate(&address, ALLOCATION_BYTES);
    return error == CUDA_SUCCESS ? driver->cuMemFree_v2(address) : error;
}

static void copy_file_of(char text[PROBE_TEXT_BYTES], const void *address) {
    snprintf(text, PROBE_TEXT_BYTES, "%s", driver_file_of(address));
}

/* Do the next step, unless one failed. */
#define STEP(what, call)                                                                           \
    if (error == CUDA_SUCCESS) {                                                                   \
        doing = what;                                                                              \
        error = call;                                                                              \
    }

static void allocate_both_ways(struct probe_findings *findings) {
    struct driver driver;
    if (!driver_open(&driver, findings->failure, sizeof findings->failure))
        return;
    void *address, *resolved = NULL;
    memcpy(&address, &driver.cuMemAlloc_v2, sizeof address);
    copy_file_of(findings->by_dlsym, address);

    const char *doing = NULL;
    CUresult error = CUDA_SUCCESS;
    CUcontext context = NULL;
    CUdriverProcAddressQueryResult verdict;
    STEP("cuInit", driver.cuInit(0))
    STEP("cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(&context, 0))
    STEP("cuCtxPushCurrent", driver.cuCtxPushCurrent_v2(context))
    STEP("cuMemAlloc found by dlsym", use(driver.cuMemAlloc_v2, &driver))
    STEP("cuGetProcAddress of cuMemAlloc",
         driver.cuGetProcAddress_v2("cuMemAlloc", &resolved, ASKED_VERSION, 0, &verdict))
    if (resolved) {
        __typeof__(&cuMemAlloc_v2) allocate;
        copy_file_of(findings->by_resolver, resolved);
        memcpy(&allocate, &resolved, sizeof allocate);
        STEP("cuMemAlloc found by cuGetProcAddress", use(allocate, &driver))
    }
    findings->is_full = error == CUDA_ERROR_OUT_OF_MEMORY;
    if (error != CUDA_SUCCESS || !resolved)
        snprintf(findings->failure, sizeof findings->failure, "%s: %s", doing,
                 error != CUDA_SUCCESS ? driver_error_name(&driver, error) : "not found");
}

int probe_child(int fd) {
    alarm(PATIENCE_SECONDS);
    struct probe_findings findings = {0};
    allocate_both_ways(&findings);
    return write(fd, &findings, sizeof findings) == (ssize_t)sizeof findings ? 0 : 1;
}

enum { EXIT_CUT_OFF = 3 };

const char *probe_other_hook(void) {
    const char *hook = driver_file_of(dlsym(RTLD_DEFAULT, "dlsym"));
    /* the C library has both functions; if another object has them, it is a preload */
    if (strcmp(hook, driver_file_of(dlsym(RTLD_DEFAULT, "dlerror"))) == 0 ||
        strcmp(basename(hook), LAUNCH_LIBRARY) == 0)
        return NULL;
    return hook;
}

void probe_look_child(const char *library) {
    char file[PATH_MAX];
    alarm(PATIENCE_SECONDS);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *address = driver ? dlsym(driver, "cuMemAlloc_v2") : NULL;
    bool is_ours = address && realpath(driver_file_of(address), file) && strcmp(file, library) == 0;
    _exit(!address || is_ours ? 0 : EXIT_CUT_OFF); /* do not run the exit handlers of others */
}

bool probe_is_cut_off(const char *library) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (int fd = STDIN_FILENO; nowhere >= 0 && fd <= STDERR_FILENO; fd++)
            dup2(nowhere, fd);
        execl("/proc/self/exe", "cushim", "doctor", "--look", library, (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == EXIT_CUT_OFF;
}

/* Start this program again, in the child, with no options but our own, whatever the user set. */
static void become_probe(const char *library, const char *report_path, int fd) {
    char option[32];
    for (char **entry = environ; *entry;) {
        const char *wrong;
        char name[256], nearest[SETTINGS_VARIABLE_BYTES];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        if (settings_is_ours(*entry, &wrong, nearest) && getenv(name) && unsetenv(name) == 0)
            entry = environ;
        else
            entry++;
    }
    snprintf(option, sizeof option, "--probe=%d", fd);
    if (launch_set(library) && setenv("CUSHIM_STATS", report_path, 1) == 0)
        execl("/proc/self/exe", "cushim", "doctor", option, (char *)NULL);
    _exit(127);
}

static void read_report(struct probe *probe, const char *path) {
    enum { MOST_BYTES = 16 << 20 };
    struct json_object *root = json_read(path, MOST_BYTES), *devices = json_list(root, "devices");
    if (!root) {
        snprintf(probe->failure, sizeof probe->failure,
                 "the child left no exit report that can be read");
        return;
    }
    probe->n_bypassed = (long)json_number(root, "bypassed");
    for (size_t i = 0; i < json_length(devices); i++) {
        struct json_object *kinds = json_member(json_object_array_get_idx(devices, i), "kinds");
        probe->n_requests += (long)json_number(json_member(kinds, "device"), "requests");
    }
    json_object_put(root);
}

void probe_run(struct probe *probe, const char *library) {
    memset(probe, 0, sizeof *probe);
    char folder[] = P_tmpdir "/cushim-doctor-XXXXXX", report_path[sizeof folder + 16];
    int ends[2];
    if (!mkdtemp(folder)) {
        snprintf(probe->failure, sizeof probe->failure, "%s: %s", folder, strerror(errno));
        return;
    }
    snprintf(report_path, sizeof report_path, "%s/report.json", folder);
    if (pipe(ends) != 0) {
        snprintf(probe->failure, sizeof probe->failure, "no pipe: %s", strerror(errno));
        goto error_folder;
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        become_probe(library, report_path, ends[1]);
    }
    close(ends[1]);
    bool has_findings =
        child > 0 && TEMP_FAILURE_RETRY(read(ends[0], &probe->findings, sizeof probe->findings)) ==
                         (ssize_t)sizeof probe->findings;
    close(ends[0]);
    int status = 0;
    if (child < 0)
        snprintf(probe->failure, sizeof probe->failure, "no child: %s", strerror(errno));
    else if (waitpid(child, &status, 0) != child)
        snprintf(probe->failure, sizeof probe->failure, "waitpid failed: %s", strerror(errno));
    else if (WIFSIGNALED(status))
        snprintf(probe->failure, sizeof probe->failure, "the child was ended by signal %d (%s)",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0 || !has_findings)
        snprintf(probe->failure, sizeof probe->failure, "the child ended with code %d",
                 WEXITSTATUS(status));
    else if (!*probe->findings.failure)
        read_report(probe, report_path);
    unlink(report_path);
error_folder:
    rmdir(folder);
}
