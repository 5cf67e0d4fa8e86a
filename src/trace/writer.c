#include "trace/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/cut_file.h"
#include "base/file_mode.h"
#include "base/futex.h"
#include "base/output.h"
#include "trace/modules.h"

struct cushim_trace_known_stack {
    uint64_t hash, number;
};

/* ---- the file ---- */

/* Growing a file past the limit raises a signal. */
static bool may_grow_to(uint64_t n_bytes) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= n_bytes;
}

/* Reserve bytes so that later stores cannot fail; 0 or an errno. */
static int reserve(int file, uint64_t at, uint64_t n_bytes) {
    static const char zeros[4096];
    if (!may_grow_to(at + n_bytes))
        return EFBIG;
    if (fallocate(file, 0, (off_t)at, (off_t)n_bytes) == 0)
        return 0;
    if (errno != EOPNOTSUPP)
        return errno;
    for (; n_bytes; at += sizeof zeros, n_bytes -= sizeof zeros) {
        if (pwrite(file, zeros, sizeof zeros, (off_t)at) != sizeof zeros)
            return errno ? errno : ENOSPC;
    }
    return 0;
}

static void stop(struct cushim_trace *trace, enum cushim_trace_state state, int error) {
    if (!atomic_exchange(&trace->is_on, false))
        return;
    atomic_store(&trace->head->error, (uint64_t)error);
    atomic_store(&trace->head->state, state);
}

static int map_head(struct cushim_trace *trace, int file) {
    struct stat status;
    int error = reserve(file, 0, CUSHIM_TRACE_HEAD_BYTES);
    if (error)
        return error;
    if (fstat(file, &status) != 0)
        return errno;
    trace->device = status.st_dev;
    trace->inode = status.st_ino;
    /* a thread may still count an event as lost in the head of the one before */
    void *head = mmap(trace->head, CUSHIM_TRACE_HEAD_BYTES, PROT_READ | PROT_WRITE,
                      MAP_SHARED | (trace->head ? MAP_FIXED : 0), file, 0);
    if (head == MAP_FAILED)
        return errno;
    if (!trace->head)
        cushim_cut_file_watch(head, CUSHIM_TRACE_HEAD_BYTES, &trace->is_cut);
    atomic_store(&trace->is_cut, false);
    trace->head = head;
    return 0;
}

/* The recording's own file, not another one with its name; -1 with errno. */
static int open_own(const struct cushim_trace *trace, int access) {
    struct stat status;
    int file = cushim_output_aside(open(trace->path, access | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file < 0)
        return -1;
    if (fstat(file, &status) == 0 && status.st_dev == trace->device &&
        status.st_ino == trace->inode)
        return file;
    close(file);
    errno = ESTALE;
    return -1;
}

int cushim_trace_open(struct cushim_trace *trace, const char *path,
                      const struct cushim_trace_head *head, uint64_t max_bytes) {
    if (strlen(path) >= sizeof trace->path)
        return ENAMETOOLONG;
    strcpy(trace->path, path);
    int file =
        cushim_output_aside(open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file < 0)
        return errno;
    int error = map_head(trace, file);
    cushim_file_bar_writers(file);
    close(file);
    if (error) {
        unlink(path);
        return error;
    }
    *trace->head = *head;
    memcpy(trace->head->magic, CUSHIM_TRACE_MAGIC, sizeof head->magic);
    trace->head->version = CUSHIM_TRACE_VERSION;
    trace->head->head_bytes = CUSHIM_TRACE_HEAD_BYTES;
    atomic_store(&trace->head->state, CUSHIM_TRACE_RUNNING);
    trace->max_bytes = max_bytes;
    atomic_store(&trace->end_bytes, CUSHIM_TRACE_HEAD_BYTES);
    atomic_store(&trace->is_on, true);
    return 0;
}

void cushim_trace_close(struct cushim_trace *trace) {
    if (!trace->head)
        return;
    atomic_store(&trace->head->end_ns, cushim_clock_ns());
    if (atomic_load(&trace->is_cut))
        stop(trace, CUSHIM_TRACE_FAILED, EIO);
    else
        stop(trace, CUSHIM_TRACE_ENDED, 0);
    int saved_errno = errno, cancel = cushim_cancel_hold(), file = open_own(trace, O_RDONLY);
    if (file >= 0) {
        cushim_file_let_write(file);
        close(file);
    }
    cushim_cancel_let(cancel);
    errno = saved_errno;
}

static void unmap(void *start, size_t n_bytes) {
    if (!start)
        return;
    cushim_cut_file_forget(start);
    munmap(start, n_bytes);
}

void cushim_trace_leave_to_parent(struct cushim_trace *trace, struct cushim_trace_writer *writer) {
    atomic_store(&trace->is_on, false);
    atomic_store(&trace->is_cut, false);
    /* a thread that the child does not have may have held it */
    trace->opening = (struct cushim_futex_lock){0};
    unmap(trace->head, CUSHIM_TRACE_HEAD_BYTES);
    trace->head = NULL;
    if (writer)
        cushim_trace_writer_renew(writer);
}

void cushim_trace_writer_renew(struct cushim_trace_writer *writer) {
    unmap(writer->chunk, writer->chunk_bytes);
    if (writer->stacks)
        munmap(writer->stacks, CUSHIM_TRACE_STACKS * sizeof *writer->stacks);
    *writer = (struct cushim_trace_writer){.number = writer->number};
}

/* ---- chunks ---- */

/* Open it for writing, and make it read-only again at once. */
static int open_again(struct cushim_trace *trace) {
    int found = open_own(trace, O_RDONLY);
    if (found < 0)
        return -1;
    cushim_futex_lock_enter(&trace->opening);
    cushim_file_let_write(found);
    int file = open_own(trace, O_RDWR);
    int error = errno;
    cushim_file_bar_writers(found);
    cushim_futex_lock_leave(&trace->opening);
    close(found);
    errno = error;
    return file;
}

static int map_chunk(struct cushim_trace *trace, struct cushim_trace_writer *writer, uint64_t at,
                     size_t n_bytes) {
    int file = open_again(trace);
    if (file < 0)
        return errno;
    int error = reserve(file, at, n_bytes);
    void *chunk = error ? MAP_FAILED
                        : mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)at);
    if (!error && chunk == MAP_FAILED)
        error = errno;
    close(file);
    if (!error) {
        cushim_cut_file_watch(chunk, n_bytes, &trace->is_cut);
        writer->chunk = chunk;
        writer->chunk_bytes = n_bytes;
        writer->used_bytes = 0;
    }
    return error;
}

/* The file has chunks up to here, so that a reader sees if they were cut off. */
static void note_bytes(struct cushim_trace_head *head, uint64_t n_bytes) {
    uint64_t before = atomic_load(&head->least_bytes);
    while (before < n_bytes &&
           !atomic_compare_exchange_weak(&head->least_bytes, &before, n_bytes)) {
    }
}

/* Begin a chunk for the next events; false: the recording is over.  It begins at the time of its
 * first event, because the time that making it takes must not move that event behind those of other
 * threads. */
static bool begin_chunk(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                        uint64_t start_ns) {
    int saved_errno = errno, error = 0, cancel = cushim_cancel_hold();
    size_t n_bytes = writer->next_bytes ? writer->next_bytes : CUSHIM_TRACE_LEAST_CHUNK_BYTES;
    uint64_t at = atomic_fetch_add(&trace->end_bytes, n_bytes);
    unmap(writer->chunk, writer->chunk_bytes);
    writer->chunk = NULL;
    if (atomic_load(&trace->is_cut)) {
        error = EIO;
        stop(trace, CUSHIM_TRACE_FAILED, error);
    } else if (at + n_bytes > trace->max_bytes) {
        error = ENOSPC;
        stop(trace, CUSHIM_TRACE_FULL, 0);
    } else if ((error = map_chunk(trace, writer, at, n_bytes)) != 0) {
        stop(trace, CUSHIM_TRACE_FAILED, error);
    } else {
        struct cushim_trace_chunk *chunk = writer->chunk;
        chunk->n_bytes = n_bytes;
        chunk->writer = writer->number;
        chunk->sequence = writer->sequence++;
        chunk->start_ns = start_ns;
        writer->base = (struct cushim_trace_base){chunk->start_ns, 0};
        atomic_thread_fence(memory_order_release);
        memcpy(chunk->magic, CUSHIM_TRACE_CHUNK_MAGIC, sizeof chunk->magic);
        note_bytes(trace->head, at + n_bytes);
        writer->next_bytes =
            n_bytes < CUSHIM_TRACE_MOST_CHUNK_BYTES ? 2 * n_bytes : CUSHIM_TRACE_MOST_CHUNK_BYTES;
    }
    cushim_cancel_let(cancel);
    errno = saved_errno;
    return !error;
}

/* There is space for it. */
static void append(struct cushim_trace_writer *writer, const struct cushim_trace_event *event) {
    struct cushim_trace_chunk *chunk = writer->chunk;
    uint8_t *to = (uint8_t *)chunk + CUSHIM_TRACE_CHUNK_HEAD_BYTES + writer->used_bytes;
    writer->used_bytes += cushim_trace_encode(to, &writer->base, event);
    atomic_store_explicit(&chunk->used_bytes, writer->used_bytes, memory_order_release);
}

static bool has_room(const struct cushim_trace_writer *writer) {
    return writer->chunk &&
           writer->chunk_bytes - CUSHIM_TRACE_CHUNK_HEAD_BYTES - writer->used_bytes >=
               CUSHIM_TRACE_EVENT_BYTES;
}

static bool write_event(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                        const struct cushim_trace_event *event) {
    if (!has_room(writer)) {
        if (!begin_chunk(trace, writer, event->time_ns))
            return false;
        /* a chunk is read without those before it */
        if (writer->place.code) {
            writer->place.time_ns = writer->base.time_ns;
            append(writer, &writer->place);
        }
    }
    append(writer, event);
    return true;
}

static bool is_closed(const struct cushim_trace_head *head) {
    uint64_t state = atomic_load(&head->state);
    return state == CUSHIM_TRACE_ENDED || state == CUSHIM_TRACE_STOPPED;
}

void cushim_trace_put(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                      const struct cushim_trace_event *event) {
    bool is_written = false;
    if (!trace->head)
        return;
    if (atomic_load_explicit(&trace->is_on, memory_order_relaxed) && !writer->is_busy) {
        writer->is_busy = true;
        atomic_signal_fence(memory_order_seq_cst);
        is_written = write_event(trace, writer, event);
        atomic_signal_fence(memory_order_seq_cst);
        writer->is_busy = false;
    }
    if (!is_written && !is_closed(trace->head))
        atomic_fetch_add_explicit(&trace->head->n_lost, 1, memory_order_relaxed);
}

void cushim_trace_at(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                     const struct cushim_trace_event *place) {
    const struct cushim_trace_event *now = &writer->place;
    if (now->code && now->device == place->device && now->kind == place->kind &&
        now->pool == place->pool && now->thread == place->thread)
        return;
    if (writer->is_busy)
        return;
    cushim_trace_put(trace, writer, place);
    writer->place = *place;
}

/* ---- stacks ---- */

static uint64_t hash_of(const uint64_t *frames, unsigned n_frames) {
    uint64_t hash = n_frames + 1;
    for (unsigned i = 0; i < n_frames; i++) {
        hash = (hash ^ frames[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash ? hash : 1;
}

/* The stack's row, or the row for it; NULL if there is no memory for the table. */
static struct cushim_trace_known_stack *find(struct cushim_trace_writer *writer, uint64_t hash) {
    size_t n_bytes = CUSHIM_TRACE_STACKS * sizeof *writer->stacks;
    if (!writer->stacks) {
        void *stacks =
            mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stacks == MAP_FAILED)
            return NULL;
        writer->stacks = stacks;
    }
    /* a full table is emptied: stacks are then written again, under other numbers */
    if (writer->n_stacks % (CUSHIM_TRACE_STACKS / 2) == CUSHIM_TRACE_STACKS / 2 - 1)
        memset(writer->stacks, 0, n_bytes);
    size_t i = hash % CUSHIM_TRACE_STACKS;
    while (writer->stacks[i].hash && writer->stacks[i].hash != hash)
        i = (i + 1) % CUSHIM_TRACE_STACKS;
    return &writer->stacks[i];
}

/* Write the lines of Python that were not written yet. */
static void tell_lines(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                       const uint64_t *frames, unsigned n_frames, uint64_t time_ns) {
    for (unsigned i = 0; i < n_frames; i++) {
        const struct cushim_python_line *line =
            frames[i] & CUSHIM_PYTHON_BIT ? cushim_python_line(frames[i]) : NULL;
        struct cushim_trace_known_stack *known = line ? find(writer, line->frame) : NULL;
        if (!known || known->hash)
            continue;
        *known = (struct cushim_trace_known_stack){line->frame, ++writer->n_stacks};
        cushim_trace_put(trace, writer,
                         &(struct cushim_trace_event){.code = CUSHIM_TRACE_MODULE,
                                                      .time_ns = time_ns,
                                                      .address = line->frame,
                                                      .n_bytes = 1,
                                                      .number = line->number,
                                                      .text = line->text,
                                                      .text_bytes = line->n_text});
    }
}

uint64_t cushim_trace_stack(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                            const uint64_t *frames, unsigned n_frames, uint64_t time_ns) {
    if (!n_frames || writer->is_busy || !atomic_load_explicit(&trace->is_on, memory_order_relaxed))
        return 0;
    uint64_t hash = hash_of(frames, n_frames);
    struct cushim_trace_known_stack *known = find(writer, hash);
    if (!known)
        return 0;
    if (!known->hash) {
        cushim_trace_modules_tell(trace, writer, frames, n_frames, time_ns);
        tell_lines(trace, writer, frames, n_frames, time_ns);
        if (!(known = find(writer, hash))) /* lines may have emptied the table */
            return 0;
        *known = (struct cushim_trace_known_stack){hash, ++writer->n_stacks};
        cushim_trace_put(trace, writer,
                         &(struct cushim_trace_event){.code = CUSHIM_TRACE_STACK,
                                                      .time_ns = time_ns,
                                                      .number = known->number,
                                                      .n_frames = n_frames,
                                                      .frames = frames});
    }
    return known->number;
}
