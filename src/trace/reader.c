#include "trace/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct cushim_trace_place {
    uint64_t at, n_bytes, writer, sequence;
};

/* The chunks of one writer, one after the other. */
struct cushim_trace_cursor {
    size_t next_chunk, end_chunk; /* of the reader's */
    uint8_t *bytes;
    size_t at, used_bytes;
    struct cushim_trace_base base;
    struct cushim_trace_event place;
    struct cushim_trace_event event; /* the one to come */
    bool has_event;
    uint64_t writer;
    uint64_t frames[CUSHIM_TRACE_FRAMES];
};

static int read_all(int file, void *bytes, size_t n_bytes, uint64_t at) {
    char *to = bytes;
    while (n_bytes) {
        ssize_t n = pread(file, to, n_bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENOEXEC;
        to += n;
        at += (uint64_t)n;
        n_bytes -= (size_t)n;
    }
    return 0;
}

/* ---- opening ---- */

static bool is_chunk(const struct cushim_trace_chunk *chunk) {
    uint64_t n = chunk->n_bytes;
    return memcmp(chunk->magic, CUSHIM_TRACE_CHUNK_MAGIC, sizeof chunk->magic) == 0 &&
           n >= CUSHIM_TRACE_LEAST_CHUNK_BYTES && n <= CUSHIM_TRACE_MOST_CHUNK_BYTES &&
           !(n & (n - 1));
}

static int add_chunk(struct cushim_trace_reader *reader, uint64_t at,
                     const struct cushim_trace_chunk *chunk) {
    size_t n = reader->n_chunks;
    uint64_t rest_bytes = reader->file_bytes - at; /* the last one may be cut */
    if (!(n & (n - 1))) {                          /* as many again */
        void *more = reallocarray(reader->chunks, n ? 2 * n : 1, sizeof *reader->chunks);
        if (!more)
            return ENOMEM;
        reader->chunks = more;
    }
    reader->chunks[reader->n_chunks++] =
        (struct cushim_trace_place){at, chunk->n_bytes < rest_bytes ? chunk->n_bytes : rest_bytes,
                                    chunk->writer, chunk->sequence};
    return 0;
}

/* All chunks begin at a multiple of the least one's size behind the head. */
static int find_chunks(struct cushim_trace_reader *reader) {
    uint64_t at = CUSHIM_TRACE_HEAD_BYTES;
    int error = 0;
    while (!error && at + CUSHIM_TRACE_CHUNK_HEAD_BYTES <= reader->file_bytes) {
        struct cushim_trace_chunk chunk;
        error = read_all(reader->file, &chunk, sizeof chunk, at);
        bool is_one = !error && is_chunk(&chunk);
        if (is_one)
            error = add_chunk(reader, at, &chunk);
        at += is_one ? chunk.n_bytes : CUSHIM_TRACE_LEAST_CHUNK_BYTES;
    }
    return error;
}

static int by_writer(const void *left, const void *right) {
    const struct cushim_trace_place *a = left, *b = right;
    if (a->writer != b->writer)
        return a->writer < b->writer ? -1 : 1;
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

/* A cursor for each writer, before its first chunk. */
static int make_cursors(struct cushim_trace_reader *reader) {
    size_t n = 0;
    if (reader->n_chunks)
        qsort(reader->chunks, reader->n_chunks, sizeof *reader->chunks, by_writer);
    for (size_t i = 0; i < reader->n_chunks; i++)
        n += !i || reader->chunks[i].writer != reader->chunks[i - 1].writer;
    reader->cursors = calloc(n ? n : 1, sizeof *reader->cursors);
    if (!reader->cursors)
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
    reader->file_bytes = (uint64_t)status.st_size;
    int error = read_all(reader->file, head, sizeof *head, 0);
    if (error)
        return error;
    if (memcmp(head->magic, CUSHIM_TRACE_MAGIC, sizeof head->magic) != 0 ||
        head->version != CUSHIM_TRACE_VERSION || head->head_bytes != CUSHIM_TRACE_HEAD_BYTES)
        return ENOEXEC;
    head->program[sizeof head->program - 1] = head->product[sizeof head->product - 1] = 0;
    head->host[sizeof head->host - 1] = head->arguments[sizeof head->arguments - 1] = 0;
    head->folder[sizeof head->folder - 1] = 0;
    return 0;
}

/* ---- events ---- */

/* The writer's next chunk in place of this one; false: there is none, or no memory for it. */
static bool turn(struct cushim_trace_reader *reader, struct cushim_trace_cursor *cursor) {
    while (cursor->next_chunk < cursor->end_chunk) {
        const struct cushim_trace_place *place = &reader->chunks[cursor->next_chunk++];
        struct cushim_trace_chunk head;
        uint8_t *bytes = realloc(cursor->bytes, place->n_bytes);
        if (!bytes)
            return false;
        cursor->bytes = bytes;
        if (read_all(reader->file, bytes, place->n_bytes, place->at) != 0)
            continue;
        memcpy(&head, bytes, sizeof head);
        uint64_t used_bytes = atomic_load(&head.used_bytes);
        uint64_t most_bytes = place->n_bytes - CUSHIM_TRACE_CHUNK_HEAD_BYTES;
        reader->n_damaged += used_bytes > most_bytes;
        cursor->used_bytes = used_bytes < most_bytes ? used_bytes : most_bytes;
        cursor->at = 0;
        cursor->base = (struct cushim_trace_base){head.start_ns, 0};
        return true;
    }
    return false;
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

static void advance(struct cushim_trace_reader *reader, struct cushim_trace_cursor *cursor) {
    cursor->has_event = false;
    for (;;) {
        while (cursor->at == cursor->used_bytes) {
            if (!turn(reader, cursor))
                return;
        }
        size_t n = cushim_trace_decode(cursor->bytes + CUSHIM_TRACE_CHUNK_HEAD_BYTES + cursor->at,
                                       cursor->used_bytes - cursor->at, &cursor->base,
                                       &cursor->event, cursor->frames);
        if (n) {
            cursor->at += n;
            cursor->has_event = true;
            take_place(cursor);
            return;
        }
        reader->n_damaged++;
        cursor->at = cursor->used_bytes;
    }
}

bool cushim_trace_reader_next(struct cushim_trace_reader *reader, struct cushim_trace_event *event,
                              uint64_t *writer) {
    struct cushim_trace_cursor *first = NULL;
    for (size_t i = 0; i < reader->n_cursors; i++) {
        struct cushim_trace_cursor *cursor = &reader->cursors[i];
        /* one that was handed out is passed now: its bytes had to stay */
        if (!cursor->has_event)
            advance(reader, cursor);
        if (cursor->has_event && (!first || cursor->event.time_ns < first->event.time_ns))
            first = cursor;
    }
    if (!first)
        return false;
    *event = first->event;
    *writer = first->writer;
    first->has_event = false;
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
    for (size_t i = 0; i < reader->n_cursors; i++)
        free(reader->cursors[i].bytes);
    free(reader->cursors);
    free(reader->chunks);
    close(reader->file);
    *reader = (struct cushim_trace_reader){.file = -1};
}
