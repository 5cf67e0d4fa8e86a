#include "work.h"

#include "tools/sim/driver/memory/async.h"
#include "tools/sim/driver/memory/block.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/module/function.h"
#include "tools/sim/driver/graph/graph.h"
#include "tools/sim/driver/graph/graph_run.h"
#include "tools/sim/driver/core/options.h"
#include "tools/sim/driver/core/print.h"
#include "event_ipc.h"
#include "stream.h"
#include "tools/sim/driver/core/thread.h"

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool turn_words(struct sim_work *work, struct sim_stream *stream) {
    size_t *n_done = &work->as.words.n_done;
    for (; *n_done < work->as.words.n; ++*n_done) {
        if (!sim_work_turn(&work->as.words.list[*n_done], stream))
            return false;
    }
    *n_done = 0; /* for the next launch */
    return true;
}

static bool clone_words(struct sim_work *copy, const struct sim_work *work) {
    size_t n_bytes = work->as.words.n * sizeof *work->as.words.list;
    copy->as.words.list = malloc(n_bytes);
    if (copy->as.words.list)
        memcpy(copy->as.words.list, work->as.words.list, n_bytes);
    return copy->as.words.list != NULL;
}

/*
 * Copies and sets check that their memory is there, and move a piece of it, under the lock, so that
 * it cannot go while it is written.  Between large pieces other threads may take the lock.
 */
enum { PIECE_BYTES = 1 << 20 };

static size_t next_piece(size_t n_left) {
    if (n_left <= PIECE_BYTES)
        return n_left;
    pthread_mutex_unlock(&sim_lock);
    sched_yield();
    pthread_mutex_lock(&sim_lock);
    return PIECE_BYTES;
}

/* Like memmove: if the two overlap, from the end that is not overwritten first. */
static bool copy_row(char *dst, const char *src, size_t n_bytes) {
    for (size_t n_done = 0, n; n_done < n_bytes; n_done += n) {
        n = next_piece(n_bytes - n_done);
        size_t at = dst > src ? n_bytes - n_done - n : n_done;
        if (!sim_block_is_there(dst + at, n, true) || !sim_block_is_there(src + at, n, false))
            return false;
        memmove(dst + at, src + at, n);
    }
    return true;
}

static bool do_copy(const struct sim_copy_work *copy) {
    for (size_t z = 0; z < copy->depth; z++) {
        for (size_t y = 0; y < copy->height; y++) {
            if (!copy_row(copy->dst + z * copy->dst_slice + y * copy->dst_pitch,
                          copy->src + z * copy->src_slice + y * copy->src_pitch, copy->width_bytes))
                return false;
        }
    }
    return true;
}

static void set_piece(char *at, const struct sim_set_work *set, size_t n_bytes) {
    if (set->element_bytes == 1) {
        memset(at, (int)set->value, n_bytes);
        return;
    }
    for (size_t x = 0; x < n_bytes; x += set->element_bytes)
        memcpy(at + x, &set->value, set->element_bytes);
}

static bool do_set(const struct sim_set_work *set) {
    size_t n_bytes = set->width * set->element_bytes;
    for (size_t y = 0; y < set->height; y++) {
        char *row = set->dst + y * set->pitch;
        for (size_t at = 0, n; at < n_bytes; at += n) {
            n = next_piece(n_bytes - at);
            if (!sim_block_is_there(row + at, n, true))
                return false;
            set_piece(row + at, set, n);
        }
    }
    return true;
}

static bool turn_kernel(struct sim_kernel_work *kernel, struct sim_stream *stream) {
    kernel->turn = (struct sim_turn){0, 0, NULL};
    kernel->launch.turn = &kernel->turn;
    if (!kernel->kernel) {
        kernel->function->n_skipped++;
        return true;
    }
    pthread_mutex_unlock(&sim_lock);
    kernel->kernel(&kernel->launch, kernel->args);
    pthread_mutex_lock(&sim_lock);
    if (kernel->turn.print)
        sim_print(kernel->turn.print);
    if (kernel->turn.fault)
        sim_context_damage(stream->context, (CUresult)kernel->turn.fault);
    return !kernel->turn.again || kernel->turn.fault;
}

/* The program's own function, which may call few of ours. */
static void call_host(const struct sim_work *work, struct sim_stream *stream) {
    CUresult status = sim_context_fault(stream->context);
    sim_thread()->is_in_host_function = true;
    pthread_mutex_unlock(&sim_lock);
    if (work->kind == SIM_WORK_HOST)
        work->as.host.fn(work->as.host.data);
    else
        work->as.callback.fn((CUstream)stream, status, work->as.callback.data);
    pthread_mutex_lock(&sim_lock);
    sim_thread()->is_in_host_function = false;
}

static void write_value(const struct sim_work *work) {
    if (work->as.value.n_bytes == 4)
        __atomic_store_n((uint32_t *)work->as.value.address, (uint32_t)work->as.value.value,
                         __ATOMIC_SEQ_CST);
    else
        __atomic_store_n((uint64_t *)work->as.value.address, work->as.value.value,
                         __ATOMIC_SEQ_CST);
}

static bool has_value(const struct sim_work *work) {
    uint64_t wanted = work->as.value.value, found;
    bool is_reached;
    if (work->as.value.n_bytes == 4) {
        found = __atomic_load_n((uint32_t *)work->as.value.address, __ATOMIC_SEQ_CST);
        is_reached = (int32_t)((uint32_t)found - (uint32_t)wanted) >= 0;
    } else {
        found = __atomic_load_n((uint64_t *)work->as.value.address, __ATOMIC_SEQ_CST);
        is_reached = (int64_t)(found - wanted) >= 0;
    }
    switch (work->as.value.flags & 3) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return found == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
        return (found & wanted) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return work->as.value.n_bytes == 4 ? (uint32_t) ~(found | wanted) != 0
                                           : ~(found | wanted) != 0;
    default:
        return is_reached;
    }
}

bool sim_work_touches(const struct sim_work *work, const struct sim_context *root) {
    const struct sim_copy_work *copy = &work->as.copy;
    if (work->kind == SIM_WORK_RUN)
        return sim_graph_run_touches(work->as.run, root);
    return work->kind == SIM_WORK_COPY && (copy->touches[0] == root || copy->touches[1] == root);
}

/* The driver's own memory, which nothing may read or write. */
static bool is_internal(const void *address) {
    const struct sim_block *block = sim_block_find_any((CUdeviceptr)(uintptr_t)address);
    return block && block->kind == SIM_BLOCK_INTERNAL;
}

static bool is_idle(const struct sim_work *work) {
    const struct sim_copy_work *copy = &work->as.copy;
    return work->kind == SIM_WORK_SET ? is_internal(work->as.set.dst)
                                      : is_internal(copy->dst) || is_internal(copy->src);
}

/* Work found that memory is gone: a fault, as on a GPU, of the work's context. */
static bool finish_at(bool is_there, struct sim_stream *stream) {
    if (!is_there)
        sim_context_damage(stream->context, CUDA_ERROR_ILLEGAL_ADDRESS);
    return true;
}

static bool turn_value(const struct sim_work *work, struct sim_stream *stream) {
    bool is_written = work->kind == SIM_WORK_WRITE_VALUE;
    if (!sim_block_is_there(work->as.value.address, work->as.value.n_bytes, is_written))
        return finish_at(false, stream);
    if (!is_written)
        return has_value(work);
    write_value(work);
    return true;
}

static bool do_work(struct sim_work *work, struct sim_stream *stream) {
    switch (work->kind) {
    case SIM_WORK_KERNEL:
        return turn_kernel(&work->as.kernel, stream);
    case SIM_WORK_COPY:
        return finish_at(is_idle(work) || do_copy(&work->as.copy), stream);
    case SIM_WORK_SET:
        return finish_at(is_idle(work) || do_set(&work->as.set), stream);
    case SIM_WORK_HOST:
    case SIM_WORK_CALLBACK:
        call_host(work, stream);
        return true;
    case SIM_WORK_WRITE_VALUE:
    case SIM_WORK_WAIT_VALUE:
        return turn_value(work, stream);
    case SIM_WORK_WORDS:
        return turn_words(work, stream);
    case SIM_WORK_FREE:
        sim_async_release(work->as.address);
        return true;
    case SIM_WORK_RUN:
        return sim_graph_run_turn(work->as.run, stream);
    case SIM_WORK_TELL:
    case SIM_WORK_HEAR:
        return sim_event_turn(work);
    case SIM_WORK_EMPTY:
    case SIM_WORK_ALLOC:
    case SIM_WORK_FREE_NODE:
    case SIM_WORK_CHILD:
    case SIM_WORK_CONDITIONAL:
        break;
    }
    return true;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Has the work taken its time?  Other streams go on meanwhile. */
static bool has_taken_its_time(struct sim_work *work) {
    bool takes_time =
        work->kind == SIM_WORK_KERNEL || work->kind == SIM_WORK_COPY || work->kind == SIM_WORK_SET;
    if (!takes_time || !sim_options()->work_ns)
        return true;
    if (!work->due_ns)
        work->due_ns = now_ns() + sim_options()->work_ns;
    return now_ns() >= work->due_ns;
}

bool sim_work_turn(struct sim_work *work, struct sim_stream *stream) {
    if (!has_taken_its_time(work))
        return false;
    bool is_done = do_work(work, stream);
    if (is_done)
        work->due_ns = 0; /* a graph's node is launched again */
    return is_done;
}
static bool clone_kernel(struct sim_kernel_work *copy, const struct sim_kernel_work *kernel) {
    if (kernel->n_params == 0)
        return true;
    copy->bytes = malloc(kernel->n_bytes);
    copy->args = malloc(kernel->n_params * sizeof *copy->args);
    if (!copy->bytes || !copy->args) {
        free(copy->bytes);
        free(copy->args);
        return false;
    }
    memcpy(copy->bytes, kernel->bytes, kernel->n_bytes);
    for (size_t i = 0; i < kernel->n_params; i++)
        copy->args[i] = copy->bytes + ((char *)kernel->args[i] - kernel->bytes);
    return true;
}

static bool clone_bodies(struct sim_work *copy, const struct sim_work *work) {
    copy->as.conditional.bodies = calloc(work->as.conditional.n, sizeof(struct sim_graph *));
    bool is_whole = copy->as.conditional.bodies != NULL;
    for (unsigned i = 0; i < work->as.conditional.n && is_whole; i++) {
        copy->as.conditional.bodies[i] = sim_graph_clone(work->as.conditional.bodies[i]);
        is_whole = copy->as.conditional.bodies[i] != NULL;
    }
    if (!is_whole)
        sim_work_finish(copy);
    return is_whole;
}

bool sim_work_clone(struct sim_work *copy, const struct sim_work *work) {
    *copy = *work;
    if (work->kind == SIM_WORK_KERNEL)
        return clone_kernel(&copy->as.kernel, &work->as.kernel);
    if (work->kind == SIM_WORK_WORDS)
        return clone_words(copy, work);
    if (work->kind == SIM_WORK_CHILD) {
        copy->as.child = sim_graph_clone(work->as.child);
        return copy->as.child != NULL;
    }
    if (work->kind == SIM_WORK_CONDITIONAL)
        return clone_bodies(copy, work);
    if (work->kind == SIM_WORK_ALLOC)
        sim_async_retain(work->as.address);
    return true; /* captured copies are never staged, and runs are no nodes */
}

void sim_work_finish(struct sim_work *work) {
    switch (work->kind) {
    case SIM_WORK_KERNEL:
        free(work->as.kernel.args);
        free(work->as.kernel.bytes);
        break;
    case SIM_WORK_COPY:
        free(work->as.copy.staged);
        break;
    case SIM_WORK_WORDS:
        free(work->as.words.list);
        break;
    case SIM_WORK_CHILD:
        sim_graph_unref(work->as.child);
        break;
    case SIM_WORK_CONDITIONAL:
        for (unsigned i = 0; work->as.conditional.bodies && i < work->as.conditional.n; i++)
            sim_graph_unref(work->as.conditional.bodies[i]);
        free(work->as.conditional.bodies);
        break;
    case SIM_WORK_ALLOC:
        sim_async_release(work->as.address);
        break;
    case SIM_WORK_TELL:
    case SIM_WORK_HEAR:
        sim_event_work_finish(work);
        break;
    case SIM_WORK_RUN:
        sim_graph_run_destroy(work->as.run);
        break;
    default:
        break;
    }
    work->kind = SIM_WORK_EMPTY;
}
