#include "memory/fence/waits.h"

_Thread_local struct cushim_mem_waits cushim_mem_waits_of_thread
    __attribute__((tls_model("initial-exec")));

void cushim_mem_waits_count(struct cushim_mem_stats *stats, uint64_t start_ns) {
    uint64_t ns = cushim_mem_stats_add_time(stats, &stats->wait_ns, start_ns);
    cushim_mem_stats_add(&stats->n_waits, 1);
    cushim_mem_waits_of_thread.n++;
    cushim_mem_waits_of_thread.ns += ns;
}
