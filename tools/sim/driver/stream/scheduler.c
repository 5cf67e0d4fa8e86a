#include "scheduler.h"

#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/core/options.h"
#include "sim.h"
#include "stream.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* All under the lock. */
static struct sim_stream **queued; /* the streams that have steps */
static size_t n_queued, cap_queued;
static struct sim_stream **ready; /* as many places as `queued` has */
static pthread_cond_t has_work = PTHREAD_COND_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER; /* a turn is over */
static pthread_t worker;
static bool is_running, is_over, is_in_turn;
static unsigned n_holds;
static unsigned n_allowed; /* turns that sim_step allows while held */
static unsigned long n_turns;
static uint64_t state;

static void seed(uint64_t value) {
    state = value * 0x9e3779b97f4a7c15ull + 0x2545f4914f6cdd1dull;
    if (state == 0)
        state = 1;
}

/* xorshift64*: short, and the same everywhere. */
uint64_t sim_scheduler_draw(uint64_t n) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (state * 0x2545f4914f6cdd1dull >> 32) % n;
}

static size_t find_ready(void) {
    size_t n_ready = 0;
    for (size_t i = 0; i < n_queued; i++) {
        if (sim_step_is_ready(queued[i]->first))
            ready[n_ready++] = queued[i];
    }
    return n_ready;
}

/* The others keep their order, so that a sequence can be repeated. */
static void leave_list(struct sim_stream *stream) {
    size_t i = 0;
    while (queued[i] != stream)
        i++;
    for (n_queued--; i < n_queued; i++)
        queued[i] = queued[i + 1];
    stream->is_queued = false;
}

/* In a damaged context work is dropped, but frees in stream order are still done, and other
 * processes are told. */
static bool give_turn(struct sim_stream *stream) {
    struct sim_step *step = stream->first;
    if (sim_context_fault(stream->context) != CUDA_SUCCESS && step->work.kind != SIM_WORK_FREE &&
        step->work.kind != SIM_WORK_TELL)
        return true;
    is_in_turn = true;
    bool is_done = sim_work_turn(&step->work, stream);
    is_in_turn = false;
    return is_done;
}

/* Work that spins gets its next turn a little later, while others have the processor. */
static void nap(void) {
    pthread_mutex_unlock(&sim_lock);
    struct timespec pause = {0, 20000};
    nanosleep(&pause, NULL);
    pthread_mutex_lock(&sim_lock);
}

static void make_turn(size_t n_ready) {
    struct sim_stream *stream = ready[sim_scheduler_draw(n_ready)];
    bool is_done = give_turn(stream);
    n_turns++;
    if (n_holds && n_allowed)
        n_allowed--;
    if (is_done) {
        if (!stream->first->next)
            leave_list(stream);
        sim_stream_retire_first(stream);
    }
    pthread_cond_broadcast(&turned);
    if (!is_done && n_ready == 1)
        nap();
}

static void *work(void *unused) {
    pthread_mutex_lock(&sim_lock);
    while (!is_over) {
        size_t n_ready = n_holds && n_allowed == 0 ? 0 : find_ready();
        if (n_ready == 0) {
            n_allowed = 0;
            pthread_cond_broadcast(&turned);
            pthread_cond_wait(&has_work, &sim_lock);
            continue;
        }
        make_turn(n_ready);
        /* Give threads that wait for the lock a chance. */
        pthread_mutex_unlock(&sim_lock);
        pthread_mutex_lock(&sim_lock);
    }
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&sim_lock);
    return unused;
}

/* The program's signals are not for this thread. */
static bool start(void) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    is_running = pthread_create(&worker, NULL, work, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return is_running;
}

static bool make_place(void) {
    if (n_queued < cap_queued)
        return true;
    size_t cap = cap_queued ? 2 * cap_queued : 16;
    struct sim_stream **grown = realloc(queued, cap * sizeof(struct sim_stream *));
    if (!grown)
        return false;
    queued = grown;
    grown = realloc(ready, cap * sizeof(struct sim_stream *));
    if (!grown)
        return false;
    ready = grown;
    cap_queued = cap;
    return true;
}

CUresult sim_scheduler_add(struct sim_stream *stream) {
    if (!stream->is_queued && !make_place())
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (state == 0)
        seed(sim_options()->seed);
    if (!is_running && !start())
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (!stream->is_queued)
        queued[n_queued++] = stream;
    stream->is_queued = true;
    pthread_cond_signal(&has_work);
    return CUDA_SUCCESS;
}

bool sim_scheduler_is_idle(void) {
    return n_queued == 0 && !is_in_turn;
}

void sim_scheduler_finish(void) {
    is_over = true;
    if (!is_running || pthread_equal(worker, pthread_self()))
        return;
    pthread_cond_signal(&has_work);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    int error = 0;
    while (is_in_turn && error == 0)
        error = pthread_cond_timedwait(&turned, &sim_lock, &until);
    if (is_in_turn) {
        pthread_detach(worker); /* if a kernel never ends, the process ends while it runs */
        return;
    }
    pthread_mutex_unlock(&sim_lock);
    pthread_join(worker, NULL);
    pthread_mutex_lock(&sim_lock);
}

/* ---- for tests ---- */

void sim_hold(void) {
    pthread_mutex_lock(&sim_lock);
    n_holds++;
    while (is_in_turn && !pthread_equal(worker, pthread_self()))
        pthread_cond_wait(&turned, &sim_lock);
    pthread_mutex_unlock(&sim_lock);
}

void sim_release_hold(void) {
    pthread_mutex_lock(&sim_lock);
    if (n_holds)
        n_holds--;
    pthread_cond_signal(&has_work);
    pthread_mutex_unlock(&sim_lock);
}

static unsigned count_pending(void) {
    unsigned n = 0;
    for (size_t i = 0; i < n_queued; i++) {
        for (struct sim_step *step = queued[i]->first; step; step = step->next)
            n++;
    }
    return n;
}

unsigned sim_step(unsigned n) {
    pthread_mutex_lock(&sim_lock);
    unsigned n_made = 0;
    for (; n_made < n && n_holds && is_running && count_pending(); n_made++) {
        n_allowed = 1;
        unsigned long before = n_turns;
        pthread_cond_signal(&has_work);
        while (n_allowed)
            pthread_cond_wait(&turned, &sim_lock);
        if (n_turns == before)
            break;
    }
    pthread_mutex_unlock(&sim_lock);
    return n_made;
}

unsigned sim_pending(void) {
    pthread_mutex_lock(&sim_lock);
    unsigned n = count_pending();
    pthread_mutex_unlock(&sim_lock);
    return n;
}

void sim_seed(unsigned long value) {
    pthread_mutex_lock(&sim_lock);
    seed(value);
    pthread_mutex_unlock(&sim_lock);
}
