/*
 * The benchmark of the companion library: one process runs each case alternately with the library
 * and with the raw driver, and prints one JSON line per case and variant.
 *
 *   bench-companion --work NAME[,NAME ...] [--ms N] [--tiny]
 *
 * The first line, `host`, has the machine's properties that the numbers depend on
 * (companion_host.c).
 *
 * Workloads: pool, arena, graph, launch, mapped, copy.
 */
#include "companion.h"

#include <string.h>

#include "tests/companion/kernels.ptx.h"
#include "tools/sim/sim.h"

struct companion_raw raw;

#define NAME(name)  NAMED(name)
#define NAMED(name) #name

static void find(const char *name, void *slot) {
    void *address = NULL;
    need(cushim_symbol(name, &address));
    memcpy(slot, &address, sizeof address); /* ISO C has no cast from an address to a function */
}

static void find_all(void) {
#define FIND(name) find(NAME(name), &raw.name);
    COMPANION_RAW(FIND)
#undef FIND
}

bool companion_is_simulated(void) {
    void *address;
    return cushim_symbol("sim_fail_at", &address) == CUSHIM_OK;
}

const char *companion_image(void) {
    static char *text;
    size_t n_bytes = 1;
    if (companion_is_simulated())
        return SIM_MODULE_IMAGE "\n.global table 128\n.global counted 8\n";
    for (size_t i = 0; !text && fixture_ptx[i]; i++)
        n_bytes += strlen(fixture_ptx[i]);
    if (!text) {
        text = bench_memory(n_bytes, 1);
        for (size_t i = 0; fixture_ptx[i]; i++)
            strcat(text, fixture_ptx[i]);
    }
    return text;
}

void companion_enter(void) {
    struct cushim_context *context;
    struct CUctx_st *cu;
    need(cushim_context_primary(0, &context));
    need(cushim_context_handle(context, &cu));
    bench_must("cuCtxSetCurrent", (int)raw.cuCtxSetCurrent(cu));
}

struct companion_stream companion_stream_create(void) {
    struct companion_stream stream;
    need(cushim_stream_create(NULL, 1, 0, &stream.handle));
    need(cushim_stream_handle(stream.handle, &stream.cu));
    return stream;
}

void companion_fill(cushim_devptr at, unsigned char value, size_t bytes) {
    bench_must("cuMemsetD8", (int)raw.cuMemsetD8(at, value, bytes));
    bench_must("wait", (int)raw.cuStreamSynchronize(NULL));
}

void companion_check(const char *what, cushim_devptr at, const void *wanted, size_t bytes) {
    void *got = bench_memory(bytes, 1);
    bench_must(what, (int)raw.cuMemcpyDtoH(got, at, bytes));
    if (memcmp(got, wanted, bytes)) {
        fprintf(stderr, "%s: wrong contents\n", what);
        exit(1);
    }
    free(got);
}

static void run(const struct companion_settings *settings, const char *work) {
    static const struct {
        const char *name;
        companion_run *run;
    } workloads[] = {{"pool", run_companion_pool},     {"arena", run_companion_arena},
                     {"graph", run_companion_graph},   {"launch", run_companion_launch},
                     {"mapped", run_companion_mapped}, {"copy", run_companion_copy}};
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) {
        if (!strcmp(workloads[i].name, work)) {
            workloads[i].run(settings);
            return;
        }
    }
    bench_fail(work, 2);
}

int main(int argc, char **argv) {
    struct companion_settings settings = {.time_ms = 60};
    char *works = NULL, *place = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--tiny"))
            settings.is_tiny = true;
        else if (!strcmp(argv[i], "--ms") && i + 1 < argc)
            settings.time_ms = (unsigned)atoi(argv[++i]);
        else if (!strcmp(argv[i], "--work") && i + 1 < argc)
            works = argv[++i];
        else
            bench_fail(argv[i], 2);
    }
    if (!works)
        bench_fail("--work", 2);
    if (!cushim_available()) {
        fprintf(stderr, "no CUDA device: %s\n", cushim_load_error());
        return 77;
    }
    find_all();
    companion_enter();
    companion_print_host(&settings);
    for (char *work = strtok_r(works, ",", &place); work; work = strtok_r(NULL, ",", &place))
        run(&settings, work);
    return 0;
}
