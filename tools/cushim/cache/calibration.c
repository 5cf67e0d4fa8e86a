#include "tools/cushim/cache/calibration.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/draft.h"
#include "tools/cushim/cache/cache.h"
#include "tools/cushim/json.h"

#define SCHEMA "cushim-calibration/1"

void calibration_driver(char text[CALIBRATION_DRIVER_BYTES], uint64_t version) {
    char module[32] = "";
    FILE *file = fopen("/sys/module/nvidia/version", "re");
    if (file && fscanf(file, "%31s", module) != 1)
        *module = 0;
    if (file)
        fclose(file);
    snprintf(text, CALIBRATION_DRIVER_BYTES, "%" PRIu64 "%s%s", version, *module ? " " : "",
             module);
}

bool calibration_path(char path[PATH_MAX]) {
    return cache_path("calibration.json", path);
}

/* ---- the file ---- */

/* Read the sizes.  They must rise, and each must have times that a call can take; returns false
 * if not. */
static bool take_sizes(struct calibration *device, struct json_object *sizes) {
    const uint64_t most_ns = 1000000000000;
    size_t n = json_length(sizes);
    if (!n || n > CALIBRATION_SIZES)
        return false;
    for (size_t i = 0; i < n; i++) {
        struct json_object *row = json_object_array_get_idx(sizes, i);
        struct calibration_size *size = &device->sizes[i];
        *size = (struct calibration_size){json_number(row, "bytes"), json_number(row, "alloc_ns"),
                                          json_number(row, "free_ns")};
        if (size->n_bytes <= (i ? size[-1].n_bytes : 0) || !size->alloc_ns || !size->free_ns ||
            size->n_bytes > INT64_MAX || size->alloc_ns > most_ns || size->free_ns > most_ns)
            return false;
    }
    device->n_sizes = (unsigned)n;
    return true;
}

static bool take_device(struct calibration *device, struct json_object *row) {
    *device = (struct calibration){.when = json_number(row, "calibrated"),
                                   .is_software = json_number(row, "is_software") != 0};
    json_copy(device->uuid, sizeof device->uuid, row, "uuid");
    json_copy(device->driver, sizeof device->driver, row, "driver");
    return *device->uuid && device->when <= UINT32_MAX &&
           take_sizes(device, json_list(row, "sizes"));
}

unsigned calibration_read(const char *path, struct calibration devices[CALIBRATION_DEVICES]) {
    enum { MOST_BYTES = 1 << 20 };
    struct json_object *json = json_read(path, MOST_BYTES), *rows = json_list(json, "devices");
    unsigned n = 0;
    for (size_t i = 0; json_is_of(json, SCHEMA) && i < json_length(rows) && n < CALIBRATION_DEVICES;
         i++)
        n += take_device(&devices[n], json_object_array_get_idx(rows, i));
    json_object_put(json);
    return n;
}

static void put_device(struct json_output *json, const struct calibration *device) {
    json_begin(json, NULL, "\n    {");
    json_put_text(json, "uuid", device->uuid);
    json_put_text(json, "driver", device->driver);
    json_put_number(json, "is_software", device->is_software);
    json_put_number(json, "calibrated", device->when);
    json_begin(json, "sizes", "[");
    for (unsigned i = 0; i < device->n_sizes; i++) {
        const struct calibration_size *size = &device->sizes[i];
        json_begin(json, NULL, "\n      {");
        json_put_number(json, "bytes", size->n_bytes);
        json_put_number(json, "alloc_ns", size->alloc_ns);
        json_put_number(json, "free_ns", size->free_ns);
        json_end(json, "}");
    }
    json_end(json, "]}");
}

int calibration_write(const char *path, const struct calibration devices[], unsigned n_devices) {
    struct cushim_draft draft;
    cache_make_folders(path);
    int error = cushim_draft_begin(&draft, path);
    if (error)
        return error;
    struct cushim_writer out = {.fd = draft.fd};
    struct json_output json = {&out, false};
    json_begin(&json, NULL, "{");
    json_put_text(&json, "schema", SCHEMA);
    json_begin(&json, "devices", "[");
    for (unsigned i = 0; i < n_devices; i++)
        put_device(&json, &devices[i]);
    json_end(&json, "]}\n");
    cushim_writer_flush(&out);
    return cushim_draft_end(&draft, out.error);
}

/* ---- bounds ---- */

/* A corner of the line that gives the time of a call of some size. */
struct corner {
    double n_bytes, ns;
};

static double on_line(struct corner a, struct corner b, double n_bytes) {
    return b.n_bytes > a.n_bytes
               ? a.ns + (b.ns - a.ns) * (n_bytes - a.n_bytes) / (b.n_bytes - a.n_bytes)
               : a.ns;
}

/* Draw the line from 0 to most_bytes.  Below the smallest size a call takes as long as for that
 * size.  Above the largest the line continues if it rises.  Returns the number of corners. */
static unsigned draw(struct corner corners[CALIBRATION_SIZES + 2], const struct calibration *device,
                     bool is_free, double most_bytes) {
    unsigned n = 0;
    for (unsigned i = 0; i < device->n_sizes; i++) {
        const struct calibration_size *size = &device->sizes[i];
        double ns = (double)(is_free ? size->free_ns : size->alloc_ns);
        if (!n)
            corners[n++] = (struct corner){0, ns};
        corners[n++] = (struct corner){(double)size->n_bytes, ns};
    }
    while (n > 2 && corners[n - 2].n_bytes >= most_bytes)
        n--;
    struct corner last = {most_bytes, on_line(corners[n - 2], corners[n - 1], most_bytes)};
    if (most_bytes > corners[n - 1].n_bytes) {
        last.ns = last.ns > corners[n - 1].ns ? last.ns : corners[n - 1].ns;
        n++;
    }
    corners[n - 1] = last;
    return n;
}

/* The hull of the line at n_bytes: the least time (with sign -1, the greatest) that a straight
 * line between two corners has there. */
static double hull(const struct corner corners[], unsigned n, double n_bytes, double sign) {
    double best = 0;
    bool has_best = false;
    for (unsigned i = 0; i < n; i++) {
        for (unsigned k = i; k < n; k++) {
            if (corners[i].n_bytes > n_bytes || corners[k].n_bytes < n_bytes)
                continue;
            double ns = on_line(corners[i], corners[k], n_bytes);
            if (!has_best || ns * sign < best * sign)
                best = ns;
            has_best = true;
        }
    }
    return best;
}

/* The time of n calls.  It is limited because a made-up page may have any n. */
static uint64_t in_all(double ns, uint64_t n) {
    double sum = ns * (double)n;
    return sum < (double)INT64_MAX ? (uint64_t)sum : INT64_MAX;
}

struct calibration_bounds calibration_bound(const struct calibration *device, bool is_free,
                                            uint64_t n, uint64_t n_bytes, uint64_t most_bytes) {
    struct corner corners[CALIBRATION_SIZES + 2];
    if (!n || !device->n_sizes)
        return (struct calibration_bounds){0, 0};
    double mean_bytes = (double)n_bytes / (double)n;
    double most = (double)most_bytes > mean_bytes ? (double)most_bytes : mean_bytes;
    unsigned n_corners = draw(corners, device, is_free, most);
    return (struct calibration_bounds){in_all(hull(corners, n_corners, mean_bytes, 1), n),
                                       in_all(hull(corners, n_corners, mean_bytes, -1), n)};
}

/* ---- a report ---- */

static const struct calibration *find(const char *uuid, const char *driver) {
    static struct calibration devices[CALIBRATION_DEVICES];
    static unsigned n_devices;
    static bool is_read;
    char path[PATH_MAX];
    if (!is_read && calibration_path(path))
        n_devices = calibration_read(path, devices);
    is_read = true;
    for (unsigned i = 0; i < n_devices; i++) {
        if (strcmp(devices[i].uuid, uuid) == 0 && strcmp(devices[i].driver, driver) == 0)
            return &devices[i];
    }
    return NULL;
}

/* Add one device.  No request is larger than the peak of live bytes. */
static void add(struct cushim_report_natively *sum, const struct calibration *device,
                const struct cushim_mem_stats *stats) {
    uint64_t live_bytes = cushim_mem_stats_read(&stats->live_bytes);
    uint64_t most_bytes = cushim_mem_stats_read(&stats->peak_live_bytes);
    uint64_t n_bytes = cushim_mem_stats_read(&stats->requested_bytes);
    struct calibration_bounds allocs = calibration_bound(
        device, false, cushim_mem_stats_read(&stats->n_requests), n_bytes, most_bytes);
    struct calibration_bounds frees =
        calibration_bound(device, true, cushim_mem_stats_read(&stats->n_frees),
                          n_bytes > live_bytes ? n_bytes - live_bytes : 0, most_bytes);
    sum->least_ns += allocs.least_ns + frees.least_ns;
    sum->most_ns += allocs.most_ns + frees.most_ns;
    sum->is_software |= device->is_software;
    if (!sum->when || device->when < sum->when)
        sum->when = device->when;
}

void calibration_apply(struct cushim_report *report) {
    char driver[CALIBRATION_DRIVER_BYTES], uuid[CUSHIM_REPORT_UUID_BYTES];
    report->natively = (struct cushim_report_natively){0};
    calibration_driver(driver, cushim_mem_stats_read(&report->page.head.driver_version));
    for (int i = 0; i < CUSHIM_MAX_DEVICES; i++) {
        if (!cushim_report_has(report, i, CUSHIM_KIND_DEVICE))
            continue;
        const struct calibration *device =
            find(cushim_report_uuid(uuid, report->page.device_uuids[i]), driver);
        if (!device) { /* because a sum without one device would be wrong */
            report->natively = (struct cushim_report_natively){0};
            return;
        }
        add(&report->natively, device, cushim_report_stats(report, i, CUSHIM_KIND_DEVICE));
    }
}
