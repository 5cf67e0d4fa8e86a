/*
 * The blocks that run together: one, or the blocks of a cluster.
 *
 * Each thread is a fiber.  The scheduler runs the ready lanes of a warp by turns until all of them
 * wait or have returned, then those of the next warp.  If no thread is ready and not all have
 * returned, the kernel hangs, and the process ends with a message that says what each waits for.
 * Launches go through warps and lanes upwards and downwards by turns, so that a missing barrier
 * has a chance to show.
 */
#ifndef CUSHIM_EMULATOR_BLOCK_H
#define CUSHIM_EMULATOR_BLOCK_H

#include "kernels/tests/emulator/fiber.h"
#include "kernels/tests/emulator/vectors.h"

#include <string.h>
#include <vector>

namespace emulated {

enum class State { FRESH, RUNNABLE, AT_BLOCK, AT_SOME, AT_LANES, AT_CLUSTER, AT_GATE, RETURNED };

struct Copy {
    void *to;
    const void *from;
    unsigned n_bytes, n_read;
    unsigned group;
};

struct Block;

struct Thread {
    Fiber fiber;
    Block *block;
    uint3 index;
    unsigned number; /* in the block */
    State state;
    const char *what; /* where it waits */
    unsigned mask;    /* for AT_LANES; for AT_SOME the barrier's number */
    void *data;       /* for AT_LANES: of the collective */
    unsigned phase;   /* of the cluster's barrier at which it arrived */
    bool has_arrived; /* at the cluster's barrier, and has not waited yet */
    std::vector<Copy> copies;
    unsigned n_copy_groups; /* ended */
};

/* Bits of lanes. */
struct Warp {
    unsigned present, ready, waiting, returned;
};

struct Block {
    uint3 index;
    unsigned rank; /* in the cluster */
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    unsigned n_returned;
    unsigned n_at_barrier;
    struct {
        unsigned n_arrived, n;
    } some[16];          /* barriers of some of the threads */
    int n_votes, result; /* of the predicates of a barrier */
    std::vector<char> dynamic_shared;
    std::vector<char> static_shared; /* while another block of the cluster runs */
};

struct Cluster {
    std::vector<Block> blocks;
    unsigned n_arrived, phase;
};

/* The state of what runs now. */
struct Running {
    const struct Kernel *kernel;
    void (*call)(void *data);
    void *data;
    unsigned shared_bytes;
    bool is_downwards;
    Cluster cluster;
    Block *block;
    Thread *thread;     /* NULL for the scheduler */
    Thread *first_lane; /* of the warp whose turn it is */
    unsigned turn;      /* its lanes that have yet to run in this turn */
    Fiber scheduler;
    Fiber *left; /* the fiber that switched to the running one */
};
extern Running running;

/* Run the blocks of the cluster to their ends. */
void run_cluster();

/* The running thread has to wait; `state` and `what` say for what. */
void wait_at(State state, const char *what);

/* Whether two threads wait at the same place; the texts are usually one pointer. */
inline bool is_same(const char *what, const char *other) {
    return what == other || strcmp(what, other) == 0;
}

/* Let a thread go on. */
void make_ready(Thread *thread);

} // namespace emulated

#endif
