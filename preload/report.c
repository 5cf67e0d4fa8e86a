#include "preload/report.h"

#include "memory/cache.h"

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
            cushim_mem_cache_sum(&cushim_engine.stats[device][kind], &sums[device][kind]);
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
    return false;
}

uint64_t cushim_report_waste_bytes(const struct cushim_mem_stats *stats) {
    uint64_t block_bytes = cushim_mem_stats_read(&stats->block_bytes);
    uint64_t live_bytes = cushim_mem_stats_read(&stats->live_bytes);
    /* two reads, other threads in between: never below nothing; native kinds have no blocks */
    return block_bytes > live_bytes ? block_bytes - live_bytes : 0;
}

#define SUM(name, field, text)                                                                     \
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

/* What one call costs natively: the mean of ours, but no more than a typical one, since the few
 * that we make may be the process's first, which are slow (docs/measurements.md). */
static uint64_t native_call_ns(uint64_t n_calls, uint64_t total_ns) {
    const uint64_t typical_ns = 25000;
    uint64_t mean_ns = n_calls ? total_ns / n_calls : typical_ns;
    return mean_ns < typical_ns ? mean_ns : typical_ns;
}

uint64_t cushim_report_native_estimate_ns(int device) {
    const struct cushim_mem_stats *stats = cushim_report_stats(device, CUSHIM_KIND_DEVICE);
    uint64_t alloc_ns = native_call_ns(cushim_mem_stats_read(&stats->n_native_allocs),
                                       cushim_mem_stats_read(&stats->native_alloc_ns));
    uint64_t free_ns = native_call_ns(cushim_mem_stats_read(&stats->n_native_frees),
                                      cushim_mem_stats_read(&stats->native_free_ns));
    return cushim_mem_stats_read(&stats->n_requests) * alloc_ns +
           cushim_mem_stats_read(&stats->n_frees) * free_ns;
}
