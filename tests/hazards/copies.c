/*
 * Copies between pageable memory and the device after unfinished work, from many threads, on
 * streams of all kinds.  They are legal by the rules of the copy, but fail if a copy moves bytes
 * before its stream reaches it, or returns before they arrive.
 *
 *   copies [--seed FIRST] [--seeds N] [--threads N] [--rounds N] [--fail 0|1] [--capture 0|1]
 *          [--linger N] [--verbose]
 *
 * Every seed chooses the number of threads (1 to 16), whether another thread has a capture open,
 * and, with a single thread, whether driver calls of a copy fail.  The work before a copy lingers
 * for less than N (30): turns of the software device, microseconds of a GPU.  Sizes are near those
 * from which copies are staged and cut (LEAST, PIECE), at any offset, as lines, rows, boxes and
 * batches.  The program counts wrong words at both ends.  The exit status is 1 if there are any.
 */
#include "work.h"

#include <pthread.h>
#include <stdbool.h>

enum { MOST_THREADS = 16, LEAST = 64 << 10, PIECE = 512 << 10, MOST_SHIFT = 64 };
enum { WORD = sizeof(unsigned), MOST_WORDS = (2 * PIECE + LEAST) / WORD };

/* A box at both ends, in words: `first` words before it, and the distances of rows and slices. */
struct box {
    size_t first, width, height, depth, row, slice, n_words;
};

/* This program spends most of its time here, so it uses 32-bit divisions, and none if no word is
 * inside. */
KERNEL_BODY int is_inside(struct box box, size_t i) {
    unsigned at = (unsigned)(i - box.first), slice = (unsigned)box.slice, row = (unsigned)box.row;
    return i >= box.first && box.width && at / slice < box.depth && at % slice / row < box.height &&
           at % slice % row < box.width;
}

/* Words of the box are `inside` + i, all other words `outside` + i. */
KERNEL(judge, const unsigned *, words, struct box, box, unsigned, inside, unsigned, outside,
       unsigned *, n_wrong) {
    if (i < box.n_words && words[i] != (is_inside(box, i) ? inside : outside) + (unsigned)i)
        COUNT(n_wrong);
}

struct settings {
    unsigned n_threads, n_rounds, n_linger;
    int fails, has_capture;
};

static struct {
    struct settings settings;
    int is_over, n_host_wrong, n_failed;
    unsigned n_copies;
    void (*fail_at)(unsigned long n, int result); /* functions of the software device */
} world;

struct worker {
    pthread_t thread;
    unsigned long long state;
    cudaStream_t streams[N_STREAM_KINDS];
    unsigned *device, *n_wrong;
    char *host;
};

static unsigned draw(struct worker *worker, unsigned n) {
    return (unsigned)(program_random(&worker->state) % n);
}

/* ---- shapes ---- */

/* The last shape is rows, each of which is one copy of a batch. */
enum { LINE, ROWS, BOXES, BATCH };

/*
 * On an H100 with driver 580 and without cushim the device's words are wrong after a batch to the
 * device whose source should be read during the call. The driver's guarantee is unknown, so batches
 * run on the software device only.
 */
static unsigned count_shapes(void) {
    return CUDART_VERSION >= 13000 && world.fail_at ? BATCH + 1 : BATCH;
}

/* A size just below, at, or just above a limit, or any size. */
static size_t draw_words(struct worker *worker) {
    static const size_t marks[] = {LEAST / WORD, PIECE / WORD, 2 * PIECE / WORD};
    if (draw(worker, 3) == 0)
        return 1 + draw(worker, MOST_WORDS / 2);
    return marks[draw(worker, 3)] + draw(worker, 5) - 2;
}

static struct box draw_box(struct worker *worker, unsigned shape) {
    size_t n = draw_words(worker);
    struct box box = {.height = shape == LINE ? 1 : 1 + draw(worker, 9),
                      .depth = shape == BOXES ? 1 + draw(worker, 4) : 1};
    box.first = draw(worker, 40);
    box.width = n / (box.height * box.depth) + 1;
    box.row = box.width + (draw(worker, 2) ? draw(worker, 60) : 0);
    box.slice = box.row * (box.height + (draw(worker, 2) ? draw(worker, 2) : 0));
    box.n_words = box.first + box.depth * box.slice + draw(worker, 8);
    return box;
}

/* The host's words begin at any byte. Their values show what went wrong. */
KERNEL_UNWATCHED static unsigned host_word(const char *host, size_t i) {
    unsigned word;
    memcpy(&word, host + i * WORD, WORD);
    return word;
}

KERNEL_UNWATCHED static void host_write(char *host, size_t n, unsigned tag) {
    for (size_t i = 0; i < n; i++) {
        unsigned word = tag + (unsigned)i;
        memcpy(host + i * WORD, &word, WORD);
    }
}

KERNEL_UNWATCHED static void host_judge(const char *host, struct box box, unsigned inside,
                                        unsigned outside) {
    int n_wrong = 0;
    for (size_t i = 0; i < box.n_words; i++)
        n_wrong += host_word(host, i) != (is_inside(box, i) ? inside : outside) + (unsigned)i;
    program_add(&world.n_host_wrong, n_wrong);
}

/* ---- a copy ---- */

struct order {
    struct box box;
    unsigned shape;
    char *to, *from;
    enum cudaMemcpyKind kind;
    cudaStream_t stream;
    bool is_async;
};

static cudaError_t copy_box(const struct order *order) {
    const struct box *box = &order->box;
    size_t row_bytes = box->row * WORD;
    struct cudaMemcpy3DParms shape;
    memset(&shape, 0, sizeof shape);
    shape.srcPtr.ptr = order->from;
    shape.dstPtr.ptr = order->to;
    shape.srcPtr.pitch = shape.dstPtr.pitch = row_bytes;
    shape.srcPtr.xsize = shape.dstPtr.xsize = box->row;
    shape.srcPtr.ysize = shape.dstPtr.ysize = box->slice / box->row;
    shape.extent.width = box->width * WORD;
    shape.extent.height = box->height;
    shape.extent.depth = box->depth;
    shape.kind = order->kind;
    return order->is_async ? cudaMemcpy3DAsync(&shape, order->stream) : cudaMemcpy3D(&shape);
}

#if CUDART_VERSION >= 13000
static cudaError_t copy_batch(const struct order *order) {
    enum { MOST_ROWS = 9 };
    void *to[MOST_ROWS];
    const void *from[MOST_ROWS];
    size_t sizes[MOST_ROWS], first = 0;
    struct cudaMemcpyAttributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
    if (order->kind == cudaMemcpyDeviceToHost)
        attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    for (size_t i = 0; i < order->box.height; i++) {
        to[i] = order->to + i * order->box.row * WORD;
        from[i] = order->from + i * order->box.row * WORD;
        sizes[i] = order->box.width * WORD;
    }
    return cudaMemcpyBatchAsync(to, from, sizes, order->box.height, &attributes, &first, 1,
                                order->stream);
}
#endif

static cudaError_t copy(const struct order *order) {
    size_t n_bytes = order->box.width * WORD, row_bytes = order->box.row * WORD;
#if CUDART_VERSION >= 13000
    if (order->shape == BATCH)
        return copy_batch(order);
#endif
    if (order->shape == BOXES)
        return copy_box(order);
    if (order->shape == ROWS)
        return order->is_async
                   ? cudaMemcpy2DAsync(order->to, row_bytes, order->from, row_bytes, n_bytes,
                                       order->box.height, order->kind, order->stream)
                   : cudaMemcpy2D(order->to, row_bytes, order->from, row_bytes, n_bytes,
                                  order->box.height, order->kind);
    return order->is_async
               ? cudaMemcpyAsync(order->to, order->from, n_bytes, order->kind, order->stream)
               : cudaMemcpy(order->to, order->from, n_bytes, order->kind);
}

/* Repeat until no call fails: a copy that reports success is done, whatever failed in between. */
static void copy_surely(struct worker *worker, const struct order *order) {
    cudaError_t error = cudaSuccess;
    if (world.settings.fails)
        world.fail_at(1 + draw(worker, draw(worker, 2) ? 3 : 60), 2);
    error = copy(order);
    if (world.settings.fails)
        world.fail_at(0, 0);
    __atomic_fetch_add(&world.n_copies, 1, __ATOMIC_RELAXED);
    if (error != cudaSuccess) {
        MUST(world.settings.fails);
        cudaGetLastError();
        program_add(&world.n_failed, 1);
        TRY(copy(order));
    }
}

/* Earlier work in the stream of a copy comes before the copy, both writes and reads. */
static void act(struct worker *worker) {
    unsigned old = draw(worker, 1u << 30), tag = draw(worker, 1u << 30), shift = draw(worker, 16);
    bool is_up = draw(worker, 2);
    struct order order = {.shape = draw(worker, count_shapes()), .is_async = draw(worker, 2) != 0};
    struct box box = order.box = draw_box(worker, order.shape);
    struct box none = box;
    char *host = worker->host + shift, *device = (char *)worker->device;
    none.width = 0;
    /* a synchronous copy waits for the streams that wait for the legacy stream */
    order.stream =
        worker->streams[draw(worker, order.is_async ? N_STREAM_KINDS : STREAM_NON_BLOCKING)];
    if (order.shape == BATCH) /* the legacy stream has none */
        order.stream = worker->streams[1 + draw(worker, N_STREAM_KINDS - 1)];
    order.kind = draw(worker, 3) ? is_up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost
                                 : cudaMemcpyDefault;
    order.to = (is_up ? device : host) + box.first * WORD;
    order.from = (is_up ? host : device) + box.first * WORD;
    host_write(host, box.n_words, tag);
    if (draw(worker, 3)) /* otherwise its stream is idle */
        TRY(LAUNCH(linger, 1, 1, order.stream, draw(worker, world.settings.n_linger)));
    work_fill(worker->device, box.n_words, old, order.stream);
    TRY(LAUNCH(judge, BLOCKS(box.n_words, N_WORK_THREADS), N_WORK_THREADS, order.stream,
               worker->device, none, 0, old, worker->n_wrong));
    if (draw(worker, 3) == 0)
        TRY(cudaStreamSynchronize(order.stream));
    if (order.shape == BATCH && !is_up)
        order.kind = cudaMemcpyDeviceToHost;
    copy_surely(worker, &order);
    if (order.shape == BATCH && !is_up) /* it may not have arrived yet */
        TRY(cudaStreamSynchronize(order.stream));
    if (is_up) {
        host_write(host, box.n_words, ~tag); /* its source has been read */
        TRY(LAUNCH(judge, BLOCKS(box.n_words, N_WORK_THREADS), N_WORK_THREADS, order.stream,
                   worker->device, box, tag, old, worker->n_wrong));
    } else {
        host_judge(host, box, old, tag);
    }
    TRY(cudaStreamSynchronize(order.stream));
}

/* ---- threads ---- */

static void *work(void *data) {
    struct worker *worker = (struct worker *)data;
    for (unsigned round = 0; round < world.settings.n_rounds; round++)
        act(worker);
    return NULL;
}

/* Sometimes a capture is open, and it must stay valid whatever other threads do. */
static void *capture(void *unused) {
    cudaStream_t stream = stream_create(STREAM_NON_BLOCKING);
    while (!program_load(&world.is_over)) {
        const struct timespec pause = {0, 300000};
        cudaGraph_t graph;
        TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        TRY(LAUNCH(linger, 1, 1, stream, 1));
        nanosleep(&pause, NULL);
        TRY(LAUNCH(linger, 1, 1, stream, 1));
        TRY(cudaStreamEndCapture(stream, &graph));
        TRY(cudaGraphDestroy(graph));
        nanosleep(&pause, NULL);
    }
    TRY(cudaStreamDestroy(stream));
    return unused;
}

/* ---- a seed ---- */

static void prepare(struct worker *worker) {
    size_t n_bytes = (4 * (size_t)MOST_WORDS) * WORD;
    if (worker->host)
        return;
    for (int kind = 0; kind < N_STREAM_KINDS; kind++)
        worker->streams[kind] = stream_create(kind);
    TRY(cudaMalloc((void **)&worker->device, n_bytes));
    TRY(cudaMallocHost((void **)&worker->n_wrong, sizeof *worker->n_wrong));
    *worker->n_wrong = 0;
    worker->host = (char *)program_allocate(n_bytes + MOST_SHIFT);
}

static unsigned run_workers(unsigned long long seed) {
    static struct worker workers[MOST_THREADS];
    pthread_t capturer;
    unsigned n_wrong = 0;
    __atomic_store_n(&world.is_over, 0, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < world.settings.n_threads; i++)
        prepare(&workers[i]);
    if (world.settings.has_capture)
        MUST(pthread_create(&capturer, NULL, capture, NULL) == 0);
    for (unsigned i = 0; i < world.settings.n_threads; i++) {
        workers[i].state = seed * MOST_THREADS + i;
        MUST(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (unsigned i = 0; i < world.settings.n_threads; i++)
        MUST(pthread_join(workers[i].thread, NULL) == 0);
    program_add(&world.is_over, 1);
    if (world.settings.has_capture)
        MUST(pthread_join(capturer, NULL) == 0);
    TRY(cudaDeviceSynchronize());
    for (unsigned i = 0; i < world.settings.n_threads; i++) {
        n_wrong += *workers[i].n_wrong;
        *workers[i].n_wrong = 0;
    }
    return n_wrong;
}

static struct settings settle(int argc, char **argv, unsigned long long seed) {
    unsigned long long state = seed;
    struct settings settings;
    settings.n_threads = program_drawn(argc, argv, "--threads", &state, 1, MOST_THREADS);
    settings.n_rounds = program_drawn(argc, argv, "--rounds", &state, 4, 4);
    settings.n_linger = (unsigned)program_option(argc, argv, "--linger", 30);
    settings.has_capture = (int)program_drawn(argc, argv, "--capture", &state, 0, 1);
    settings.fails = program_drawn(argc, argv, "--fail", &state, 0, 3) == 1;
    if (!world.fail_at || (settings.fails && settings.has_capture))
        settings.fails = 0; /* calls of the capturing thread would fail */
    if (settings.fails)
        settings.n_threads = 1;
    return settings;
}

/* A GPU's driver has no such function, so nothing fails there. */
static void find_device(void) {
    void *symbol = device_control("sim_fail_at");
    memcpy(&world.fail_at, &symbol, sizeof symbol);
}

int main(int argc, char **argv) {
    unsigned long long seed = program_option(argc, argv, "--seed", 1);
    unsigned long long n_seeds = program_option(argc, argv, "--seeds", 1);
    unsigned long long n_bad_seeds = 0, n_device_wrong = 0;
    int n_host_before = 0;
    work_prepare();
    find_device();
    for (unsigned long long n = 0; n < n_seeds; n++, seed++) {
        world.settings = settle(argc, argv, seed);
        device_seed((unsigned long)seed);
        unsigned n_wrong = run_workers(seed);
        bool is_bad = n_wrong || world.n_host_wrong != n_host_before;
        n_host_before = world.n_host_wrong;
        n_device_wrong += n_wrong;
        n_bad_seeds += is_bad;
        if (is_bad && program_flag(argc, argv, "--verbose"))
            printf("copies: seed %llu: %u threads\n", seed, world.settings.n_threads);
    }
    printf("torture: %llu of %llu seeds bad, %llu words wrong, %d read wrong\n", n_bad_seeds,
           n_seeds, n_device_wrong, world.n_host_wrong);
    if (program_flag(argc, argv, "--verbose"))
        printf("copies: %u copies, %d failed once\n", world.n_copies, world.n_failed);
    return n_bad_seeds != 0;
}
