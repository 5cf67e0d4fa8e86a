/*
 * Memory is freed as soon as its work is queued, by many threads on many streams, and allocated
 * again at once.  That is legal by cudaFree's rules, and fails under a pool that reuses memory too
 * early.
 *
 *   torture [--seed FIRST] [--seeds N] [--seconds S] [--threads N] [--streams N] [--rounds N]
 *           [--size BYTES] [--spin 0|1|2] [--capture 0|1] [--no-effects]
 *           [--no-mixed-frees] [--verbose]
 *
 * Every seed chooses threads (1 to 16), streams (1 to 16, of the four kinds), sizes, whether a
 * kernel that waits for the host runs almost all the time, and whether another thread has a capture
 * open; an option fixes its choice.  The program counts words that differ from what their owner
 * wrote, as kernels see them and as the host sees them after a free.  The exit status is 1 if there
 * are any.
 *
 * With --no-effects no work has effects that the host can see, so a `relaxed` free never waits.
 * Then --spin 2 is possible, a kernel that ends after the threads; without cushim it would
 * deadlock.
 */
#include "work.h"

#include <pthread.h>
#include <stdbool.h>

enum { SPIN_NOT, SPIN_OFTEN, SPIN_ALWAYS };
enum { MOST_THREADS = 16, MOST_STREAMS = 16, N_SLOTS = 8 };

struct settings {
    unsigned n_threads, n_streams, n_rounds;
    int has_no_mixed_frees;
    size_t most_words;
    int spin, has_capture;
    int may_wait_for;
};

/* A block that no thread has: the thread that takes it checks and frees it. */
struct parcel {
    unsigned *words;
    size_t n;
    unsigned tag;
    cudaEvent_t is_filled;
};

static struct {
    struct settings settings;
    cudaStream_t streams[MOST_STREAMS];
    unsigned *n_wrong; /* device memory: wrong words that kernels found */
    unsigned *is_open; /* the spinner's gate */
    pthread_mutex_t lock;
    struct parcel slots[N_SLOTS]; /* under the lock */
    int is_over, n_host_wrong, n_refused, n_blocks;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct worker {
    pthread_t thread;
    unsigned long long state;
    unsigned *pinned; /* one word */
};

static unsigned draw(struct worker *worker, unsigned n) {
    return (unsigned)(program_random(&worker->state) % n);
}

static cudaStream_t draw_stream(struct worker *worker) {
    return world.streams[draw(worker, world.settings.n_streams)];
}

/* Small sizes are as frequent as large ones. */
static size_t draw_words(struct worker *worker) {
    size_t most = world.settings.most_words >> draw(worker, 12);
    return most < 2 ? 1 : 1 + draw(worker, (unsigned)most);
}

/* Out of memory is a valid result, because the live blocks may exceed the device. */
static unsigned *allocate(size_t n) {
    void *words = NULL;
    cudaError_t error = cudaMalloc(&words, n * sizeof(unsigned));
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        program_add(&world.n_refused, 1);
        return NULL;
    }
    TRY(error);
    program_add(&world.n_blocks, 1);
    return (unsigned *)words;
}

static void linger(struct worker *worker, cudaStream_t stream) {
    unsigned n = draw(worker, 3) ? 0 : draw(worker, 40);
    if (n)
        TRY(LAUNCH(linger, 1, 1, stream, n));
}

static cudaEvent_t record(cudaStream_t stream) {
    cudaEvent_t event;
    TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    TRY(cudaEventRecord(event, stream));
    return event;
}

/* Order later work of `later` after the work of `earlier`. */
static void order(cudaStream_t earlier, cudaStream_t later) {
    cudaEvent_t event = record(earlier);
    TRY(cudaStreamWaitEvent(later, event, 0));
    TRY(cudaEventDestroy(event));
}

/* ---- the actions of a thread on a block ---- */

struct filled {
    unsigned *words, tag;
    size_t n;
};

/* Allocate a block of any size and queue its fill; false if memory is out. */
static bool allocate_filled(struct worker *worker, cudaStream_t stream, struct filled *block) {
    block->n = draw_words(worker);
    block->tag = draw(worker, 1u << 30);
    block->words = allocate(block->n);
    if (!block->words)
        return false;
    linger(worker, stream);
    work_fill(block->words, block->n, block->tag, stream);
    return true;
}

static void check(const struct filled *block, cudaStream_t stream) {
    work_check(block->words, block->n, block->tag, world.n_wrong, stream);
}

static void fill_check_free(struct worker *worker) {
    cudaStream_t stream = draw_stream(worker);
    struct filled block;
    if (!allocate_filled(worker, stream, &block))
        return;
    linger(worker, stream);
    check(&block, stream);
    TRY(cudaFree(block.words));
}

/* The free is a barrier: the copied bytes have arrived, and the source may be freed. */
static void read_behind_free(struct worker *worker) {
    cudaStream_t stream = draw_stream(worker);
    struct filled block;
    if (!allocate_filled(worker, stream, &block))
        return;
    TRY(cudaMemcpyAsync(worker->pinned, block.words + block.n - 1, sizeof *block.words,
                        cudaMemcpyDeviceToHost, stream));
    TRY(cudaFree(block.words));
    unsigned seen = *(volatile unsigned *)worker->pinned;
    program_add(&world.n_host_wrong, seen != block.tag + (unsigned)(block.n - 1));
}

static void write_behind_free(struct worker *worker) {
    cudaStream_t stream = draw_stream(worker);
    unsigned tag = draw(worker, 1u << 30), *words = allocate(1), *other = allocate(1);
    if (words && other) { /* a free of NULL is no barrier */
        *(volatile unsigned *)worker->pinned = tag;
        linger(worker, stream);
        TRY(cudaMemcpyAsync(words, worker->pinned, sizeof *words, cudaMemcpyHostToDevice, stream));
        TRY(cudaFree(other));
        other = NULL;
        *(volatile unsigned *)worker->pinned = ~tag;
        work_check(words, 1, tag, world.n_wrong, stream);
    }
    TRY(cudaFree(words));
    TRY(cudaFree(other));
}

static void pass_over_event(struct worker *worker) {
    cudaStream_t first = draw_stream(worker), second = draw_stream(worker);
    struct filled block;
    if (!allocate_filled(worker, first, &block))
        return;
    order(first, second);
    linger(worker, second);
    check(&block, second);
    TRY(cudaFree(block.words));
}

static void copy_between_blocks(struct worker *worker) {
    cudaStream_t stream = draw_stream(worker);
    size_t n = draw_words(worker);
    unsigned tag = draw(worker, 1u << 30), *from = allocate(n), *to = allocate(n);
    if (from && to) {
        work_fill(from, n, tag, stream);
        linger(worker, stream);
        TRY(cudaMemcpyAsync(to, from, n * sizeof *to, cudaMemcpyDeviceToDevice, stream));
        TRY(cudaFree(from));
        from = NULL;
        work_check(to, n, tag, world.n_wrong, stream);
    }
    TRY(cudaFree(from));
    TRY(cudaFree(to));
}

/*
 * cudaFreeAsync frees memory of cudaMalloc. Without cushim such threads sometimes deadlock with
 * other threads that free (driver 580.159), hence --no-mixed-frees.
 */
static void free_in_stream_order(struct worker *worker) {
    cudaStream_t stream = draw_stream(worker);
    struct filled block;
    if (!allocate_filled(worker, stream, &block))
        return;
    check(&block, stream);
    if (world.settings.has_no_mixed_frees)
        TRY(cudaFree(block.words));
    else
        TRY(cudaFreeAsync(block.words, stream));
}

/* Captured work uses the block, which is freed when a launch of it is queued. */
static void free_behind_graph(struct worker *worker) {
    cudaStream_t stream = draw_stream(worker), captured;
    size_t n = draw_words(worker);
    unsigned tag = draw(worker, 1u << 30), *words = allocate(n);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    if (!words)
        return;
    TRY(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
    TRY(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal));
    work_fill(words, n, tag, captured);
    work_check(words, n, tag, world.n_wrong, captured);
    TRY(cudaStreamEndCapture(captured, &graph));
    TRY(cudaGraphInstantiate(&executable, graph, 0));
    linger(worker, stream);
    TRY(cudaGraphLaunch(executable, stream));
    TRY(cudaFree(words));
    TRY(cudaGraphExecDestroy(executable));
    TRY(cudaGraphDestroy(graph));
    TRY(cudaStreamDestroy(captured));
}

/* Pinned memory is freed while a kernel writes it, and allocated again: now the host owns it. */
static void reuse_pinned(struct worker *worker) {
    enum { N = 64 };
    cudaStream_t stream = draw_stream(worker);
    unsigned tag = draw(worker, 1u << 30), *first, *second;
    TRY(cudaMallocHost((void **)&first, N * sizeof *first));
    linger(worker, stream);
    work_fill(first, N, ~tag, stream);
    TRY(cudaFreeHost(first));
    TRY(cudaMallocHost((void **)&second, N * sizeof *second));
    host_fill(second, N, tag);
    work_check(second, N, tag, world.n_wrong, draw_stream(worker));
    TRY(cudaFreeHost(second));
}

static void finish_parcel(struct worker *worker, const struct parcel *parcel) {
    cudaStream_t stream = draw_stream(worker);
    if (!parcel->words)
        return;
    TRY(cudaStreamWaitEvent(stream, parcel->is_filled, 0));
    TRY(cudaEventDestroy(parcel->is_filled));
    work_check(parcel->words, parcel->n, parcel->tag, world.n_wrong, stream);
    TRY(cudaFree(parcel->words));
}

/* It stays in a slot until a thread takes it. */
static void send_parcel(struct worker *worker) {
    cudaStream_t stream = draw_stream(worker);
    struct parcel parcel, old, *slot = &world.slots[draw(worker, N_SLOTS)];
    parcel.n = draw_words(worker);
    parcel.tag = draw(worker, 1u << 30);
    parcel.words = allocate(parcel.n);
    parcel.is_filled = NULL;
    if (parcel.words) {
        linger(worker, stream);
        work_fill(parcel.words, parcel.n, parcel.tag, stream);
        parcel.is_filled = record(stream);
    }
    pthread_mutex_lock(&world.lock);
    old = *slot;
    *slot = parcel;
    pthread_mutex_unlock(&world.lock);
    finish_parcel(worker, &old);
}

/* The reasons for which its frees may wait in `relaxed`: effects that the host can see, or the
 * driver. */
enum { NOTHING, SOMETHING };

static const struct {
    void (*act)(struct worker *);
    unsigned weight;
    int waits_for;
} acts[] = {
    {fill_check_free, 8, NOTHING},     {read_behind_free, 3, SOMETHING},
    {write_behind_free, 2, SOMETHING}, {pass_over_event, 4, NOTHING},
    {copy_between_blocks, 3, NOTHING}, {free_in_stream_order, 2, NOTHING},
    {free_behind_graph, 1, SOMETHING}, {reuse_pinned, 1, SOMETHING},
    {send_parcel, 6, NOTHING},
};
enum { N_ACTS = sizeof acts / sizeof *acts };

static void act(struct worker *worker) {
    unsigned sum = 0, at = 0;
    for (unsigned i = 0; i < N_ACTS; i++)
        sum += acts[i].weight;
    unsigned chosen = draw(worker, sum);
    while (chosen >= acts[at].weight)
        chosen -= acts[at++].weight;
    if (acts[at].waits_for <= world.settings.may_wait_for)
        acts[at].act(worker);
}

/* ---- threads ---- */

static void nap(unsigned us) {
    struct timespec pause = {0, us * 1000};
    nanosleep(&pause, NULL);
}

static void *work(void *data) {
    struct worker *worker = (struct worker *)data;
    for (unsigned round = 0; round < world.settings.n_rounds; round++)
        act(worker);
    return NULL;
}

/* Almost always a kernel waits for the host. Without cushim frees wait for it, and no other call
 * does. */
static void *spin(void *unused) {
    cudaStream_t stream = stream_create(STREAM_NON_BLOCKING);
    while (!program_load(&world.is_over)) {
        gate_set(world.is_open, 0);
        TRY(LAUNCH(gate, 1, 1, stream, world.is_open));
        do
            nap(300);
        while (world.settings.spin == SPIN_ALWAYS && !program_load(&world.is_over));
        gate_set(world.is_open, 1);
        TRY(cudaStreamSynchronize(stream));
    }
    TRY(cudaStreamDestroy(stream));
    return unused;
}

/* Almost always a capture is open, and it must stay valid whatever other threads do. */
static void *capture(void *unused) {
    cudaStream_t stream = stream_create(STREAM_NON_BLOCKING);
    while (!program_load(&world.is_over)) {
        cudaGraph_t graph;
        TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        TRY(LAUNCH(linger, 1, 1, stream, 1));
        nap(300);
        TRY(LAUNCH(linger, 1, 1, stream, 1));
        TRY(cudaStreamEndCapture(stream, &graph));
        TRY(cudaGraphDestroy(graph));
    }
    TRY(cudaStreamDestroy(stream));
    return unused;
}

static void begin(pthread_t *thread, void *(*run)(void *), void *data) {
    MUST(pthread_create(thread, NULL, run, data) == 0);
}

static void end(pthread_t thread) {
    MUST(pthread_join(thread, NULL) == 0);
}

/* ---- a seed ---- */

static unsigned long long run_workers(unsigned long long seed) {
    static struct worker workers[MOST_THREADS];
    const struct settings *settings = &world.settings;
    pthread_t spinner, capturer;
    __atomic_store_n(&world.is_over, 0, __ATOMIC_SEQ_CST);
    if (settings->spin != SPIN_NOT)
        begin(&spinner, spin, NULL);
    if (settings->has_capture)
        begin(&capturer, capture, NULL);
    for (unsigned i = 0; i < settings->n_threads; i++) {
        workers[i].state = seed * MOST_THREADS + i;
        if (!workers[i].pinned)
            TRY(cudaMallocHost((void **)&workers[i].pinned, sizeof(unsigned)));
        begin(&workers[i].thread, work, &workers[i]);
    }
    for (unsigned i = 0; i < settings->n_threads; i++)
        end(workers[i].thread);
    program_add(&world.is_over, 1);
    if (settings->spin != SPIN_NOT)
        end(spinner);
    if (settings->has_capture)
        end(capturer);
    for (unsigned i = 0; i < N_SLOTS; i++) {
        finish_parcel(&workers[0], &world.slots[i]);
        world.slots[i].words = NULL;
    }
    unsigned n_wrong = 0;
    TRY(cudaDeviceSynchronize());
    TRY(cudaMemcpy(&n_wrong, world.n_wrong, sizeof n_wrong, cudaMemcpyDeviceToHost));
    TRY(cudaMemset(world.n_wrong, 0, sizeof n_wrong));
    TRY(cudaDeviceSynchronize()); /* because not all streams of the next seed wait for the set */
    return n_wrong;
}

static struct settings settle(int argc, char **argv, unsigned long long seed) {
    unsigned long long state = seed;
    struct settings settings;
    settings.n_threads = program_drawn(argc, argv, "--threads", &state, 1, MOST_THREADS);
    settings.n_streams = program_drawn(argc, argv, "--streams", &state, 1, MOST_STREAMS);
    settings.spin = (int)program_drawn(argc, argv, "--spin", &state, 0, 1);
    settings.has_capture = (int)program_drawn(argc, argv, "--capture", &state, 0, 1);
    settings.may_wait_for = program_flag(argc, argv, "--no-effects") ? NOTHING : SOMETHING;
    settings.has_no_mixed_frees = program_flag(argc, argv, "--no-mixed-frees");
    settings.n_rounds =
        1 + (unsigned)program_option(argc, argv, "--rounds", 96) / settings.n_threads;
    settings.most_words = program_option(argc, argv, "--size", 1 << 17) / sizeof(unsigned);
    MUST(settings.n_threads >= 1 && settings.n_threads <= MOST_THREADS);
    MUST(settings.n_streams >= 1 && settings.n_streams <= MOST_STREAMS);
    return settings;
}

int main(int argc, char **argv) {
    unsigned long long seed = program_option(argc, argv, "--seed", 1);
    unsigned long long n_seeds = program_option(argc, argv, "--seeds", 1);
    double seconds = (double)program_option(argc, argv, "--seconds", 0), start = program_seconds();
    unsigned long long n_done = 0, n_device_wrong = 0, n_bad_seeds = 0, n_host_before = 0;
    unsigned long long n_device_seeded = 0;
    work_prepare();
    for (int i = 0; i < MOST_STREAMS; i++)
        world.streams[i] = stream_create(i % N_STREAM_KINDS);
    TRY(cudaMalloc((void **)&world.n_wrong, sizeof *world.n_wrong));
    TRY(cudaMemset(world.n_wrong, 0, sizeof *world.n_wrong));
    TRY(cudaFree(allocate(1))); /* the first free of a context waits in `relaxed` too */
    world.is_open = gate_create();
    for (; seconds > 0 ? program_seconds() - start < seconds : n_done < n_seeds; n_done++, seed++) {
        world.settings = settle(argc, argv, seed);
        n_device_seeded += (unsigned long long)device_seed((unsigned long)seed);
        unsigned long long n_wrong = run_workers(seed);
        unsigned long long n_host = (unsigned long long)world.n_host_wrong - n_host_before;
        n_host_before += n_host;
        n_device_wrong += n_wrong;
        n_bad_seeds += n_wrong + n_host > 0;
        if (n_wrong + n_host > 0 && program_flag(argc, argv, "--verbose"))
            printf(
                "torture: seed %llu: %u threads, %u streams: %llu words wrong, %llu read wrong\n",
                seed, world.settings.n_threads, world.settings.n_streams, n_wrong, n_host);
    }
    printf("torture: %llu of %llu seeds bad, %llu words wrong, %d read wrong\n", n_bad_seeds,
           n_done, n_device_wrong, world.n_host_wrong);
    if (program_flag(argc, argv, "--verbose"))
        printf("torture: %d blocks, %d refused, device seeded %llu times\n", world.n_blocks,
               world.n_refused, n_device_seeded);
    return n_bad_seeds != 0;
}
