#include "tools/cushim/commands.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/cache/calibration.h"
#include "tools/cushim/doctor/driver.h"
#include "tools/cushim/launch.h"
#include "tools/cushim/numbers.h"
#include "tools/cushim/usage.h"

enum { ROUNDS = 200 };
static const size_t least_bytes = 4096;
static const uint64_t patience_ns = 1000000000; /* for one size */

struct request {
    int only; /* the requested device, or -1 for all */
    struct driver driver;
    int version; /* of the driver */
    struct cushim_writer out;
    struct calibration devices[CALIBRATION_DEVICES]; /* as in the file, later as measured */
    unsigned n_devices;
};

static bool fails(const struct request *request, CUresult error, const char *call, int device) {
    if (error != CUDA_SUCCESS)
        complain("device %d: %s: %s", device, call, driver_error_name(&request->driver, error));
    return error != CUDA_SUCCESS;
}

/* ---- one size ---- */

/* It is at least 1, because 0 would mean that the clock did not advance. */
static uint64_t median(uint64_t ns[], unsigned n) {
    numbers_sort(ns, n);
    return ns[n / 2] ? ns[n / 2] : 1;
}

/* Time rounds of an allocation and a free.  The first round is not counted.  Returns their
 * number. */
static unsigned time_rounds(const struct driver *driver, size_t n_bytes, uint64_t alloc_ns[ROUNDS],
                            uint64_t free_ns[ROUNDS]) {
    uint64_t start_ns = cushim_clock_ns();
    for (unsigned i = 0; i <= ROUNDS; i++) {
        CUdeviceptr block;
        uint64_t before_ns = cushim_clock_ns();
        if (driver->cuMemAlloc_v2(&block, n_bytes) != CUDA_SUCCESS)
            return i ? i - 1 : 0;
        uint64_t between_ns = cushim_clock_ns();
        if (driver->cuMemFree_v2(block) != CUDA_SUCCESS)
            return i ? i - 1 : 0;
        uint64_t after_ns = cushim_clock_ns();
        if (i) {
            alloc_ns[i - 1] = between_ns - before_ns;
            free_ns[i - 1] = after_ns - between_ns;
        }
        if (i && after_ns - start_ns > patience_ns)
            return i;
    }
    return ROUNDS;
}

/* Returns false if there is no memory for this size. */
static bool measure_size(struct request *request, struct calibration *device, size_t n_bytes) {
    static uint64_t alloc_ns[ROUNDS], free_ns[ROUNDS];
    const struct driver *driver = &request->driver;
    CUdeviceptr neighbour; /* keeps the driver's memory for small blocks allocated */
    if (driver->cuMemAlloc_v2(&neighbour, n_bytes) != CUDA_SUCCESS)
        return false;
    unsigned n = time_rounds(driver, n_bytes, alloc_ns, free_ns);
    driver->cuMemFree_v2(neighbour);
    if (!n)
        return false;
    struct calibration_size *size = &device->sizes[device->n_sizes++];
    *size = (struct calibration_size){n_bytes, median(alloc_ns, n), median(free_ns, n)};
    cushim_write(&request->out, "  %10s %10s %10s %8s\n", text_of_bytes(n_bytes),
                 text_of_time(size->alloc_ns), text_of_time(size->free_ns), text_of_count(n));
    cushim_writer_flush(&request->out);
    return true;
}

/* ---- one device ---- */

/* Replace the earlier result for this device and driver. */
static void keep(struct request *request, const struct calibration *device) {
    unsigned at = 0;
    while (at < request->n_devices && (strcmp(request->devices[at].uuid, device->uuid) != 0 ||
                                       strcmp(request->devices[at].driver, device->driver) != 0))
        at++;
    if (at == CALIBRATION_DEVICES) { /* the first device of a full file is the oldest */
        at--;
        memmove(request->devices, request->devices + 1, at * sizeof *request->devices);
    }
    request->devices[at] = *device;
    request->n_devices = at < request->n_devices ? request->n_devices : at + 1;
}

static bool measure_device(struct request *request, int ordinal) {
    const struct driver *driver = &request->driver;
    struct calibration device = {.when = (uint64_t)time(NULL),
                                 .is_software = driver_is_software(driver)};
    char name[CUSHIM_NAME_BYTES] = "";
    size_t free_bytes, all_bytes;
    CUcontext context;
    CUuuid uuid;
    driver->cuDeviceGetName(name, sizeof name, ordinal);
    if (fails(request, driver->cuDeviceGetUuid_v2(&uuid, ordinal), "cuDeviceGetUuid", ordinal) ||
        fails(request, driver->cuDevicePrimaryCtxRetain(&context, ordinal),
              "cuDevicePrimaryCtxRetain", ordinal) ||
        fails(request, driver->cuCtxPushCurrent_v2(context), "cuCtxPushCurrent", ordinal) ||
        fails(request, driver->cuMemGetInfo_v2(&free_bytes, &all_bytes), "cuMemGetInfo", ordinal))
        return false;
    cushim_report_uuid(device.uuid, (const unsigned char *)uuid.bytes);
    calibration_driver(device.driver, (uint64_t)request->version);
    cushim_write(&request->out, "device %d  %s%s\n  %10s %10s %10s %8s\n", ordinal, name,
                 device.is_software ? " (no GPU: a stand-in for tests)" : "", "size", "allocate",
                 "free", "rounds");
    size_t n_bytes = least_bytes; /* a block and its neighbour take at most half */
    while (device.n_sizes < CALIBRATION_SIZES && n_bytes <= free_bytes / 4 &&
           measure_size(request, &device, n_bytes))
        n_bytes *= 4;
    if (!device.n_sizes) {
        complain("device %d: no memory is free", ordinal);
        return false;
    }
    keep(request, &device);
    return true;
}

static int measure_all(struct request *request) {
    const struct driver *driver = &request->driver;
    int n = 0;
    char wrong[512];
    if (!driver_open(&request->driver, wrong, sizeof wrong)) {
        complain("no CUDA driver: %s", wrong);
        return EXIT_WRONG;
    }
    driver->cuDriverGetVersion(&request->version);
    CUresult error = driver->cuInit(0);
    if (error == CUDA_SUCCESS)
        error = driver->cuDeviceGetCount(&n);
    if (error != CUDA_SUCCESS || n <= (request->only < 0 ? 0 : request->only)) {
        complain("no device%s: %s", request->only < 0 ? "" : " of that number",
                 error != CUDA_SUCCESS ? driver_error_name(driver, error) : "the driver has fewer");
        return EXIT_WRONG;
    }
    for (int i = 0; i < n; i++) {
        if ((request->only < 0 || request->only == i) && !measure_device(request, i))
            return EXIT_WRONG;
    }
    return EXIT_WELL;
}

/* ---- the command ---- */

/* Only the driver is to be measured, so if our library is in this process, the command starts
 * again without it.  Returns false, after a message, if that is impossible. */
static bool is_native(char **argv) {
    if (!dlsym(RTLD_DEFAULT, "cushim_preload_active"))
        return true;
    const char *before = getenv("LD_PRELOAD");
    bool is_asked = before && strstr(before, LAUNCH_LIBRARY);
    char *words[] = {(char *)"cushim", argv[0], argv[1], argv[1] ? argv[2] : NULL, NULL};
    if (is_asked && launch_unset())
        execv("/proc/self/exe", words);
    complain("cushim is preloaded here in a way that cannot be undone (/etc/ld.so.preload?)");
    return false;
}

static int take_arguments(struct request *request, int argc, char **argv) {
    unsigned number = UINT_MAX;
    const struct argument rows[] = {{"--device", .number = &number, .most = CUSHIM_MAX_DEVICES - 1},
                                    {0}};
    const struct arguments arguments = {.topic = "calibrate", .rows = rows};
    int n = arguments_read(&arguments, argc, argv);
    request->only = number == UINT_MAX ? -1 : (int)number;
    return n < 0 ? -n : EXIT_WELL;
}

int calibrate_main(int argc, char **argv) {
    static struct request request = {.out = {.fd = STDOUT_FILENO}};
    char path[PATH_MAX];
    int code = take_arguments(&request, argc, argv);
    if (code != EXIT_WELL)
        return code;
    if (!is_native(argv))
        return EXIT_WRONG;
    if (!calibration_path(path)) {
        complain("no folder for the file: neither XDG_CACHE_HOME nor HOME names one");
        return EXIT_OURS;
    }
    request.n_devices = calibration_read(path, request.devices);
    code = measure_all(&request);
    if (code != EXIT_WELL)
        return code;
    int error = calibration_write(path, request.devices, request.n_devices);
    if (error)
        return usage_unwritten(path, error);
    cushim_write(&request.out, "written to %s\n", path);
    cushim_writer_flush(&request.out);
    return EXIT_WELL;
}
