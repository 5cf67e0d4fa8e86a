/*
 * A recording: the events of a process, in one file that is complete however that process ends.
 *
 * The file is a head and then chunks.  One thread at a time writes a chunk, through a shared
 * mapping. An event is a byte (code and flags), the time since the event before it, and its fields
 * as numbers of variable length; docs/internals/trace-format.md has the bytes.  Writer and reader
 * share this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUSHIM_TRACE_MAGIC       "CUSHIMTR"
#define CUSHIM_TRACE_CHUNK_MAGIC "CUSHIMCH"
#define CUSHIM_TRACE_ENDING      ".trace"

enum {
    CUSHIM_TRACE_VERSION = 2,
    CUSHIM_TRACE_HEAD_BYTES = 4096,
    CUSHIM_TRACE_CHUNK_HEAD_BYTES = 64,
    CUSHIM_TRACE_LEAST_CHUNK_BYTES = 16 << 10, /* a chunk has this times a power of two */
    CUSHIM_TRACE_MOST_CHUNK_BYTES = 256 << 10,
    CUSHIM_TRACE_FRAMES = 32,
    CUSHIM_TRACE_TEXT_BYTES = 1024, /* of a path or a name, with the final 0 */
    CUSHIM_TRACE_EVENT_BYTES = 1536 /* no event is longer */
};

enum cushim_trace_state {
    CUSHIM_TRACE_RUNNING = 1, /* or it ended without a word */
    CUSHIM_TRACE_ENDED,       /* normally */
    CUSHIM_TRACE_FAILED,      /* the file could not grow, or was cut: `error` has the reason */
    CUSHIM_TRACE_FULL,        /* the file reached its largest size */
    CUSHIM_TRACE_STOPPED      /* the process ran on (`cushim record --pid`) */
};

/* Written once before the first event, except for the atomic fields. */
struct cushim_trace_head {
    char magic[8];
    uint32_t version, head_bytes;
    atomic_uint_fast64_t state; /* enum cushim_trace_state */
    atomic_uint_fast64_t error; /* an errno */
    atomic_uint_fast64_t n_lost;
    atomic_uint_fast64_t end_ns; /* if it was killed, `cushim record` writes it; 0: unknown */
    uint64_t process, run, start_ns, start_wall_ns;
    uint64_t is_relaxed;
    char program[64], product[64], host[64];
    char arguments[1024], folder[1024];
    uint64_t next_rank, ranks; /* one more than the rank that a launcher gave it, and the number of
                                  ranks; 0: unknown */
    atomic_uint_fast64_t next_status; /* one more than the status that `cushim record` got from
                                         waitpid(2); 0: unknown */
    atomic_uint_fast64_t is_software; /* the driver is the software device's: no time is a GPU's */
    atomic_uint_fast64_t least_bytes; /* the file was once that long; 0: unknown */
};

/* -1 if unknown. */
static inline int64_t cushim_trace_rank(const struct cushim_trace_head *head) {
    return head->next_rank && head->next_rank <= INT64_MAX ? (int64_t)head->next_rank - 1 : -1;
}

static inline int64_t cushim_trace_ranks(const struct cushim_trace_head *head) {
    return head->ranks && head->ranks <= INT64_MAX ? (int64_t)head->ranks : -1;
}

/* The same for a chunk; events follow after CUSHIM_TRACE_CHUNK_HEAD_BYTES. */
struct cushim_trace_chunk {
    char magic[8];
    uint64_t n_bytes;  /* including this head */
    uint64_t writer;   /* one thread at a time */
    uint64_t sequence; /* of the writer's chunks, from 0 */
    uint64_t start_ns;
    atomic_uint_fast64_t used_bytes; /* of events; stored after them */
};

enum cushim_trace_code {
    CUSHIM_TRACE_NONE,
    CUSHIM_TRACE_ALLOC,   /* address, n_bytes, stack */
    CUSHIM_TRACE_FREE,    /* address */
    CUSHIM_TRACE_WAIT,    /* n_waits, number: nanoseconds; of the thread's last free */
    CUSHIM_TRACE_REFUSE,  /* n_bytes, stack: there was no memory */
    CUSHIM_TRACE_SEGMENT, /* address, n_bytes: memory of the driver's */
    CUSHIM_TRACE_PLACE,   /* device, kind, pool, thread: of this thread's events from here on */
    CUSHIM_TRACE_GONE,    /* number: a pool whose blocks went with its context */
    CUSHIM_TRACE_MARK,    /* text */
    CUSHIM_TRACE_STACK,   /* number, frames: of this writer */
    CUSHIM_TRACE_MODULE,  /* address, n_bytes, number: place in the file; text: its path */
    CUSHIM_TRACE_COPY,    /* n_bytes, number: nanoseconds, text: why it was left to the driver */
    CUSHIM_TRACE_DEVICE,  /* n_bytes: memory of the place's device, text: its name */
    CUSHIM_TRACE_N_CODES
};

/* Of ALLOC. */
#define CUSHIM_TRACE_NO_CALL  1u
#define CUSHIM_TRACE_NATIVELY 2u
#define CUSHIM_TRACE_RESTORED 4u /* no request: its free was refused, or it lived before */
/* For WAIT: not in a free, but before a request was served. */
#define CUSHIM_TRACE_IN_REQUEST 1u
/* For SEGMENT: the driver has it again. */
#define CUSHIM_TRACE_GIVEN_BACK 1u
/* For COPY: large, between host and device; NATIVELY if the driver made it. */
#define CUSHIM_TRACE_TO_HOST 1u
/* For addresses, set by the encoder: not a multiple of 256. */
#define CUSHIM_TRACE_UNALIGNED 8u

struct cushim_trace_event {
    enum cushim_trace_code code;
    unsigned flags;
    uint64_t time_ns;
    uint64_t address, n_bytes, number, stack, n_waits;
    unsigned device, kind;
    uint64_t pool, thread;
    unsigned n_frames;
    const uint64_t *frames;
    const char *text; /* without a final 0 if it was decoded */
    size_t text_bytes;
};

/* The values that events are relative to; at the start of a chunk its start_ns and 0. */
struct cushim_trace_base {
    uint64_t time_ns, address;
};

/* Write an event; `to` has space for CUSHIM_TRACE_EVENT_BYTES.  Returns its length. */
size_t cushim_trace_encode(uint8_t *to, struct cushim_trace_base *base,
                           const struct cushim_trace_event *event);

/*
 * Read the event at `from`.  Only its own fields are set, the others are 0; `frames` has space for
 * CUSHIM_TRACE_FRAMES.  Returns its length; 0: these bytes are no complete event.
 */
size_t cushim_trace_decode(const uint8_t *from, size_t n_bytes, struct cushim_trace_base *base,
                           struct cushim_trace_event *event, uint64_t *frames);
