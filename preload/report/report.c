#include "preload/report/report.h"

#include "memory/heap/cache.h"

const char *cushim_report_kind(enum cushim_kind kind) {
    static const char *const names[CUSHIM_N_KINDS] = {"device", "managed", "pinned", "async"};
    return names[kind];
}

const char *cushim_report_direction(enum cushim_direction direction) {
    static const char *const names[CUSHIM_N_DIRECTIONS] = {"host_to_device",   "device_to_host",
                                                           "device_to_device", "host_to_host",
                                                           "by_address",       "set"};
    return names[direction];
}

static struct cushim_mem_stats sums[CUSHIM_MAX_DEVICES][CUSHIM_N_KINDS];

void cushim_report_begin(void) {
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        for (int kind = 0; kind < CUSHIM_N_KINDS; kind++)
            cushim_mem_cache_sum(&cushim_process.stats[device][kind], &sums[device][kind]);
    }
}

const struct cushim_mem_stats *cushim_report_stats(int device, enum cushim_kind kind) {
    return &sums[device][kind];
}

bool cushim_report_has(int device, enum cushim_kind kind) {
    const struct cushim_mem_stats *stats = cushim_report_stats(device, kind);
    return cushim_mem_stats_read(&stats->n_requests) || cushim_mem_stats_read(&stats->n_refused);
}

bool cushim_report_has_device(int device) {
    for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
        if (cushim_report_has(device, (enum cushim_kind)kind))
            return true;
    }
    return cushim_report_virtual(device).n_requests != 0;
}

uint64_t cushim_report_rounding_bytes(const struct cushim_mem_stats *stats) {
    uint64_t block_bytes = cushim_mem_stats_read(&stats->block_bytes);
    uint64_t live_bytes = cushim_mem_stats_read(&stats->live_bytes);
    /* two reads, other threads in between: never below nothing; native kinds have no blocks */
    return block_bytes > live_bytes ? block_bytes - live_bytes : 0;
}

#define SUM(name, field, one, many)                                                                \
    uint64_t cushim_report_sum_##name(void) {                                                      \
        uint64_t sum = 0;                                                                          \
        for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {                              \
            for (int kind = 0; kind < CUSHIM_N_KINDS; kind++)                                      \
                sum += cushim_mem_stats_read(&sums[device][kind].field);                           \
        }                                                                                          \
        return sum;                                                                                \
    }
CUSHIM_REPORT_FINDINGS(SUM)
#undef SUM

uint64_t cushim_report_sum_at(enum cushim_kind kind, size_t counter) {
    uint64_t sum = 0;
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        const char *stats = (const char *)&sums[device][kind];
        sum += cushim_mem_stats_read((const atomic_uint_fast64_t *)(stats + counter));
    }
    return sum;
}

struct cushim_report_virtual cushim_report_virtual(int device) {
    return (struct cushim_report_virtual){
        cushim_mem_stats_read(&cushim_process.virtuals[device].n_requests),
        cushim_mem_stats_read(&cushim_process.virtuals[device].requested_bytes)};
}

struct cushim_report_virtual cushim_report_virtual_sum(void) {
    struct cushim_report_virtual sum = {0, 0};
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        struct cushim_report_virtual one = cushim_report_virtual(device);
        sum.n_requests += one.n_requests;
        sum.requested_bytes += one.requested_bytes;
    }
    return sum;
}
