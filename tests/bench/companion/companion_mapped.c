/*
 * Bytes brought to the device: the host writes them into mapped memory (and flushes it if it is not
 * coherent), or cuMemcpyHtoD copies them from pageable memory.  Both are done when the call
 * returns, so that a later launch sees them.
 */
#include <string.h>

#include "companion.h"

enum { MAX_BYTES = 32 << 10, MAX_WHY = 300 };

struct target {
    size_t n_bytes;
    unsigned char *source;
    CUdeviceptr block;
    struct cushim_mapped *mapped;
    void *host;
    cushim_devptr device;
    bool is_coherent;
};

static void by_copy(void *cookie, size_t n) {
    struct target *target = cookie;
    for (size_t i = 0; i < n; i++)
        bench_must("cuMemcpyHtoD",
                   (int)raw.cuMemcpyHtoD(target->block, target->source, target->n_bytes));
}

static void by_mapping(void *cookie, size_t n) {
    struct target *target = cookie;
    for (size_t i = 0; i < n; i++) {
        need(cushim_mapped_copy_in(target->host, target->source, target->n_bytes));
        if (!target->is_coherent)
            need(cushim_mapped_flush(target->mapped, 0, MAX_BYTES));
    }
}

static const struct companion_way ways[] = {{"native", by_copy}, {"companion", by_mapping}};

/* Check that the device sees the bytes of each way, and no others. */
static void check(struct target *target, unsigned char seed) {
    for (size_t i = 0; i < target->n_bytes; i++)
        target->source[i] = (unsigned char)(seed + 7 * i);
    by_copy(target, 1);
    by_mapping(target, 1);
    companion_check("what was copied", target->block, target->source, target->n_bytes);
    companion_check("what was written", target->device, target->source, target->n_bytes);
}

/* False if this machine has no mapped memory; the line says why. */
static bool open_target(struct target *target, struct cushim_mapper **mapper) {
    int is_coherent = 0;
    enum cushim_status status = cushim_mapper_open_device(0, 0, mapper);
    if (status == CUSHIM_NOTSUPPORTED) {
        char why[MAX_WHY];
        size_t n = 0;
        for (const char *c = cushim_last_error(); *c && n < sizeof why - 1; c++)
            why[n++] = (unsigned char)*c < ' ' || *c == '"' || *c == '\\' ? ' ' : *c;
        why[n] = 0;
        bench_skip("mapped/write", why);
        return false;
    }
    need(status);
    need(cushim_mapped_alloc(*mapper, MAX_BYTES, 0, &target->mapped));
    need(cushim_mapped_host(target->mapped, &target->host));
    need(cushim_mapped_device(target->mapped, &target->device));
    need(cushim_mapped_coherent(target->mapped, &is_coherent));
    target->is_coherent = is_coherent;
    bench_must("cuMemAlloc", (int)raw.cuMemAlloc(&target->block, MAX_BYTES));
    return true;
}

void run_companion_mapped(const struct companion_settings *settings) {
    static const struct {
        const char *name;
        size_t n_bytes;
    } cases[] = {
        {"mapped/write/64", 64}, {"mapped/write/4K", 4 << 10}, {"mapped/write/32K", 32 << 10}};
    struct target target = {.source = bench_memory(MAX_BYTES, 1)};
    struct cushim_mapper *mapper;
    if (open_target(&target, &mapper)) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            target.n_bytes = cases[i].n_bytes;
            check(&target, (unsigned char)(1 + i));
            companion_contest(
                &(struct companion_contest){
                    .name = cases[i].name, .ways = ways, .n_ways = 2, .cookie = &target},
                settings);
        }
        bench_must("cuMemFree", (int)raw.cuMemFree(target.block));
        need(cushim_mapped_free(target.mapped));
        need(cushim_mapper_close(mapper));
    }
    free(target.source);
}
