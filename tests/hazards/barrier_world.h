/*
 * The objects that the rows of barrier.c use: streams and memory of every kind, a second thread, a
 * second process. Only the main thread writes this.
 */
#pragma once

#include "gatekeeper.h"

#include <sys/wait.h>
#include <unistd.h>

/* IPC_BYTES: large enough for a separate driver allocation. */
enum { N_WORDS = 1 << 12, N_BYTES = N_WORDS * 4, LARGE_BYTES = 5 << 20, IPC_BYTES = 4 << 20 };

enum answer { RIGHT, WRONG, ABSENT };

/* The queue of work: a kind of stream, or the per-thread stream of the second thread. */
enum { PLACE_OTHER_THREAD = N_STREAM_KINDS, N_PLACES };

static const char *const places[] = {"legacy", "per_thread", "blocking", "non_blocking",
                                     "per_thread_of_another"};

struct partner {
    pid_t process;
    int to, from;
};

struct world {
    cudaStream_t streams[N_STREAM_KINDS], more_streams[N_STREAM_KINDS];
    unsigned *device, *pinned, *host; /* N_WORDS each; host: pageable */
    unsigned *shared;                 /* device memory that the partner has open, or NULL */
    struct partner partner;
};

static struct world world;

struct row {
    const char *name, *leans_on;
    enum answer (*try_it)(struct world *world, cudaStream_t stream, unsigned tag);
};

/* ---- the second thread, which does one job at a time ---- */

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*run)(void *data); /* this and the next two are under the lock */
    void *data;
    int is_over;
} second = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *second_run(void *unused) {
    pthread_mutex_lock(&second.lock);
    while (!second.is_over) {
        if (second.run) {
            second.run(second.data);
            second.run = NULL;
            pthread_cond_broadcast(&second.changed);
        }
        pthread_cond_wait(&second.changed, &second.lock);
    }
    pthread_mutex_unlock(&second.lock);
    return unused;
}

static void in_second_thread(void (*run)(void *data), void *data) {
    pthread_mutex_lock(&second.lock);
    second.run = run;
    second.data = data;
    pthread_cond_broadcast(&second.changed);
    while (second.run)
        pthread_cond_wait(&second.changed, &second.lock);
    pthread_mutex_unlock(&second.lock);
}

/* ---- the partner: a process that opens a handle and reports whether it sees a tag ---- */

static void partner_serve(int from, int to) {
    cudaIpcMemHandle_t handle;
    unsigned *shared = NULL, tag;
    unsigned *host = (unsigned *)program_allocate(N_BYTES);
    if (read(from, &handle, sizeof handle) != (ssize_t)sizeof handle)
        return; /* nothing can be shared */
    TRY(cudaIpcOpenMemHandle((void **)&shared, handle, cudaIpcMemLazyEnablePeerAccess));
    while (read(from, &tag, sizeof tag) == (ssize_t)sizeof tag) {
        TRY(cudaMemcpy(host, shared, N_BYTES, cudaMemcpyDeviceToHost));
        unsigned n_wrong = host_check(host, N_WORDS, tag);
        MUST(write(to, &n_wrong, sizeof n_wrong) == (ssize_t)sizeof n_wrong);
    }
    TRY(cudaIpcCloseMemHandle(shared));
}

/* Call it before the first CUDA call of this process. */
static struct partner partner_create(void) {
    int there[2], back[2];
    struct partner partner;
    MUST(pipe(there) == 0 && pipe(back) == 0);
    partner.process = fork();
    MUST(partner.process >= 0);
    if (partner.process == 0) {
        close(there[1]);
        close(back[0]);
        partner_serve(there[0], back[1]);
        _Exit(0);
    }
    close(there[0]);
    close(back[1]);
    partner.to = there[1];
    partner.from = back[0];
    return partner;
}

static unsigned partner_ask(const struct partner *partner, unsigned tag) {
    unsigned n_wrong = 0;
    MUST(write(partner->to, &tag, sizeof tag) == (ssize_t)sizeof tag);
    MUST(read(partner->from, &n_wrong, sizeof n_wrong) == (ssize_t)sizeof n_wrong);
    return n_wrong;
}

static void partner_open(struct world *w) {
    cudaIpcMemHandle_t handle;
    TRY(cudaMalloc((void **)&w->shared, IPC_BYTES));
    if (cudaIpcGetMemHandle(&handle, w->shared) == cudaSuccess) {
        MUST(write(w->partner.to, &handle, sizeof handle) == (ssize_t)sizeof handle);
        return;
    }
    cudaGetLastError();
    TRY(cudaFree(w->shared));
    w->shared = NULL;
}

static void partner_destroy(const struct partner *partner) {
    int status = 1;
    close(partner->to);
    MUST(waitpid(partner->process, &status, 0) == partner->process);
    MUST(status == 0);
}

/* ---- the whole world ---- */

static void world_create(unsigned patience_ms) {
    work_prepare();
    world.partner = partner_create();
    for (int kind = 0; kind < N_STREAM_KINDS; kind++) {
        world.streams[kind] = stream_create(kind);
        world.more_streams[kind] = stream_create(kind);
    }
    TRY(cudaMalloc((void **)&world.device, N_BYTES));
    TRY(cudaMallocHost((void **)&world.pinned, N_BYTES));
    world.host = (unsigned *)program_allocate(N_BYTES);
    gatekeeper_create(patience_ms);
    partner_open(&world);
    MUST(pthread_create(&second.thread, NULL, second_run, NULL) == 0);
}

/* The context may be damaged, so its memory is left to the end of the process. */
static void world_destroy(void) {
    gatekeeper_destroy();
    pthread_mutex_lock(&second.lock);
    second.is_over = 1;
    pthread_cond_broadcast(&second.changed);
    pthread_mutex_unlock(&second.lock);
    MUST(pthread_join(second.thread, NULL) == 0);
    partner_destroy(&world.partner);
}

static enum answer wrong_if(int is_wrong) {
    return is_wrong ? WRONG : RIGHT;
}

static void *allocate(size_t n_bytes) {
    void *block;
    TRY(cudaMalloc(&block, n_bytes));
    return block;
}

/* Between two tries a free waits for the visible effects of this try, so that the next try's frees
 * need not. */
static void settle(void) {
    release_gate();
    TRY(cudaDeviceSynchronize());
    TRY(cudaFree(allocate(1000)));
    TRY(cudaGetLastError());
}
