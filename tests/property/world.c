#include "trace.h"

#include "tools/sim/sim.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

/* A kernel of n turns, during which other streams make progress. */
SIM_KERNEL(linger, unsigned) {
    unsigned *n_turns = &SIM_ARG(unsigned, 0);
    launch->turn->again = *n_turns > 0;
    *n_turns -= *n_turns > 0;
}

SIM_KERNEL(gate, const int *) {
    launch->turn->again = !__atomic_load_n(SIM_ARG(const int *, 0), __ATOMIC_ACQUIRE);
}

static void must(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "property-play: %s: %d\n", what, (int)result);
    exit(3);
}

/* ---- threads: one at a time takes a step, and the main thread waits for it ---- */

static struct worker {
    sem_t turn, done;
    struct world *world;
    const struct step *step;
    CUresult answer;
    bool is_started;
} workers[N_THREADS];

static CUresult take(struct world *world, const struct step *step);

static void *work(void *argument) {
    struct worker *worker = argument;
    for (;;) {
        while (sem_wait(&worker->turn) != 0) {
        }
        cuCtxSetCurrent(worker->world->contexts[worker->world->context]);
        worker->answer = take(worker->world, worker->step);
        sem_post(&worker->done);
    }
    return NULL;
}

/* One processor for all threads, because only one runs at a time and a wake on the same processor
 * costs a tenth. */
static void stay_here(void) {
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    sched_setaffinity(0, sizeof here, &here);
}

CUresult world_take(struct world *world, const struct step *step) {
    struct worker *worker = &workers[step->thread];
    if (step->thread == 0)
        return take(world, step);
    if (!worker->is_started) {
        pthread_t thread;
        stay_here();
        sem_init(&worker->turn, 0, 0);
        sem_init(&worker->done, 0, 0);
        if (pthread_create(&thread, NULL, work, worker) != 0)
            must(CUDA_ERROR_OPERATING_SYSTEM, "a thread");
        pthread_detach(thread);
        worker->is_started = true;
    }
    worker->world = world;
    worker->step = step;
    sem_post(&worker->turn);
    while (sem_wait(&worker->done) != 0) {
    }
    return worker->answer;
}

/* ---- steps ---- */

void world_open(struct world *world, bool is_pooled) {
    CUdevice device;
    *world = (struct world){0};
    must(cuInit(0), "cuInit");
    must(cuDeviceGet(&device, 0), "cuDeviceGet");
    must(cuDevicePrimaryCtxRetain(&world->contexts[0], device), "a context");
    must(cuCtxSetCurrent(world->contexts[0]), "cuCtxSetCurrent");
    for (int i = 0; i < N_STREAMS; i++)
        must(cuStreamCreate(&world->streams[i], i % 2 ? CU_STREAM_NON_BLOCKING : 0), "a stream");
    must(sim_function_by_name(&world->linger, "linger"), "a kernel");
    must(sim_function_by_name(&world->gate, "gate"), "a kernel");
    if (is_pooled && cushim_pool_create(NULL, &world->pool) != CUSHIM_OK)
        must(CUDA_ERROR_UNKNOWN, "a pool");
}

struct block *world_block(struct world *world, uint32_t slot) {
    if (slot >= world->n_blocks) {
        size_t n = (size_t)slot * 2 + 64;
        world->blocks = realloc(world->blocks, n * sizeof *world->blocks);
        if (!world->blocks)
            must(CUDA_ERROR_OPERATING_SYSTEM, "host memory");
        for (size_t i = world->n_blocks; i < n; i++)
            world->blocks[i] = (struct block){0};
        world->n_blocks = n;
    }
    return &world->blocks[slot];
}

static size_t live_of(size_t n_bytes) {
    return n_bytes <= MIB ? (n_bytes + 511) / 512 * 512 : large_bytes(n_bytes);
}

/* At most an eighth of a block up to 1 MiB is waste. */
static size_t cut_of(size_t n_bytes) {
    return n_bytes <= MIB ? live_of(n_bytes) * 8 / 7 : large_bytes(n_bytes);
}

static void forget(struct world *world, struct block *block) {
    world->live_bytes -= live_of(block->n_bytes);
    world->context_cut_bytes[block->context] -= cut_of(block->n_bytes);
    world->large_live_bytes -= large_bytes(block->n_bytes);
    block->address = 0;
}

static CUresult of_status(enum cushim_status status) {
    return status == CUSHIM_OK      ? CUDA_SUCCESS
           : status == CUSHIM_NOMEM ? CUDA_ERROR_OUT_OF_MEMORY
                                    : CUDA_ERROR_UNKNOWN;
}

static CUresult obtain(struct world *world, CUdeviceptr *address, size_t n_bytes) {
    cushim_devptr given = 0;
    if (!world->pool || n_bytes == 0) /* a pool returns address 0 for it */
        return cuMemAlloc(address, n_bytes);
    CUresult result =
        of_status(cushim_pool_alloc(world->pool, 0, CUSHIM_MEMORY_DEVICE, n_bytes, NULL, &given));
    *address = (CUdeviceptr)given;
    return result;
}

static CUresult release(struct world *world, CUdeviceptr address) {
    return world->pool ? of_status(cushim_pool_free(world->pool, 0, address, 0, NULL))
                       : cuMemFree(address);
}

static CUresult alloc(struct world *world, const struct step *step) {
    struct block *block = world_block(world, step->slot);
    CUresult result = obtain(world, &block->address, step->n_bytes);
    if (result != CUDA_SUCCESS) {
        block->address = 0;
        return result;
    }
    block->n_bytes = step->n_bytes;
    block->context = (uint8_t)world->context;
    world->live_bytes += live_of(step->n_bytes);
    world->context_cut_bytes[block->context] += cut_of(step->n_bytes);
    world->large_live_bytes += large_bytes(step->n_bytes);
    return result;
}

static CUresult end_capture(CUstream stream) {
    CUgraph graph = NULL;
    CUresult result = cuStreamEndCapture(stream, &graph);
    if (graph)
        cuGraphDestroy(graph);
    return result;
}

static CUresult launch(CUfunction kernel, CUstream stream, void *argument) {
    return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, &argument, NULL);
}

static CUresult shut_gate(struct world *world, CUstream stream) {
    int *is_open = &world->is_gate_open;
    world->is_gate_open = 0;
    return launch(world->gate, stream, &is_open);
}

static CUresult enter_context(struct world *world, int place) {
    CUresult result = CUDA_SUCCESS;
    if (!world->contexts[place]) {
        result = cuCtxCreate(&world->contexts[place], NULL, 0, 0);
    }
    if (result == CUDA_SUCCESS)
        result = cuCtxSetCurrent(world->contexts[place]);
    if (result == CUDA_SUCCESS)
        world->context = place;
    return result;
}

/* Makes the primary context current. */
static CUresult end_context(struct world *world, int place) {
    CUresult result = cuCtxDestroy(world->contexts[place]);
    world->contexts[place] = NULL;
    for (size_t i = 0; i < world->n_blocks; i++) {
        if (world->blocks[i].address && world->blocks[i].context == place)
            forget(world, &world->blocks[i]);
    }
    must(enter_context(world, 0), "the primary context");
    return result;
}

static CUresult take(struct world *world, const struct step *step) {
    struct block *block = world_block(world, step->slot);
    CUresult result;
    unsigned n_turns;
    switch ((enum step_kind)step->kind) {
    case STEP_ALLOC:
        return alloc(world, step);
    case STEP_FREE:
    case STEP_FREE_ASYNC:
        result = step->kind == STEP_FREE
                     ? release(world, block->address)
                     : cuMemFreeAsync(block->address, world->streams[step->place]);
        if (result == CUDA_SUCCESS && block->address)
            forget(world, block);
        return result;
    case STEP_FREE_WRONG:
        return cuMemFree(block->address + 256);
    case STEP_LAUNCH:
        n_turns = (unsigned)step->n_bytes;
        return launch(world->linger, world->streams[step->place], &n_turns);
    case STEP_GATE:
        return shut_gate(world, world->streams[step->place]);
    case STEP_GATE_OPEN:
        __atomic_store_n(&world->is_gate_open, 1, __ATOMIC_RELEASE);
        return CUDA_SUCCESS;
    case STEP_SYNC:
        return cuCtxSynchronize();
    case STEP_STREAM_SYNC:
        return cuStreamSynchronize(world->streams[step->place]);
    case STEP_CAPTURE_BEGIN:
        return cuStreamBeginCapture(world->streams[step->place], CU_STREAM_CAPTURE_MODE_RELAXED);
    case STEP_CAPTURE_END:
        return end_capture(world->streams[step->place]);
    case STEP_CONTEXT_ENTER:
        return enter_context(world, step->place);
    case STEP_CONTEXT_END:
        return end_context(world, step->place);
    }
    return CUDA_ERROR_UNKNOWN;
}
