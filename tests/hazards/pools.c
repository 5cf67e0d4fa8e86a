/*
 * Blocks of a companion pool are freed as soon as their work is queued, by many threads on many
 * streams, and allocated again at once. A pool fails if it gives a block to a stream whose work may
 * run before that of the stream it was freed on.
 *
 *   pools [--seed FIRST] [--seeds N] [--threads N] [--streams N] [--rounds N] [--size BYTES]
 *         [--verbose]
 *
 * It works as torture.c and prints the same line; built with CARELESS every fence reports that it
 * is complete.
 */
#include "work.h"

#include <pthread.h>
#include <stdbool.h>

#include "cushim/cushim.h"

enum { MOST_THREADS = 8, MOST_STREAMS = 8, N_SLOTS = 8 };

/* Work is launched on one handle, blocks belong to the other. */
struct stream {
    cudaStream_t cuda;
    struct cushim_stream *cushim;
};

struct block {
    unsigned *words;
    size_t n;
    unsigned tag;
    cudaEvent_t is_filled; /* the bytes of a parcel */
};

static struct {
    unsigned n_threads, n_streams, n_rounds;
    size_t most_words;
    struct cushim_pool *pool;
    struct stream streams[MOST_STREAMS];
    unsigned *n_wrong; /* device memory: wrong words that kernels found */
    pthread_mutex_t lock;
    struct block slots[N_SLOTS]; /* under the lock: blocks that no thread has */
    int n_blocks, n_refused;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct worker {
    pthread_t thread;
    unsigned long long state;
};

#ifdef CARELESS
struct cushim_mem_stream_fence;
bool __wrap_cushim_mem_stream_fence_is_complete(struct cushim_mem_stream_fence *mark);

bool __wrap_cushim_mem_stream_fence_is_complete(struct cushim_mem_stream_fence *mark) {
    (void)mark;
    return true;
}
#endif

static unsigned draw(struct worker *worker, unsigned n) {
    return (unsigned)(program_random(&worker->state) % n);
}

static const struct stream *draw_stream(struct worker *worker) {
    return &world.streams[draw(worker, world.n_streams)];
}

static void linger(struct worker *worker, const struct stream *stream) {
    unsigned n = draw(worker, 3) ? 0 : draw(worker, 40);
    if (n)
        TRY(LAUNCH(linger, 1, 1, stream->cuda, n));
}

/* Allocate a block of any size and queue its fill; false if memory is out. */
static bool take(struct worker *worker, const struct stream *stream, struct block *block) {
    size_t most = world.most_words >> draw(worker, 12);
    cushim_devptr address = 0;
    *block = (struct block){.n = most < 2 ? 1 : 1 + draw(worker, (unsigned)most),
                            .tag = draw(worker, 1u << 30)};
    enum cushim_status status = cushim_pool_alloc(
        world.pool, 0, CUSHIM_MEMORY_DEVICE, block->n * sizeof(unsigned), stream->cushim, &address);
    if (status == CUSHIM_NOMEM) {
        program_add(&world.n_refused, 1);
        return false;
    }
    MUST(status == CUSHIM_OK);
    program_add(&world.n_blocks, 1);
    block->words = (unsigned *)(uintptr_t)address;
    linger(worker, stream);
    work_fill(block->words, block->n, block->tag, stream->cuda);
    return true;
}

static void check(const struct block *block, const struct stream *stream) {
    work_check(block->words, block->n, block->tag, world.n_wrong, stream->cuda);
}

static void give(const struct block *block, struct cushim_stream *stream) {
    MUST(cushim_pool_free(world.pool, -1, (uintptr_t)block->words, 0, stream) == CUSHIM_OK);
}

/* Order later work of `later` after the work on `earlier`. */
static cudaEvent_t record(const struct stream *earlier) {
    cudaEvent_t event;
    TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    TRY(cudaEventRecord(event, earlier->cuda));
    return event;
}

static void order(cudaEvent_t event, const struct stream *later) {
    TRY(cudaStreamWaitEvent(later->cuda, event, 0));
    TRY(cudaEventDestroy(event));
}

/* ---- the actions of a thread on a block ---- */

static void fill_check_free(struct worker *worker) {
    const struct stream *stream = draw_stream(worker);
    struct block block;
    if (!take(worker, stream, &block))
        return;
    linger(worker, stream);
    check(&block, stream);
    give(&block, stream->cushim);
}

static void pass_over_event(struct worker *worker) {
    const struct stream *first = draw_stream(worker), *second = draw_stream(worker);
    struct block block;
    if (!take(worker, first, &block))
        return;
    order(record(first), second);
    linger(worker, second);
    check(&block, second);
    give(&block, second->cushim);
}

static void free_behind_all(struct worker *worker) {
    const struct stream *stream = draw_stream(worker);
    struct block block;
    if (!take(worker, stream, &block))
        return;
    check(&block, stream);
    give(&block, CUSHIM_STREAM_ALL);
}

/* A stream that is destroyed before its work is done. */
static void use_own_stream(struct worker *worker) {
    struct stream stream;
    struct block block;
    MUST(cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &stream.cushim) ==
         CUSHIM_OK);
    MUST(cushim_stream_handle(stream.cushim, (struct CUstream_st **)&stream.cuda) == CUSHIM_OK);
    if (take(worker, &stream, &block)) {
        linger(worker, &stream);
        check(&block, &stream);
        give(&block, stream.cushim);
    }
    MUST(cushim_stream_destroy(stream.cushim) == CUSHIM_OK);
}

static void finish_parcel(struct worker *worker, const struct block *parcel) {
    const struct stream *stream = draw_stream(worker);
    if (!parcel->words)
        return;
    order(parcel->is_filled, stream);
    check(parcel, stream);
    give(parcel, stream->cushim);
}

/* It stays in a slot until a thread takes it. */
static void send_parcel(struct worker *worker) {
    const struct stream *stream = draw_stream(worker);
    struct block parcel, old, *slot = &world.slots[draw(worker, N_SLOTS)];
    if (take(worker, stream, &parcel))
        parcel.is_filled = record(stream);
    pthread_mutex_lock(&world.lock);
    old = *slot;
    *slot = parcel;
    pthread_mutex_unlock(&world.lock);
    finish_parcel(worker, &old);
}

static void trim(struct worker *worker) {
    MUST(cushim_pool_trim(world.pool, -1, draw(worker, 2) ? 0 : 1 << 20) == CUSHIM_OK);
}

static void (*const acts[])(struct worker *) = {
    fill_check_free, fill_check_free, fill_check_free, pass_over_event, pass_over_event,
    free_behind_all, use_own_stream,  send_parcel,     send_parcel,     trim};

static void *work(void *data) {
    struct worker *worker = data;
    for (unsigned round = 0; round < world.n_rounds; round++)
        acts[draw(worker, sizeof acts / sizeof *acts)](worker);
    return NULL;
}

/* ---- a seed ---- */

static unsigned run_workers(unsigned long long seed) {
    static struct worker workers[MOST_THREADS];
    unsigned n_wrong = 0;
    for (unsigned i = 0; i < world.n_threads; i++) {
        workers[i].state = seed * MOST_THREADS + i;
        MUST(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (unsigned i = 0; i < world.n_threads; i++)
        MUST(pthread_join(workers[i].thread, NULL) == 0);
    for (unsigned i = 0; i < N_SLOTS; i++) {
        finish_parcel(&workers[0], &world.slots[i]);
        world.slots[i].words = NULL;
    }
    TRY(cudaDeviceSynchronize());
    TRY(cudaMemcpy(&n_wrong, world.n_wrong, sizeof n_wrong, cudaMemcpyDeviceToHost));
    TRY(cudaMemset(world.n_wrong, 0, sizeof n_wrong));
    TRY(cudaDeviceSynchronize()); /* because not all streams of the next seed wait for the set */
    return n_wrong;
}

static void make_streams(void) {
    for (int i = 0; i < MOST_STREAMS; i++) {
        struct stream *stream = &world.streams[i];
        int kind = i % N_STREAM_KINDS;
        stream->cuda = stream_create(kind);
        if (kind == STREAM_LEGACY)
            stream->cushim = NULL;
        else if (kind == STREAM_PER_THREAD)
            stream->cushim = CUSHIM_STREAM_PER_THREAD;
        else
            MUST(cushim_stream_wrap(NULL, (struct CUstream_st *)stream->cuda, &stream->cushim) ==
                 CUSHIM_OK);
    }
}

int main(int argc, char **argv) {
    unsigned long long seed = program_option(argc, argv, "--seed", 1), n_bad = 0, n_words = 0;
    unsigned long long n_seeds = program_option(argc, argv, "--seeds", 1);
    work_prepare();
    TRY(cudaMalloc((void **)&world.n_wrong, sizeof *world.n_wrong));
    TRY(cudaMemset(world.n_wrong, 0, sizeof *world.n_wrong));
    make_streams();
    for (unsigned long long i = 0; i < n_seeds; i++, seed++) {
        unsigned long long state = seed;
        world.n_threads = program_drawn(argc, argv, "--threads", &state, 1, MOST_THREADS);
        world.n_streams = program_drawn(argc, argv, "--streams", &state, 1, MOST_STREAMS);
        world.n_rounds = 1 + (unsigned)program_option(argc, argv, "--rounds", 96) / world.n_threads;
        world.most_words = program_option(argc, argv, "--size", 1 << 17) / sizeof(unsigned);
        MUST(world.n_threads >= 1 && world.n_threads <= MOST_THREADS);
        MUST(world.n_streams >= 1 && world.n_streams <= MOST_STREAMS);
        MUST(cushim_pool_create(NULL, &world.pool) == CUSHIM_OK);
        device_seed((unsigned long)seed);
        unsigned n_wrong = run_workers(seed);
        MUST(cushim_pool_destroy(world.pool) == CUSHIM_OK);
        n_words += n_wrong;
        n_bad += n_wrong > 0;
    }
    printf("torture: %llu of %llu seeds bad, %llu words wrong, 0 read wrong\n", n_bad, n_seeds,
           n_words);
    if (program_flag(argc, argv, "--verbose"))
        printf("torture: %d blocks, %d refused\n", world.n_blocks, world.n_refused);
    return n_bad != 0;
}
