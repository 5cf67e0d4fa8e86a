#include "trace/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file_read.h"
#include "base/list.h"

struct cushim_trace_place {
    uint64_t at, n_bytes, writer, sequence;
};

/* The bytes read at a time.  A file may claim more than it has, so memory is allocated only for
 * what is there: each writer has a chunk, of which at least a block of the file system exists. */
enum { WINDOW_BYTES = 8192 };
_Static_assert(WINDOW_BYTES >= 2 * CUSHIM_TRACE_EVENT_BYTES, "an event fits behind another one");

/* The chunks of one writer, one after the other. */
struct cushim_trace_cursor {
    size_t next_chunk, end_chunk; /* of the reader's */
    uint64_t events_at;           /* of the chunk, in the file */
    size_t at, used_bytes;        /* behind events_at */
    size_t window_at, window_bytes;
    struct cushim_trace_base base;
    struct cushim_trace_event place;
    struct cushim_trace_event event; /* the next one */
    uint64_t writer;
    uint64_t frames[CUSHIM_TRACE_FRAMES];
    uint8_t window[WINDOW_BYTES];
};

/* ---- opening ---- */

static bool is_chunk(const struct cushim_trace_chunk *chunk) {
    uint64_t n = chunk->n_bytes;
    return memcmp(chunk->magic, CUSHIM_TRACE_CHUNK_MAGIC, sizeof chunk->magic) == 0 &&
           n >= CUSHIM_TRACE_LEAST_CHUNK_BYTES && n <= CUSHIM_TRACE_MOST_CHUNK_BYTES &&
           !(n & (n - 1));
}

static int add_chunk(struct cushim_trace_reader *reader, uint64_t at,
                     const struct cushim_trace_chunk *chunk) {
    struct cushim_trace_place *place;
    uint64_t rest_bytes = reader->file_bytes - at; /* the last one may be cut */
    LIST_ADD(reader->chunks, reader->n_chunks, place);
    if (!place)
        return ENOMEM;
    *place = (struct cushim_trace_place){at, cushim_least(chunk->n_bytes, rest_bytes),
                                         chunk->writer, chunk->sequence};
    return 0;
}

/* The next place from `at` on where a chunk may begin; holes of the file have none. */
static uint64_t skip_hole(const struct cushim_trace_reader *reader, uint64_t at) {
    off_t data = lseek(reader->file, (off_t)at, SEEK_DATA);
    if (data < 0)
        return errno == ENXIO ? reader->file_bytes : at;
    return at +
           ((uint64_t)data - at) / CUSHIM_TRACE_LEAST_CHUNK_BYTES * CUSHIM_TRACE_LEAST_CHUNK_BYTES;
}

/* All chunks begin at a multiple of the smallest size after the head. */
static int find_chunks(struct cushim_trace_reader *reader) {
    uint64_t at = CUSHIM_TRACE_HEAD_BYTES;
    int error = 0;
    bool is_cut = reader->file_bytes < atomic_load(&reader->head.least_bytes);
    while (!error && at + CUSHIM_TRACE_CHUNK_HEAD_BYTES <= reader->file_bytes) {
        struct cushim_trace_chunk chunk;
        error = cushim_file_read(reader->file, &chunk, sizeof chunk, at);
        bool is_one = !error && is_chunk(&chunk);
        if (is_one) {
            is_cut |= chunk.n_bytes > reader->file_bytes - at;
            error = add_chunk(reader, at, &chunk);
        }
        at = is_one ? at + chunk.n_bytes : skip_hole(reader, at + CUSHIM_TRACE_LEAST_CHUNK_BYTES);
    }
    reader->n_damaged += is_cut;
    return error;
}

static int by_writer(const void *left, const void *right) {
    const struct cushim_trace_place *a = left, *b = right;
    int order = cushim_order(a->writer, b->writer);
    return order ? order : cushim_order(a->sequence, b->sequence);
}

/* A cursor for each writer, before its first chunk. */
static int make_cursors(struct cushim_trace_reader *reader) {
    size_t n = 0;
    if (reader->n_chunks)
        qsort(reader->chunks, reader->n_chunks, sizeof *reader->chunks, by_writer);
    for (size_t i = 0; i < reader->n_chunks; i++)
        n += !i || reader->chunks[i].writer != reader->chunks[i - 1].writer;
    reader->cursors = calloc(n ? n : 1, sizeof *reader->cursors);
    reader->queue = calloc(n ? n : 1, sizeof *reader->queue);
    if (!reader->cursors || !reader->queue)
        return ENOMEM;
    for (size_t i = 0; i < reader->n_chunks; i++) {
        if (!i || reader->chunks[i].writer != reader->chunks[i - 1].writer)
            reader->cursors[reader->n_cursors++] =
                (struct cushim_trace_cursor){.next_chunk = i, .writer = reader->chunks[i].writer};
        reader->cursors[reader->n_cursors - 1].end_chunk = i + 1;
    }
    return 0;
}

static int read_head(struct cushim_trace_reader *reader) {
    struct cushim_trace_head *head = &reader->head;
    struct stat status;
    if (fstat(reader->file, &status) != 0)
        return errno;
    if (!S_ISREG(status.st_mode))
        return ENOEXEC;
    int error = cushim_file_read(reader->file, head, sizeof *head, 0);
    if (error)
        return error;
    if (fstat(reader->file, &status) != 0) /* again, because it may grow, and the head says so */
        return errno;
    reader->file_bytes = (uint64_t)status.st_size;
    if (memcmp(head->magic, CUSHIM_TRACE_MAGIC, sizeof head->magic) != 0)
        return ENOEXEC;
    if (head->version != CUSHIM_TRACE_VERSION || head->head_bytes != CUSHIM_TRACE_HEAD_BYTES)
        return EPROTONOSUPPORT;
    head->program[sizeof head->program - 1] = head->product[sizeof head->product - 1] = 0;
    head->host[sizeof head->host - 1] = head->arguments[sizeof head->arguments - 1] = 0;
    head->folder[sizeof head->folder - 1] = 0;
    return 0;
}

/* ---- events ---- */

/* Go to the writer's next chunk; false: there is none. */
static bool turn(struct cushim_trace_reader *reader, struct cushim_trace_cursor *cursor) {
    while (cursor->next_chunk < cursor->end_chunk) {
        const struct cushim_trace_place *place = &reader->chunks[cursor->next_chunk++];
        struct cushim_trace_chunk head;
        if (cushim_file_read(reader->file, &head, sizeof head, place->at) != 0) {
            reader->n_damaged++;
            continue;
        }
        uint64_t used_bytes = atomic_load(&head.used_bytes);
        uint64_t most_bytes = place->n_bytes - CUSHIM_TRACE_CHUNK_HEAD_BYTES;
        bool is_cut = place->n_bytes < head.n_bytes; /* which find_chunks counted */
        reader->n_damaged += !is_cut && used_bytes > most_bytes;
        cursor->used_bytes = used_bytes < most_bytes ? used_bytes : most_bytes;
        cursor->events_at = place->at + CUSHIM_TRACE_CHUNK_HEAD_BYTES;
        cursor->at = cursor->window_at = cursor->window_bytes = 0;
        cursor->base = (struct cushim_trace_base){head.start_ns, 0};
        return true;
    }
    return false;
}

/* Make the window contain the next event, as far as it is in the chunk; false: it cannot be read.
 */
static bool look_ahead(const struct cushim_trace_reader *reader,
                       struct cushim_trace_cursor *cursor) {
    size_t end = cursor->window_at + cursor->window_bytes;
    if (end == cursor->used_bytes || end - cursor->at >= CUSHIM_TRACE_EVENT_BYTES)
        return true;
    size_t rest_bytes = cursor->used_bytes - cursor->at;
    cursor->window_at = cursor->at;
    cursor->window_bytes = rest_bytes < WINDOW_BYTES ? rest_bytes : WINDOW_BYTES;
    return cushim_file_read(reader->file, cursor->window, cursor->window_bytes,
                            cursor->events_at + cursor->at) == 0;
}

static void take_place(struct cushim_trace_cursor *cursor) {
    struct cushim_trace_event *event = &cursor->event;
    if (event->code == CUSHIM_TRACE_PLACE)
        cursor->place = *event;
    event->device = cursor->place.device;
    event->kind = cursor->place.kind;
    event->pool = cursor->place.pool;
    event->thread = cursor->place.thread;
}

/* False: the writer has no more events. */
static bool advance(struct cushim_trace_reader *reader, struct cushim_trace_cursor *cursor) {
    for (;;) {
        while (cursor->at == cursor->used_bytes) {
            if (!turn(reader, cursor))
                return false;
        }
        size_t n = 0;
        if (look_ahead(reader, cursor)) {
            size_t in_window = cursor->at - cursor->window_at;
            n = cushim_trace_decode(cursor->window + in_window, cursor->window_bytes - in_window,
                                    &cursor->base, &cursor->event, cursor->frames);
        }
        if (n) {
            cursor->at += n;
            take_place(cursor);
            return true;
        }
        reader->n_damaged++;
        cursor->at = cursor->used_bytes;
    }
}

/* ---- the queue: a heap of the cursors that have an event, the earliest one first ---- */

static bool is_before(const struct cushim_trace_cursor *a, const struct cushim_trace_cursor *b) {
    return a->event.time_ns != b->event.time_ns ? a->event.time_ns < b->event.time_ns : a < b;
}

/* Put a cursor where `i` is, or below. */
static void sink(struct cushim_trace_reader *reader, size_t i, struct cushim_trace_cursor *cursor) {
    struct cushim_trace_cursor **queue = reader->queue;
    for (size_t child; (child = 2 * i + 1) < reader->n_queued; i = child) {
        if (child + 1 < reader->n_queued && is_before(queue[child + 1], queue[child]))
            child++;
        if (!is_before(queue[child], cursor))
            break;
        queue[i] = queue[child];
    }
    queue[i] = cursor;
}

static void begin_queue(struct cushim_trace_reader *reader) {
    for (size_t i = 0; i < reader->n_cursors; i++) {
        if (advance(reader, &reader->cursors[i]))
            reader->queue[reader->n_queued++] = &reader->cursors[i];
    }
    for (size_t i = reader->n_queued / 2; i-- > 0;)
        sink(reader, i, reader->queue[i]);
    reader->is_begun = true;
}

bool cushim_trace_reader_next(struct cushim_trace_reader *reader, struct cushim_trace_event *event,
                              uint64_t *writer) {
    if (!reader->is_begun) {
        begin_queue(reader);
    } else if (reader->n_queued) { /* the first was handed out, so its bytes had to stay */
        struct cushim_trace_cursor *first = reader->queue[0];
        if (!advance(reader, first))
            first = reader->queue[--reader->n_queued];
        if (reader->n_queued)
            sink(reader, 0, first);
    }
    if (!reader->n_queued)
        return false;
    *event = reader->queue[0]->event;
    *writer = reader->queue[0]->writer;
    return true;
}

int cushim_trace_reader_open(struct cushim_trace_reader *reader, const char *path) {
    *reader = (struct cushim_trace_reader){
        .file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC),
    };
    if (reader->file < 0)
        return errno;
    int error = read_head(reader);
    if (!error)
        error = find_chunks(reader);
    if (!error)
        error = make_cursors(reader);
    if (error)
        cushim_trace_reader_close(reader);
    return error;
}

void cushim_trace_reader_close(struct cushim_trace_reader *reader) {
    free(reader->queue);
    free(reader->cursors);
    free(reader->chunks);
    close(reader->file);
    *reader = (struct cushim_trace_reader){.file = -1};
}
