/*
 * The page: the counters of a process, in one object.
 *
 * A report is made only from a page, so that it can be made for another process, or for one that
 * has ended.  The thread that counts writes the counters with relaxed atomics; the thread that
 * reads the options writes the head once.
 */
#pragma once

#include "memory/policy.h"
#include "memory/stats.h"

/* The kinds of the allocator, and those that the driver alone serves.  The last two are no memory
 * that the program asked for here. */
enum cushim_kind {
    CUSHIM_KIND_DEVICE = CUSHIM_MEM_DEVICE,
    CUSHIM_KIND_MANAGED = CUSHIM_MEM_MANAGED,
    CUSHIM_KIND_PINNED = CUSHIM_MEM_PINNED,
    CUSHIM_KIND_ASYNC,
    CUSHIM_KIND_MAPPED, /* by cuMemCreate */
    CUSHIM_KIND_ARRAY,
    CUSHIM_KIND_GRAPH,    /* of nodes that allocate */
    CUSHIM_KIND_SPILLED,  /* device memory to the program, but it lies on the host (CUSHIM_SPILL) */
    CUSHIM_KIND_IMPORTED, /* another process or interface made it, and has it in its sum */
    CUSHIM_KIND_CONTEXT,  /* what contexts and modules take, if it is measured */
    CUSHIM_N_KINDS
};

/* Those that count in the sum of what this process has of a device. */
enum {
    CUSHIM_KINDS_ON_DEVICE =
        ~(1 << CUSHIM_KIND_PINNED | 1 << CUSHIM_KIND_SPILLED | 1 << CUSHIM_KIND_IMPORTED)
};

static inline bool cushim_kind_is_on_device(unsigned kind) {
    return CUSHIM_KINDS_ON_DEVICE >> kind & 1;
}

enum cushim_direction {
    CUSHIM_HOST_TO_DEVICE,
    CUSHIM_DEVICE_TO_HOST,
    CUSHIM_DEVICE_TO_DEVICE,
    CUSHIM_HOST_TO_HOST,
    CUSHIM_BY_ADDRESS, /* the addresses decide; counted as what they turn out to be */
    CUSHIM_SET,
    CUSHIM_N_DIRECTIONS
};

/* The kind of the host memory, if there is any: pinned ends move several times faster. */
enum cushim_host_memory {
    CUSHIM_HOST_NONE,
    CUSHIM_HOST_PAGEABLE,
    CUSHIM_HOST_PINNED,
    CUSHIM_N_HOST_MEMORIES
};

/* The reason why the driver made a copy that was large enough to be staged. */
#define CUSHIM_COPY_REASONS(REASON)                                                                \
    REASON(CAPTURE, capture, "a stream capture was open")                                          \
    REASON(HOST_FUNCTION, host_function, "inside a host function")                                 \
    REASON(PROCESSORS, processors, "the thread may run on only one processor")                     \
    REASON(KERNEL, kernel, "the kernel is older than Linux 5.14, or a sandbox's")                  \
    REASON(SHAPE, shape, "its rows are too short")                                                 \
    REASON(PLACE, place, "not between pageable memory and the current device")                     \
    REASON(STREAM, stream, "its stream was busy, and the driver need not wait")                    \
    REASON(WAIT, wait, "its stream had an error, or could not be waited for")                      \
    REASON(RING, ring, "no pinned memory or no stream was to be had")                              \
    REASON(HOST, host, "part of the host memory was missing")                                      \
    REASON(DRIVER, driver, "the driver refused a transfer")                                        \
    REASON(BATCH, batch, "in a batch that cannot be staged as a whole")

enum cushim_copy_reason {
#define REASON(name, word, text) CUSHIM_COPY_REASON_##name,
    CUSHIM_COPY_REASONS(REASON)
#undef REASON
        CUSHIM_N_COPY_REASONS
};

/* What moved large pageable copies (CUSHIM_COPY_STAGE_MIN and more): the driver's own call, or
 * ours. */
enum cushim_copy_path { CUSHIM_COPY_BY_DRIVER, CUSHIM_COPY_STAGED, CUSHIM_N_COPY_PATHS };

struct cushim_copy_counts {
    /* Counted if a report is asked for; the next ones also if there is a live page. */
    atomic_uint_fast64_t n_copies[CUSHIM_N_DIRECTIONS][CUSHIM_N_HOST_MEMORIES];
    atomic_uint_fast64_t n_bytes[CUSHIM_N_DIRECTIONS][CUSHIM_N_HOST_MEMORIES];
    /* For large pageable copies.  Second index 1: from the device to the host.  The driver's time
     * is that of the call, with its wait for earlier work; ours begins after that wait. */
    struct {
        atomic_uint_fast64_t n_copies, n_bytes, ns;
    } large[CUSHIM_N_COPY_PATHS][2];
    atomic_uint_fast64_t n_left[CUSHIM_N_COPY_REASONS];
};

enum { CUSHIM_MAX_DEVICES = 64, CUSHIM_NAME_BYTES = 64, CUSHIM_PAGE_BYTES = 4096 };

/* Several texts, each ended by a 0; what does not fit is cut off. */
enum { CUSHIM_PAGE_ARGUMENTS_BYTES = 1024, CUSHIM_PAGE_OPTIONS_BYTES = 512 };

/* For the end of a path, and for a PCI address. */
enum { CUSHIM_PAGE_FOLDER_BYTES = 256, CUSHIM_PCI_BYTES = 16 };

/* The number of threads' caches that have a row of their own behind the page, and the size of a
 * row. */
enum { CUSHIM_PAGE_CACHES = 128, CUSHIM_PAGE_CACHE_BYTES = 4096 };

/* ---- records: the last ones of a kind, read complete or not at all (page_ring.h) ---- */

enum { CUSHIM_PAGE_MARKS = 32, CUSHIM_PAGE_SHORTAGES = 8, CUSHIM_PAGE_FINDINGS = 16 };

/* A moment that the program named (page_mark.h). */
struct cushim_page_mark {
    uint64_t ns; /* of cushim_clock_ns */
    uint64_t live_bytes, held_bytes;
    char name[64];
};

/* A place in a loaded file, or a line of Python. */
#define CUSHIM_PAGE_PYTHON (UINT64_C(1) << 63)
struct cushim_page_frame {
    uint64_t offset; /* as the file's own symbols count; of Python that bit, and the line */
    char file[128], function[56];
};

/* A request that found no memory (shortage.h). */
struct cushim_page_shortage {
    uint64_t ns, device, kind, asked_bytes;
    uint64_t device_bytes, limit_bytes; /* of the device; of this process, 0 if it has none */
    uint64_t group_bytes;               /* what others have of the limit, if it is a group's */
    uint64_t live_bytes, rounding_bytes, spare_bytes, idle_bytes, held_bytes;
    uint64_t pending_bytes, cached_bytes, retired_bytes, largest_free_bytes; /* not live */
    uint64_t is_busy; /* the device did not become quiet in time */
    uint64_t drained_bytes, returned_bytes, others_bytes; /* what each step gave */
    uint64_t is_native; /* the driver was asked for it as it was, so that nothing was tried */
    /* by the driver's word at that moment, if it gave it (total_bytes is not 0), and what this
     * process has there of each kind */
    uint64_t total_bytes, free_bytes, plain_bytes, async_bytes, mapped_bytes, array_bytes;
    uint64_t graph_bytes, context_bytes;
    uint64_t pools_bytes;   /* of async_bytes: the driver's pools keep it, and it is not live */
    uint64_t spilled_bytes; /* what lies in host memory for CUSHIM_SPILL */
    uint64_t served_bytes;  /* by the thread's next request of the kind, within a second */
    struct cushim_page_other {
        uint64_t process, n_bytes; /* 0 bytes: none */
        char program[32];
    } others[3]; /* that held most of the device, by their live pages */
    struct cushim_page_blocks {
        uint64_t n, n_bytes;
    } blocks[6]; /* live blocks by size, the sizes with most bytes first */
    uint64_t n_frames;
    struct cushim_page_frame frames[8];
};

/* What the check found (finding.h). */
struct cushim_page_finding {
    uint64_t is_refusal; /* 1: a refused call; 2: one that the driver served; 0: damage that a call
                          * found */
    uint64_t address, n_bytes, offset, found, span_bytes;
    char fault[24], harm[40], call[48], text[256];
    uint64_t n_obtained, n_freed, n_at; /* frames */
    struct cushim_page_frame obtained[6], freed[6], at[6];
};

/* Which call first asked for the context of a device, if there are several devices. */
struct cushim_page_made {
    atomic_uint_fast64_t is_known; /* written last */
    uint64_t n_at;                 /* frames */
    char call[40];
    struct cushim_page_frame at[6];
};

/* ---- sites (site.h): if the user asked for them, they follow the caches' rows in the file ---- */

enum { CUSHIM_PAGE_SITES = 1024, CUSHIM_PAGE_SITE_FRAMES = 6, CUSHIM_PAGE_SITE_MOMENTS = 16 };

/* In the key of a site: its blocks are spilled. */
#define CUSHIM_PAGE_SITE_SPILLED UINT64_C(1)

/* A place in the program that asked for memory: one call stack. */
struct cushim_page_site {
    atomic_uint_fast64_t key;       /* of the stack, written last; 0: the row is free */
    atomic_uint_fast64_t n_live;    /* blocks, in parts of CUSHIM_SITE_WHOLE */
    atomic_uint_fast64_t gap_bytes; /* by how much the live samples are smaller than the mean */
    atomic_uint_fast64_t live_bytes, peak_live_bytes;
    /* live bytes at moments that have equally many events of the site, and when each ended */
    atomic_uint_fast64_t n_events, moments[CUSHIM_PAGE_SITE_MOMENTS];
    atomic_uint_fast64_t moments_ns[CUSHIM_PAGE_SITE_MOMENTS];
    uint64_t n_frames;
    struct cushim_page_frame frames[CUSHIM_PAGE_SITE_FRAMES];
};

struct cushim_page_sites {
    _Alignas(CUSHIM_PAGE_BYTES) atomic_uint_fast64_t n_lost; /* samples that found no row left */
    struct cushim_page_site rows[CUSHIM_PAGE_SITES];
};

/* A record in a page has its number before and behind it. */
#define CUSHIM_PAGE_ROW(record) (sizeof(struct record) / 8 + 2)

/* Left: a normal end, and `cushim run` is to write the report. */
enum cushim_page_state { CUSHIM_PAGE_RUNNING = 1, CUSHIM_PAGE_REPORTED, CUSHIM_PAGE_LEFT };

#define CUSHIM_PAGE_MAGIC "CUSHIMLV"

/* What another process asks for (preload/state/control.h): it adds a bit to `calls`, and then
 * raises n_asked. */
enum cushim_page_call {
    CUSHIM_PAGE_CALL_TRIM = 1,
    CUSHIM_PAGE_CALL_RECORD = 2,  /* in `folder` until record_until_ns, which a command moves on */
    CUSHIM_PAGE_CALL_SNAPSHOT = 4 /* only what lives now */
};
enum { CUSHIM_PAGE_RECORDING_BYTES = 512 };

struct cushim_page_control {
    atomic_uint n_asked, n_answered;
    atomic_uint calls;            /* enum cushim_page_call */
    atomic_uint has_thread;       /* one waits for n_asked to rise; if not, a later call answers */
    atomic_uint_fast64_t n_bytes; /* the answer of a trim */
    atomic_uint_fast64_t record_until_ns; /* of cushim_clock_ns */
    atomic_uint n_claims, claim; /* how many commands wanted to record; of which there is one on */
    atomic_uint record_error;    /* an errno: why it could not begin */
    char folder[CUSHIM_PAGE_RECORDING_BYTES];
};

struct cushim_page_head {
    char magic[8];
    uint64_t layout;            /* cushim_page_layout: readers accept only their own */
    atomic_uint_fast64_t state; /* enum cushim_page_state */
    atomic_uint_fast64_t n_caches, n_lost_caches; /* with a row, and those that found none left */
    uint64_t address; /* of the page in the process that counts, because caches name their counters
                         by it */
    uint64_t run;     /* of the `cushim run` that started it, also in children; 0: none */
    int64_t process;
    int64_t rank, ranks;   /* from a launcher, and the number of ranks; -1: unknown */
    uint64_t end_ns;       /* of a normal end, if the state is left; as start_ns */
    uint64_t start_ns;     /* of cushim_clock_ns, which all processes of a machine share */
    uint64_t is_relaxed;   /* --free=relaxed */
    uint64_t sample_bytes; /* of --sites; 0: there are none */
    uint64_t is_locked;    /* the process holds a lock on the file for as long as it lives */
    uint64_t namespace;    /* of process numbers, as the kernel numbers them; 0: unknown */
    char program[CUSHIM_NAME_BYTES];
    char version[CUSHIM_NAME_BYTES]; /* of the preload that counts */
    char host[CUSHIM_NAME_BYTES];
    char boot[CUSHIM_NAME_BYTES];          /* of the kernel: times of one boot are of one clock */
    char folder[CUSHIM_PAGE_FOLDER_BYTES]; /* in which it was started */
    atomic_uint_fast64_t driver_version;   /* 13000: CUDA 13.0; 0: it got no memory */
    atomic_uint_fast64_t is_software;      /* the driver is that of tools/sim: no GPU */
    uint64_t n_argument_bytes, n_option_bytes;   /* used bytes of the two below */
    char arguments[CUSHIM_PAGE_ARGUMENTS_BYTES]; /* of the program, its own name first */
    char options[CUSHIM_PAGE_OPTIONS_BYTES];     /* "name=value": those that were set */
    struct cushim_page_control control;
    /* `cushim limit` writes the row (cushim_amount_pack; 0: it did not), then raises n_limits. */
    atomic_uint_fast64_t n_limits, limits[CUSHIM_MAX_DEVICES];
    atomic_uint_fast64_t limit_bytes[CUSHIM_MAX_DEVICES]; /* that it obeys now; 0: none */
};

struct cushim_page {
    _Alignas(CUSHIM_PAGE_BYTES) struct cushim_page_head head;
    _Alignas(64) struct cushim_mem_stats stats[CUSHIM_MAX_DEVICES][CUSHIM_N_KINDS];
    char device_names[CUSHIM_MAX_DEVICES][CUSHIM_NAME_BYTES]; /* "": it got no memory there */
    unsigned char device_uuids[CUSHIM_MAX_DEVICES][16];       /* zeros: as above, or unknown */
    char device_places[CUSHIM_MAX_DEVICES][CUSHIM_PCI_BYTES]; /* PCI addresses: "0000:1B:00.0" */
    struct cushim_copy_counts copies;
    atomic_uint_fast64_t n_foreign_frees; /* of memory whose allocation was not seen */
    atomic_uint_fast64_t
        n_bypassed; /* of these: the driver knew it, so an allocation went around us */
    atomic_uint_fast64_t n_refused_handles; /* IPC handles refused (C2) */
    atomic_uint_fast64_t n_stuck_blocks;    /* freed in a capture, and never reused */
    atomic_uint_fast64_t n_marks, n_shortages, n_findings;
    /* The first forked child that called CUDA in spite of it << 32, and its call; 0: none. */
    atomic_uint_fast64_t orphan;
    atomic_uint_fast64_t n_unchecked; /* blocks that the check could not look at; at a normal end */
    atomic_uint_fast64_t marks[CUSHIM_PAGE_MARKS][CUSHIM_PAGE_ROW(cushim_page_mark)];
    atomic_uint_fast64_t findings[CUSHIM_PAGE_FINDINGS][CUSHIM_PAGE_ROW(cushim_page_finding)];
    atomic_uint_fast64_t shortages[CUSHIM_PAGE_SHORTAGES][CUSHIM_PAGE_ROW(cushim_page_shortage)];
    struct cushim_page_made made[CUSHIM_MAX_DEVICES];
};

/* Copies all but what the caches of threads have not handed in; word by word, because others write.
 */
static inline void cushim_page_copy(struct cushim_page *to, const struct cushim_page *from) {
    atomic_uint_fast64_t *words = (atomic_uint_fast64_t *)to;
    const atomic_uint_fast64_t *sources = (const atomic_uint_fast64_t *)from;
    for (size_t i = 0; i < sizeof *to / sizeof *words; i++)
        atomic_store_explicit(&words[i], cushim_mem_stats_read(&sources[i]), memory_order_relaxed);
}
