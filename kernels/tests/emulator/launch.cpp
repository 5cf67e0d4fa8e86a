#include "kernels/tests/emulator/launch.h"
#include "kernels/tests/emulator/block.h"
#include "kernels/tests/emulator/thread.h"

#include "tools/sim/sim.h"

#include <mutex>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Says that fatbins load, because the kernels are in this program. */
const int sim_fatbin_kernels = 1;

namespace emulated {

/* ---- faults of the machine ---- */

static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
enum { N_FAULTS = sizeof fault_signals / sizeof *fault_signals };

/* A build that checks itself traps at undefined behaviour. */
static void report_fault(int signal, siginfo_t *info, void *) {
    if (signal == SIGSEGV || signal == SIGBUS)
        fail("accesses the address %p: nothing is there, it is misaligned, or the stack ended",
             info->si_addr);
    fail("%s at %p: an integer overflows, an address is misaligned, an index or a shift is out of "
         "range",
         strsignal(signal), info->si_addr);
}

/*
 * Handlers while kernels run, on their own stack, because a fiber's stack may have overflowed.  The
 * device's thread blocks signals, and a blocked fault would end the process without a message.
 */
class Handlers {
  public:
    Handlers() {
        static char *stack = (char *)malloc(STACK_BYTES);
        stack_t own = {};
        own.ss_sp = stack;
        own.ss_size = STACK_BYTES;
        sigaltstack(&own, &stack_before);
        sigset_t faults;
        sigemptyset(&faults);
        for (int i = 0; i < N_FAULTS; i++) {
            struct sigaction action = {};
            sigaddset(&faults, fault_signals[i]);
            action.sa_sigaction = report_fault;
            action.sa_flags = SA_SIGINFO | SA_ONSTACK;
            sigaction(fault_signals[i], &action, &before[i]);
        }
        pthread_sigmask(SIG_UNBLOCK, &faults, &mask_before);
    }
    ~Handlers() {
        pthread_sigmask(SIG_SETMASK, &mask_before, nullptr);
        for (int i = 0; i < N_FAULTS; i++)
            sigaction(fault_signals[i], &before[i], nullptr);
        sigaltstack(&stack_before, nullptr);
    }

  private:
    enum { STACK_BYTES = 64 * 1024 };
    struct sigaction before[N_FAULTS];
    stack_t stack_before;
    sigset_t mask_before;
};

/* ---- the grid ---- */

static uint3 index_of(size_t number, const unsigned extent[3]) {
    return {(unsigned)(number % extent[0]), (unsigned)(number / extent[0] % extent[1]),
            (unsigned)(number / extent[0] / extent[1])};
}

/* Cluster by cluster; the ranks of its blocks go along x first. */
static void run_grid(const sim_launch *shape) {
    unsigned clusters[3];
    size_t n_clusters = 1, n_blocks = 1;
    for (int i = 0; i < 3; i++) {
        clusters[i] = shape->grid[i] / shape->cluster[i];
        n_clusters *= clusters[i];
        n_blocks *= shape->cluster[i];
    }
    running.cluster.blocks.resize(n_blocks);
    for (size_t i = 0; i < n_clusters; i++) {
        uint3 cluster = index_of(running.is_downwards ? n_clusters - 1 - i : i, clusters);
        for (size_t k = 0; k < n_blocks; k++) {
            uint3 within = index_of(k, shape->cluster);
            running.cluster.blocks[k].index = {cluster.x * shape->cluster[0] + within.x,
                                               cluster.y * shape->cluster[1] + within.y,
                                               cluster.z * shape->cluster[2] + within.z};
        }
        run_cluster();
    }
}

void launch(const Kernel *kernel, const sim_launch *shape, void (*call)(void *data), void *data) {
    static std::mutex one_at_a_time;
    std::lock_guard<std::mutex> lock(one_at_a_time);
    Handlers handlers;
    running.kernel = kernel;
    running.call = call;
    running.data = data;
    running.shared_bytes = shape->shared_bytes;
    running.is_downwards = !running.is_downwards;
    gridDim = {shape->grid[0], shape->grid[1], shape->grid[2]};
    blockDim = {shape->block[0], shape->block[1], shape->block[2]};
    if (shape->block[0] * shape->block[1] * shape->block[2] > kernel->n_threads)
        fail("a block of %u threads is above the kernel's bound of %u",
             shape->block[0] * shape->block[1] * shape->block[2], kernel->n_threads);
    run_grid(shape);
}

} // namespace emulated
