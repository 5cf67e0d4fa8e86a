/*
 * Properties of the host that the other numbers depend on: whether the kernel grants membarrier(2),
 * with which a pin is a store and a load rather than an exchange (src/companion/core/handle_pin.h);
 * a locked add on a line of this processor; the driver's cuCtxGetCurrent.
 */
#include <linux/membarrier.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "companion.h"

enum { N_EACH = 1000, N_SAMPLES = 200, N_SAMPLES_TINY = 3 };

static void add(void *cookie, size_t n) {
    static _Alignas(64) atomic_uint_fast64_t word;
    (void)cookie;
    for (size_t i = 0; i < n; i++)
        atomic_fetch_add(&word, 1);
}

static void ask_context(void *cookie, size_t n) {
    CUcontext context;
    (void)cookie;
    for (size_t i = 0; i < n; i++)
        bench_must("cuCtxGetCurrent", (int)raw.cuCtxGetCurrent(&context));
}

static void sample(struct bench_samples *samples, void (*run)(void *cookie, size_t n),
                   const struct companion_settings *settings) {
    *samples = bench_samples_create(N_SAMPLES);
    samples->n_each = N_EACH;
    run(NULL, N_EACH); /* warm up */
    for (int i = 0; i < (settings->is_tiny ? N_SAMPLES_TINY : N_SAMPLES); i++) {
        uint64_t start_ns = bench_now_ns();
        run(NULL, N_EACH);
        bench_samples_add(samples, bench_now_ns() - start_ns);
    }
}

/* The library asked when its first handle was opened; the kernel's answer never changes. */
static bool has_membarrier(void) {
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void companion_print_host(const struct companion_settings *settings) {
    struct bench_samples adds, contexts;
    char more[160];
    sample(&adds, add, settings);
    sample(&contexts, ask_context, settings);
    struct bench_stats of_adds = bench_stats_of(&adds), of_contexts = bench_stats_of(&contexts);
    snprintf(more, sizeof more,
             ", \"membarrier\": %d, \"locked_add_ns\": %.1f, \"current_context_ns\": %.1f",
             has_membarrier(), of_adds.p50_ns, of_contexts.p50_ns);
    companion_print("host", "companion", &adds, more);
    bench_samples_destroy(&contexts);
    bench_samples_destroy(&adds);
}
