#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "copy/ring.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/cancel.h"
#include "base/lock.h"
#include "copy/node.h"
#include "cuda/current_context.h"

/*
 * The smallest piece: a pinned transfer of 1 MiB reaches two thirds of the link's speed, one of 64
 * KiB an eighth (docs/results), and several are under way at once.
 */
enum { LEAST_PIECE_BYTES = 512 << 10, PAGE_BYTES = 4096, IDLE_S = 1 };

/* A thread that waits for a channel. */
struct waiter {
    pthread_cond_t is_served;
    struct cushim_copy_channel *channel;
    struct waiter *following;
};

struct cushim_copy_ring {
    struct cushim_copy_ring_setup setup;
    struct cushim_copy_ring *following; /* this and n_users: under the lock of the list */
    unsigned n_users;                   /* copies, and the thread that gives it back */
    pthread_mutex_t lock;               /* of all that follows */
    bool is_made;
    char *memory; /* [n_channels][2][buffer_bytes], pinned */
    size_t buffer_bytes;
    unsigned n_channels;
    struct cushim_copy_channel channels[CUSHIM_COPY_MAX_CHANNELS];
    struct cushim_copy_channel *free;
    struct waiter *first_waiter, **last_waiter;
    atomic_uint n_waiting; /* written under the lock, read by the thread that holds a channel */
    struct cushim_copy_job *first_job, **last_job;
    pthread_cond_t work, ended;
    unsigned n_threads; /* that live */
    bool is_closing;
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_unused = PTHREAD_COND_INITIALIZER;
static struct cushim_copy_ring *rings;

/* ---- what a ring is made of ---- */

/* Below 0: unknown. */
static int node_of_device(struct cushim_cuda *cuda) {
    CUdevice device;
    int node;
    bool is_told =
        cuda->cuDeviceGetAttribute && cuda->cuCtxGetDevice(&device) == CUDA_SUCCESS &&
        cuda->cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) == CUDA_SUCCESS;
    return is_told ? node : -1;
}

static void *allocate_near(struct cushim_cuda *cuda, size_t n_bytes) {
    void *memory = NULL;
    bool is_preferred = cushim_copy_node_prefer(node_of_device(cuda));
    CUresult answer = cuda->cuMemHostAlloc(&memory, n_bytes, 0);
    if (is_preferred)
        cushim_copy_node_leave();
    return answer == CUDA_SUCCESS ? memory : NULL;
}

/* The caller holds the lock, and the context is current. */
static void unmake(struct cushim_copy_ring *ring) {
    struct cushim_cuda *cuda = ring->setup.cuda;
    while (ring->n_channels)
        cushim_copy_channel_unmake(cuda, &ring->channels[--ring->n_channels]);
    if (ring->memory)
        cuda->cuMemFreeHost(ring->memory);
    ring->memory = NULL;
    ring->free = NULL;
    ring->is_made = false;
}

static bool has_calls(const struct cushim_cuda *cuda) {
    return cuda->cuMemHostAlloc && cuda->cuMemFreeHost && cuda->cuStreamCreate &&
           cuda->cuStreamDestroy_v2 && cuda->cuStreamSynchronize && cuda->cuMemcpyHtoDAsync_v2 &&
           cuda->cuMemcpyDtoHAsync_v2 && cuda->cuMemcpy2DAsync_v2;
}

/* The caller holds the lock, and the context is current. */
static bool make(struct cushim_copy_ring *ring) {
    unsigned n_channels = ring->setup.n_threads + 1;
    if (ring->is_made)
        return true;
    if (n_channels > CUSHIM_COPY_MAX_CHANNELS)
        n_channels = CUSHIM_COPY_MAX_CHANNELS;
    ring->buffer_bytes = ring->setup.ring_bytes / n_channels / 2 / PAGE_BYTES * PAGE_BYTES;
    if (!ring->buffer_bytes || !has_calls(ring->setup.cuda))
        return false;
    ring->memory = allocate_near(ring->setup.cuda, ring->buffer_bytes * n_channels * 2);
    if (!ring->memory)
        return false;
    for (; ring->n_channels < n_channels; ring->n_channels++) {
        struct cushim_copy_channel *channel = &ring->channels[ring->n_channels];
        if (!cushim_copy_channel_make(ring->setup.cuda, channel)) {
            unmake(ring);
            return false;
        }
        channel->buffers[0] = ring->memory + (size_t)2 * ring->n_channels * ring->buffer_bytes;
        channel->buffers[1] = channel->buffers[0] + ring->buffer_bytes;
        channel->following = ring->free;
        ring->free = channel;
    }
    return ring->is_made = true;
}

/* ---- channels and jobs, under the lock ---- */

static struct cushim_copy_channel *take_free(struct cushim_copy_ring *ring) {
    struct cushim_copy_channel *channel = ring->free;
    if (channel)
        ring->free = channel->following;
    return channel;
}

static struct cushim_copy_channel *take(struct cushim_copy_ring *ring) {
    struct waiter waiter = {.channel = take_free(ring)};
    if (waiter.channel)
        return waiter.channel;
    pthread_cond_init(&waiter.is_served, NULL);
    *ring->last_waiter = &waiter;
    ring->last_waiter = &waiter.following;
    atomic_fetch_add_explicit(&ring->n_waiting, 1, memory_order_relaxed);
    while (!waiter.channel)
        pthread_cond_wait(&waiter.is_served, &ring->lock);
    pthread_cond_destroy(&waiter.is_served);
    return waiter.channel;
}

/* Give a channel to the thread that waited longest, or back to the free ones for our threads. */
static void give(struct cushim_copy_ring *ring, struct cushim_copy_channel *channel) {
    struct waiter *waiter = ring->first_waiter;
    if (!waiter) {
        channel->following = ring->free;
        ring->free = channel;
        if (ring->first_job)
            pthread_cond_signal(&ring->work);
        return;
    }
    ring->first_waiter = waiter->following;
    if (!ring->first_waiter)
        ring->last_waiter = &ring->first_waiter;
    atomic_fetch_sub_explicit(&ring->n_waiting, 1, memory_order_relaxed);
    waiter->channel = channel;
    pthread_cond_signal(&waiter->is_served);
}

static void add_job(struct cushim_copy_ring *ring, struct cushim_copy_job *job) {
    job->following = NULL;
    *ring->last_job = job;
    ring->last_job = &job->following;
}

static void remove_job(struct cushim_copy_ring *ring, struct cushim_copy_job *job) {
    struct cushim_copy_job **link = &ring->first_job;
    while (*link != job)
        link = &(*link)->following;
    *link = job->following;
    if (ring->last_job == &job->following)
        ring->last_job = link;
}

/* The next job with a piece left; it moves behind the others. */
static struct cushim_copy_job *next_job(struct cushim_copy_ring *ring) {
    struct cushim_copy_job *job = ring->first_job;
    while (job && !cushim_copy_job_has_more(job))
        job = job->following;
    if (job) {
        remove_job(ring, job);
        add_job(ring, job);
    }
    return job;
}

/* ---- threads of ours ---- */

static void help(struct cushim_copy_ring *ring, struct cushim_copy_channel *channel,
                 struct cushim_copy_job *job) {
    CUresult answer;
    struct cushim_cuda *cuda = ring->setup.cuda;
    CUSHIM_ENTERED entered = cushim_current_context_enter(cuda, ring->setup.context, &answer);
    if (answer != CUDA_SUCCESS) {
        cushim_copy_job_fail(job, CUSHIM_COPY_REFUSED);
        return;
    }
    CUstreamCaptureMode mode = cushim_mode_relaxed(cuda);
    cushim_copy_channel_turn(cuda, channel, job, &ring->n_waiting);
    cushim_mode_back(cuda, mode);
}

/* The caller holds the lock; false: a second passed without work. */
static bool wait_for_work(struct cushim_copy_ring *ring) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += IDLE_S;
    return pthread_cond_timedwait(&ring->work, &ring->lock, &end) != ETIMEDOUT || ring->first_job;
}

static void *work(void *cookie) {
    struct cushim_copy_ring *ring = cookie;
    pthread_mutex_lock(&ring->lock);
    while (!ring->is_closing) {
        struct cushim_copy_job *job = ring->first_waiter || !ring->free ? NULL : next_job(ring);
        if (!job) {
            if (!wait_for_work(ring))
                break;
            continue;
        }
        struct cushim_copy_channel *channel = take_free(ring);
        job->n_channels++;
        pthread_mutex_unlock(&ring->lock);
        help(ring, channel, job);
        pthread_mutex_lock(&ring->lock);
        give(ring, channel);
        if (--job->n_channels == 0)
            pthread_cond_signal(&job->idle);
    }
    ring->n_threads--;
    pthread_cond_broadcast(&ring->ended);
    pthread_mutex_unlock(&ring->lock);
    return NULL;
}

static bool start_thread(struct cushim_copy_ring *ring) {
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    bool is_started = pthread_create(&thread, &attributes, work, ring) == 0;
    pthread_attr_destroy(&attributes);
    if (is_started)
        pthread_setname_np(thread, "cushim-copy"); /* it exists: it waits for the lock */
    return is_started;
}

/* The caller holds the lock.  As many threads as there are pieces beside the caller's. */
static void start_threads(struct cushim_copy_ring *ring, size_t n_pieces) {
    sigset_t all, before;
    size_t n = n_pieces - 1 < ring->setup.n_threads ? n_pieces - 1 : ring->setup.n_threads;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV); /* if the copy itself faults, the program's handler gets the signal */
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (ring->n_threads < n && start_thread(ring))
        ring->n_threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_cond_broadcast(&ring->work);
}

/* ---- a copy ---- */

CUresult cushim_copy_ring_await(struct cushim_cuda *cuda, CUstream stream, bool may_wait) {
    return may_wait ? cuda->cuStreamSynchronize(stream) : cuda->cuStreamQuery(stream);
}

static size_t piece_bytes(const struct cushim_copy_ring *ring, const struct cushim_copy_box *box) {
    size_t n_bytes = box->width_bytes * box->height * box->depth;
    size_t share = n_bytes / (2 * ring->n_channels) / PAGE_BYTES * PAGE_BYTES;
    if (share < LEAST_PIECE_BYTES)
        share = LEAST_PIECE_BYTES;
    return share < ring->buffer_bytes ? share : ring->buffer_bytes;
}

static void do_job(struct cushim_copy_ring *ring, struct cushim_copy_job *job) {
    add_job(ring, job);
    start_threads(ring, job->cut.n_pieces);
    while (cushim_copy_job_has_more(job)) {
        struct cushim_copy_channel *channel = take(ring);
        pthread_mutex_unlock(&ring->lock);
        cushim_copy_channel_turn(ring->setup.cuda, channel, job, &ring->n_waiting);
        pthread_mutex_lock(&ring->lock);
        give(ring, channel);
    }
    remove_job(ring, job);
    while (job->n_channels)
        pthread_cond_wait(&job->idle, &ring->lock);
}

enum cushim_copy_outcome cushim_copy_ring_move(struct cushim_copy_ring *ring,
                                               const struct cushim_copy_box *box) {
    struct cushim_copy_job job = {.idle = PTHREAD_COND_INITIALIZER};
    enum cushim_copy_outcome outcome = CUSHIM_COPY_NO_RING;
    int cancel = cushim_cancel_hold();
    pthread_mutex_lock(&ring->lock);
    if (make(ring)) {
        job.cut = cushim_copy_cut(box, piece_bytes(ring, box));
        do_job(ring, &job);
        outcome = (enum cushim_copy_outcome)atomic_load(&job.outcome);
    }
    pthread_mutex_unlock(&ring->lock);
    cushim_cancel_let(cancel);
    return outcome;
}

/* ---- the list ---- */

static struct cushim_copy_ring *create(const struct cushim_copy_ring_setup *setup) {
    struct cushim_copy_ring *ring = calloc(1, sizeof *ring);
    pthread_condattr_t attributes;
    if (!ring)
        return NULL;
    ring->setup = *setup;
    ring->last_waiter = &ring->first_waiter;
    ring->last_job = &ring->first_job;
    pthread_mutex_init(&ring->lock, NULL);
    pthread_cond_init(&ring->ended, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&ring->work, &attributes);
    pthread_condattr_destroy(&attributes);
    return ring;
}

/* The caller holds the lock.  Give the contents back if the context lives; returns the bytes. */
static size_t empty(struct cushim_copy_ring *ring) {
    CUresult answer;
    size_t n_bytes = 0;
    struct cushim_cuda *cuda = ring->setup.cuda;
    if (!ring->is_made)
        return 0;
    CUSHIM_ENTERED entered = cushim_current_context_enter(cuda, ring->setup.context, &answer);
    CUstreamCaptureMode mode = cushim_mode_relaxed(cuda);
    if (answer == CUDA_SUCCESS) {
        n_bytes = ring->buffer_bytes * ring->n_channels * 2;
        unmake(ring);
    }
    cushim_mode_back(cuda, mode);
    return n_bytes;
}

/* Also ends its threads. */
static void destroy(struct cushim_copy_ring *ring, bool has_context) {
    pthread_mutex_lock(&ring->lock);
    ring->is_closing = true;
    pthread_cond_broadcast(&ring->work);
    while (ring->n_threads)
        pthread_cond_wait(&ring->ended, &ring->lock);
    if (has_context)
        empty(ring);
    pthread_mutex_unlock(&ring->lock);
    pthread_mutex_destroy(&ring->lock);
    pthread_cond_destroy(&ring->ended);
    pthread_cond_destroy(&ring->work);
    free(ring);
}

/* The caller holds the lock of the list. */
static struct cushim_copy_ring **link_of(CUcontext context) {
    struct cushim_copy_ring **link = &rings;
    while (*link && (*link)->setup.context != context)
        link = &(*link)->following;
    return link;
}

struct cushim_copy_ring *cushim_copy_ring_obtain(const struct cushim_copy_ring_setup *setup) {
    CUSHIM_LOCKED(&list_lock);
    struct cushim_copy_ring *ring = *link_of(setup->context);
    if (!ring && (ring = create(setup))) {
        ring->following = rings;
        rings = ring;
    }
    if (ring)
        ring->n_users++;
    return ring;
}

void cushim_copy_ring_release(struct cushim_copy_ring *ring) {
    CUSHIM_LOCKED(&list_lock);
    if (--ring->n_users == 0)
        pthread_cond_broadcast(&is_unused);
}

void cushim_copy_ring_leave(CUcontext context) {
    struct cushim_copy_ring **link, *ring;
    int cancel = cushim_cancel_hold();
    pthread_mutex_lock(&list_lock);
    while (*(link = link_of(context)) && (*link)->n_users)
        pthread_cond_wait(&is_unused, &list_lock);
    ring = *link;
    if (ring)
        *link = ring->following;
    pthread_mutex_unlock(&list_lock);
    if (ring)
        destroy(ring, true);
    cushim_cancel_let(cancel);
}

void cushim_copy_rings_forget(void) {
    int cancel = cushim_cancel_hold();
    pthread_mutex_lock(&list_lock);
    struct cushim_copy_ring *ring = rings;
    rings = NULL;
    pthread_mutex_unlock(&list_lock);
    for (struct cushim_copy_ring *next; ring; ring = next) {
        next = ring->following;
        destroy(ring, false);
    }
    cushim_cancel_let(cancel);
}

/* Under the lock of the list: a ring that no copy uses and that has memory, which only users
 * change.
 */
static struct cushim_copy_ring *first_unused(void) {
    struct cushim_copy_ring *ring = rings;
    while (ring && (ring->n_users || !ring->is_made))
        ring = ring->following;
    return ring;
}

size_t cushim_copy_rings_give_back(void) {
    size_t n_bytes = 0, n_now;
    struct cushim_copy_ring *ring;
    do {
        pthread_mutex_lock(&list_lock);
        ring = first_unused();
        if (ring)
            ring->n_users++;
        pthread_mutex_unlock(&list_lock);
        if (!ring)
            return n_bytes;
        n_now = CUSHIM_UNDER(&ring->lock, empty(ring));
        cushim_copy_ring_release(ring);
        n_bytes += n_now;
    } while (n_now);
    return n_bytes;
}
