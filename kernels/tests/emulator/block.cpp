#include "kernels/tests/emulator/block.h"
#include "kernels/tests/emulator/launch.h"
#include "kernels/tests/emulator/thread.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulated {

Running running;

/* ---- faults ---- */

void fail(const char *format, ...) {
    va_list arguments;
    fprintf(stderr,
            "emulator: kernel %s, block (%u, %u, %u), thread (%u, %u, %u): ", running.kernel->name,
            blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

static void stand_in(const Thread *thread) {
    threadIdx = thread->index;
    blockIdx = thread->block->index;
}

/* In shared memory. */
struct Gate {
    uint16_t n, n_arrived, n_rounds;
    int16_t n_pieces; /* of 8 bytes that are due; below 0 while they were not announced */
};
static_assert(sizeof(Gate) == sizeof(uint64_t), "as the kernels have it");

static const char *whereabouts(const Thread *thread, char *text, size_t n_bytes) {
    if (thread->state == State::RETURNED)
        return "has returned";
    if (thread->state == State::AT_LANES)
        snprintf(text, n_bytes, "waits at %s of mask %08x", thread->what, thread->mask);
    else if (thread->state == State::AT_SOME)
        snprintf(text, n_bytes, "waits at %s %u", thread->what, thread->mask);
    else if (thread->state == State::AT_GATE) {
        const Gate *gate = (const Gate *)thread->data;
        snprintf(text, n_bytes, "waits at %s: %u of %u have come, %d bytes are due", thread->what,
                 gate->n_arrived, gate->n, 8 * gate->n_pieces);
    } else
        snprintf(text, n_bytes, "waits at %s", thread->what);
    return text;
}

/* Whether `thread` waits for `other`. */
static bool is_missed(const Thread *thread, const Thread *other) {
    bool is_same_block = thread->block == other->block;
    switch (thread->state) {
    case State::AT_LANES:
        return is_same_block && thread->number / 32 == other->number / 32 &&
               (thread->mask >> other->number % 32 & 1) &&
               (other->state != State::AT_LANES || other->mask != thread->mask ||
                strcmp(other->what, thread->what) != 0);
    case State::AT_BLOCK:
        return is_same_block && other->state != State::AT_BLOCK;
    case State::AT_SOME:
        return is_same_block && (other->state != State::AT_SOME || other->mask != thread->mask);
    case State::AT_CLUSTER:
        return !other->has_arrived;
    case State::AT_GATE:
        return other->state != State::AT_GATE;
    default:
        return false;
    }
}

/*
 * No thread can go on.  Lanes come first, because a barrier of the block often only waits for them.
 */
[[noreturn]] static void report_hang() {
    char here[128], there[128];
    for (State state :
         {State::AT_LANES, State::AT_SOME, State::AT_BLOCK, State::AT_CLUSTER, State::AT_GATE}) {
        for (const Block &block : running.cluster.blocks) {
            for (const Thread &thread : block.threads) {
                if (thread.state != state)
                    continue;
                for (const Block &other_block : running.cluster.blocks) {
                    for (const Thread &other : other_block.threads) {
                        if (!is_missed(&thread, &other))
                            continue;
                        stand_in(&thread);
                        fail("%s, but thread (%u, %u, %u) of block (%u, %u, %u) %s",
                             whereabouts(&thread, here, sizeof here), other.index.x, other.index.y,
                             other.index.z, other_block.index.x, other_block.index.y,
                             other_block.index.z, whereabouts(&other, there, sizeof there));
                    }
                }
            }
        }
    }
    fail("hangs");
}

/* ---- shared memory ---- */

enum : size_t { GUARD_BYTES = 4096 };
enum : unsigned char { GUARD = 0xa5, POISON = 0xff /* NaN, for floats of any size */ };

static size_t n_static_bytes() {
    return (size_t)(running.kernel->static_end - running.kernel->static_begin);
}

/*
 * Writes whole words, because the linker's script aligns both ends: a block begins with its
 * family's variables.  It does so by hand, because an address sanitizer would stop a memset across
 * its own gaps between variables.
 */
typedef uint64_t Word __attribute__((may_alias));

__attribute__((no_sanitize("address"))) static void move_words(char *to, const char *from,
                                                               size_t n_bytes) {
    for (size_t i = 0; i < n_bytes / sizeof(Word); i++)
        ((volatile Word *)to)[i] =
            from ? ((const volatile Word *)from)[i] : UINT64_C(0x0101010101010101) * POISON;
}

static void poison_shared(Block *block) {
    size_t n_bytes = (running.shared_bytes + 15u) & ~(size_t)15;
    block->dynamic_shared.resize(2 * GUARD_BYTES + n_bytes + 16);
    memset(block->dynamic_shared.data(), GUARD, block->dynamic_shared.size());
    block->static_shared.assign(running.cluster.blocks.size() > 1 ? n_static_bytes() : 0,
                                (char)POISON);
}

/* Aligned to 16 bytes as on a device, and no further. */
static char *dynamic_shared(Block *block) {
    uintptr_t address = (uintptr_t)block->dynamic_shared.data() + GUARD_BYTES;
    return (char *)(((address + 31) & ~(uintptr_t)31) - 16);
}

static bool is_guard(const char *from, const char *end) {
    return from == end ||
           ((unsigned char)*from == GUARD && memcmp(from, from + 1, (size_t)(end - from) - 1) == 0);
}

static void judge_guards(Block *block) {
    const char *begin = block->dynamic_shared.data(), *place = dynamic_shared(block);
    const char *end = begin + block->dynamic_shared.size(), *behind = place + running.shared_bytes;
    if (is_guard(begin, place) && is_guard(behind, end))
        return;
    for (const char *at = begin; at < end; at++) {
        if ((at < place || at >= behind) && (unsigned char)*at != GUARD)
            fail("byte %td of %u bytes of dynamic shared memory was written", at - place,
                 running.shared_bytes);
    }
}

/* The static shared memory is that of the running block. */
static void enter_block(Block *block) {
    if (running.block == block)
        return;
    size_t n_bytes = n_static_bytes();
    char *place = running.kernel->static_begin;
    if (running.cluster.blocks.size() == 1) {
        move_words(place, nullptr, n_bytes);
    } else {
        if (running.block)
            move_words(running.block->static_shared.data(), place, n_bytes);
        move_words(place, block->static_shared.data(), n_bytes);
    }
    running.block = block;
    blockIdx = block->index;
}

void *shared_of_block(const void *place, unsigned rank) {
    uintptr_t address = (uintptr_t)place, begin = (uintptr_t)running.kernel->static_begin;
    uintptr_t dynamic = (uintptr_t)dynamic_shared(running.block);
    if (rank >= running.cluster.blocks.size())
        fail("the cluster has no block %u", rank);
    Block *block = &running.cluster.blocks[rank];
    if (block->n_returned == block->threads.size())
        fail("block %u of the cluster has ended, and its shared memory with it", rank);
    if (address >= dynamic && address < dynamic + running.shared_bytes)
        return dynamic_shared(block) + (address - dynamic);
    if (address < begin || address >= begin + n_static_bytes())
        fail("the address %p is not of the block's shared memory", place);
    return block == running.block ? (void *)address
                                  : block->static_shared.data() + (address - begin);
}

} // namespace emulated

void *emulated_dynamic_shared() {
    return emulated::dynamic_shared(emulated::running.block);
}

unsigned emulated_dynamic_bytes() {
    return emulated::running.shared_bytes;
}

/* ---- the scheduler ---- */

namespace emulated {

static void run_thread();

void make_ready(Thread *thread) {
    Warp *warp = &thread->block->warps[thread->number / 32];
    thread->state = State::RUNNABLE;
    warp->ready |= 1u << thread->number % 32;
}

/* The next lane of the turn that is not over. */
static Fiber *take_lane() {
    unsigned lane = (unsigned)(running.is_downwards ? 31 - __builtin_clz(running.turn)
                                                    : __builtin_ctz(running.turn));
    Thread *thread = &running.first_lane[lane];
    running.turn &= ~(1u << lane);
    if (thread->state == State::FRESH)
        fiber_begin(&thread->fiber, run_thread);
    thread->state = State::RUNNABLE;
    threadIdx = thread->index;
    running.thread = thread;
    return &thread->fiber;
}

void wait_at(State state, const char *what) {
    Thread *self = running.thread;
    self->state = state;
    self->what = what;
    running.left = &self->fiber;
    fiber_switch(&self->fiber, running.turn ? take_lane() : &running.scheduler, false);
}

static void run_thread() {
    Thread *self = running.thread;
    fiber_arrived(&self->fiber, running.left);
    running.call(running.data);
    wait_for_copies(0);
    if (self->has_arrived)
        fail("returns between its arrival at the cluster's barrier and the wait");
    self->state = State::RETURNED;
    self->block->n_returned++;
    self->block->warps[self->number / 32].returned |= 1u << self->number % 32;
    fiber_switch(&self->fiber, &running.scheduler, true);
}

/*
 * Run the ready lanes once.  A lane that waits switches to the next; the last one, and each that
 * returns, comes back here.
 */
static void run_lanes(Block *block, unsigned warp) {
    running.first_lane = &block->threads[warp * 32];
    running.turn = block->warps[warp].ready;
    block->warps[warp].ready = 0;
    while (running.turn) {
        running.left = &running.scheduler;
        fiber_switch(&running.scheduler, take_lane(), false);
        if (running.thread->state == State::RETURNED)
            fiber_end(&running.thread->fiber);
        running.thread = nullptr;
    }
}

/* Returns false if no thread was ready. */
static bool run_block(Block *block) {
    bool has_moved = false;
    size_t n = block->warps.size();
    enter_block(block);
    for (size_t i = 0; i < n; i++) {
        size_t warp = running.is_downwards ? n - 1 - i : i;
        while (block->warps[warp].ready) {
            run_lanes(block, (unsigned)warp);
            has_moved = true;
        }
    }
    return has_moved;
}

/* A block's shared memory ends with it. */
static void end_block(Block *block) {
    stand_in(&block->threads[0]);
    for (unsigned i = 0; i < 16; i++)
        if (block->some[i].n_arrived)
            fail("ends when %u of %u are at barrier %u", block->some[i].n_arrived, block->some[i].n,
                 i);
    judge_guards(block);
    memset(dynamic_shared(block), POISON, running.shared_bytes);
}

static void begin_block(Block *block, unsigned rank) {
    unsigned n_threads = blockDim.x * blockDim.y * blockDim.z;
    block->rank = rank;
    block->n_returned = block->n_at_barrier = 0;
    block->n_votes = 0;
    memset(block->some, 0, sizeof block->some);
    block->warps.assign((n_threads + 31) / 32, Warp{});
    block->threads.resize(n_threads);
    for (unsigned i = 0; i < n_threads; i++) {
        Thread *thread = &block->threads[i];
        thread->block = block;
        thread->number = i;
        thread->index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
        thread->has_arrived = false;
        thread->n_copy_groups = 0;
        make_ready(thread);
        thread->state = State::FRESH;
        block->warps[i / 32].present |= 1u << i % 32;
    }
    poison_shared(block);
    memset(dynamic_shared(block), POISON, running.shared_bytes);
}

void run_cluster() {
    Cluster *cluster = &running.cluster;
    size_t n_ended = 0;
    running.block = nullptr;
    cluster->n_arrived = cluster->phase = 0;
    for (size_t i = 0; i < cluster->blocks.size(); i++)
        begin_block(&cluster->blocks[i], (unsigned)i);
    while (n_ended < cluster->blocks.size()) {
        bool has_moved = false;
        for (Block &block : cluster->blocks) {
            if (block.n_returned == block.threads.size())
                continue;
            has_moved |= run_block(&block);
            if (block.n_returned < block.threads.size())
                continue;
            end_block(&block);
            n_ended++;
        }
        if (!has_moved)
            report_hang();
    }
}

/* ---- barriers ---- */

void meet_block(const char *what) {
    Thread *self = running.thread;
    Block *block = self->block;
    if (++block->n_at_barrier < block->threads.size()) {
        wait_at(State::AT_BLOCK, what);
        return;
    }
    for (Thread &other : block->threads) {
        if (&other == self)
            continue;
        if (!is_same(other.what, what))
            fail("is at %s, but thread (%u, %u, %u) at %s", what, other.index.x, other.index.y,
                 other.index.z, other.what);
        make_ready(&other);
    }
    block->n_at_barrier = 0;
    block->result = block->n_votes;
    block->n_votes = 0;
}

void meet_some(unsigned number, unsigned n, bool is_waiting) {
    Thread *self = running.thread;
    Block *block = self->block;
    if (number < 1 || number > 15 || n % 32 || n > block->threads.size())
        fail("is at barrier %u of %u threads", number, n);
    if (block->some[number].n_arrived && block->some[number].n != n)
        fail("is at barrier %u of %u threads, but another at that of %u", number, n,
             block->some[number].n);
    block->some[number].n = n;
    if (++block->some[number].n_arrived < n) {
        self->mask = number;
        if (is_waiting)
            wait_at(State::AT_SOME, "barrier");
        return;
    }
    block->some[number].n_arrived = 0;
    for (Thread &other : block->threads) {
        if (other.state == State::AT_SOME && other.mask == number)
            make_ready(&other);
    }
}

void arrive_at_cluster() {
    Thread *self = running.thread;
    Cluster *cluster = &running.cluster;
    if (self->has_arrived)
        fail("arrives twice at the cluster's barrier");
    self->has_arrived = true;
    self->phase = cluster->phase;
    if (++cluster->n_arrived < cluster->blocks.size() * self->block->threads.size())
        return;
    cluster->n_arrived = 0;
    cluster->phase++;
    for (Block &block : cluster->blocks) {
        for (Thread &thread : block.threads) {
            if (thread.state == State::AT_CLUSTER)
                make_ready(&thread);
        }
    }
}

void wait_for_cluster() {
    Thread *self = running.thread;
    if (!self->has_arrived)
        fail("waits at the cluster's barrier without having arrived");
    if (self->phase == running.cluster.phase)
        wait_at(State::AT_CLUSTER, "the cluster's barrier");
    self->has_arrived = false;
}

unsigned block_of_cluster() {
    return running.block->rank;
}

unsigned blocks_of_cluster() {
    return (unsigned)running.cluster.blocks.size();
}

/* ---- gates ---- */

void make_gate(uint64_t *gate, unsigned n_arrivals) {
    *(Gate *)gate = {(uint16_t)n_arrivals, 0, 0, 0};
}

static void open_gate(Gate *gate) {
    if (gate->n_arrived < gate->n || gate->n_pieces)
        return;
    gate->n_arrived = 0;
    gate->n_rounds++;
    for (Block &block : running.cluster.blocks) {
        for (Thread &thread : block.threads) {
            if (thread.state == State::AT_GATE && thread.data == gate)
                make_ready(&thread);
        }
    }
}

void arrive_at_gate(uint64_t *gate, unsigned n_bytes) {
    Gate *of = (Gate *)gate;
    if (of->n_arrived == of->n)
        fail("is one too many at a gate of %u", of->n);
    of->n_arrived++;
    of->n_pieces += (int16_t)(n_bytes / 8);
    open_gate(of);
}

/* Rounds that began before the last two cannot be told apart. */
void wait_for_gate(uint64_t *gate, unsigned round) {
    Gate *of = (Gate *)gate;
    if (round > of->n_rounds || of->n_rounds - round > 1)
        fail("waits for round %u of a gate that has opened %u times", round, of->n_rounds);
    if (of->n_rounds == round) {
        running.thread->data = gate;
        wait_at(State::AT_GATE, "a gate");
    }
}

static void come(Gate *gate, unsigned n_bytes) {
    gate->n_pieces -= (int16_t)(n_bytes / 8);
    open_gate(gate);
}

/* Account for bytes that were sent.  Arrivals that are not gates (n = 0) are not counted. */
void send_bytes(unsigned rank, uint64_t *gate, unsigned n_bytes) {
    Gate *of = (Gate *)shared_of_block(gate, rank);
    if (running.cluster.blocks.size() == 1)
        fail("sends in a cluster of one block");
    if (of->n == 0)
        return;
    come(of, n_bytes);
}

void copy_to_block(unsigned rank, void *place, unsigned n_bytes, uint64_t *gate) {
    if ((uintptr_t)place % 16 || n_bytes % 16)
        fail("copies %u bytes at %p: not both are multiples of 16", n_bytes, place);
    memcpy(shared_of_block(place, rank), place, n_bytes);
    send_bytes(rank, gate, n_bytes);
}

void copy_for_gate(void *place, const void *from, unsigned n_bytes, uint64_t *gate) {
    if ((uintptr_t)place % 16 || (uintptr_t)from % 16 || n_bytes % 16)
        fail("copies %u bytes from %p to %p: not all are multiples of 16", n_bytes, from, place);
    memcpy(place, from, n_bytes);
    come((Gate *)gate, n_bytes);
}

} // namespace emulated
