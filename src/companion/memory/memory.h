/*
 * What the functions on memory share: allocating and freeing it, and calls on ranges of it.
 *
 * Invariant: an address is in the address map from after the driver gave it until before the driver
 * takes it back.  A call on ranges looks each up first, then chooses its context: the stream's,
 * else that of a range, else as every call does; it keeps the rows it found until it ends.
 */
#pragma once

#include "cushim/memory.h"
#include "companion/context/address_map.h"
#include "companion/context/call.h"

/* INVALID above 2^63-1, because a binding may have converted a negative number; NOCUDA if there is
 * no driver. */
enum cushim_status cushim_memory_check_bytes(const char *what, const char *name, size_t bytes);

/* The same in a public function that has nothing to do for 0 bytes. */
#define CUSHIM_SOME_BYTES(what, bytes)                                                             \
    do {                                                                                           \
        CUSHIM_TRY(cushim_memory_check_bytes(what, "bytes", bytes));                               \
        if (!(bytes))                                                                              \
            return CUSHIM_OK;                                                                      \
    } while (0)

/* ---- getting it ---- */

struct cushim_memory_request {
    const char *entry;            /* of the driver, for the text */
    enum cushim_memory_kind kind; /* of the row */
    unsigned flags;               /* of the row */
    size_t bytes;                 /* as asked, and in the row; `obtain` may set it */
    struct cushim_object *owner;  /* of the row, which then shares the driver's allocation */
    CUresult (*obtain)(struct cushim_memory_request *request,
                       CUdeviceptr *address); /* with a pool: cuMemFreeAsync instead */
    size_t width_bytes, rows, pitch_bytes;    /* rows */
    unsigned elem_bytes;
    CUstream stream; /* stream-ordered */
    CUmemoryPool pool;
};

/**
 * Ask the driver, put the address into the ledger.
 * @param scope    its context is the memory's
 * @param address  0 after a failure
 * @return CUSHIM_OK | CUSHIM_NOMEM | what the driver said; the text is set
 */
enum cushim_status cushim_memory_obtain(struct cushim_scope *scope,
                                        struct cushim_memory_request *request, uint64_t *address);

/* cuMemAlloc as a request. */
void cushim_memory_plain(struct cushim_memory_request *request, size_t bytes);

/* The same of managed memory; flags: the driver's. */
void cushim_memory_managed(struct cushim_memory_request *request, size_t bytes, unsigned flags);

/* ---- giving it back ---- */

/* A kind as a bit of the sets below. */
#define CUSHIM_MEMORY_KIND(KIND) (1u << CUSHIM_MEMORY_##KIND)

/* The free functions, each with the kinds that it takes: see cushim_memory_free for the answers. */
enum cushim_status cushim_memory_give_back(const char *what, unsigned kinds, uint64_t start);

/*
 * Take the row of `start` out, if it is of these kinds; else refuse as a free does.  The caller
 * restores or drops the row.  If row->context is NULL, it was a block that outlived its pool, and
 * it is freed already.
 */
enum cushim_status cushim_memory_take(const char *what, unsigned kinds, uint64_t start,
                                      struct cushim_address_map_row *row);

/* The owner that must free the memory of a row. */
enum cushim_memory_owner cushim_memory_owner_of(const struct cushim_address_map_row *row);

/* A kind in words, for texts. */
const char *cushim_memory_kind_name(enum cushim_memory_kind kind);

/* ---- calls on ranges ---- */

enum cushim_memory_place {
    CUSHIM_MEMORY_ANYWHERE, /* the address decides */
    CUSHIM_MEMORY_AT_HOST,
    CUSHIM_MEMORY_AT_DEVICE
};

struct cushim_memory_range {
    const char *name; /* of the argument, for the text */
    uint64_t address;
    size_t bytes;
    enum cushim_memory_place place;
    bool is_known;                     /* filled by enter: `row` covers the address */
    struct cushim_address_map_row row; /* kept until leave */
};

static inline struct cushim_memory_range cushim_memory_span(const char *name, uint64_t address,
                                                            size_t bytes,
                                                            enum cushim_memory_place place) {
    return (struct cushim_memory_range){
        .name = name, .address = address, .bytes = bytes, .place = place};
}

enum { CUSHIM_MEMORY_N_RANGES = 2 };

struct cushim_memory_call {
    struct cushim_scope scope;
    CUstream stream; /* as the driver takes it */
    struct cushim_memory_range ranges[CUSHIM_MEMORY_N_RANGES];
    unsigned n_ranges;
    bool is_peer; /* ranges may be of two contexts: the caller judges them */
    struct cushim_context_object *ends[2]; /* of cushim_memory_ends; kept until leave */
    struct cushim_context *ctx; /* used if neither stream nor ranges give one; may be NULL */
};

/**
 * Begin a call on call->ranges.
 * @param what    our public function
 * @param stream  any stream argument of the public API
 * @return CUSHIM_OK (then cushim_memory_leave) | INVALID | BADDEVICE | BADHANDLE | DEADCONTEXT | ..
 */
enum cushim_status cushim_memory_enter(struct cushim_memory_call *call, const char *what,
                                       struct cushim_stream *stream);

enum cushim_status cushim_memory_leave(struct cushim_memory_call *call, enum cushim_status status);

/* A call that leaves with its block, if it entered: CUSHIM_MEMORY_CALL call = {0}; */
#define CUSHIM_MEMORY_CALL                                                                         \
    __attribute__((cleanup(cushim_memory_call_close))) struct cushim_memory_call

static inline void cushim_memory_call_close(struct cushim_memory_call *call) {
    cushim_memory_leave(call, CUSHIM_OK);
}

/* CAPTURE if work on call->stream would invalidate a capture, as it may on the legacy stream. */
enum cushim_status cushim_memory_may_queue(struct cushim_memory_call *call);

/* Wait for the work on call->stream, and note that it is over. */
enum cushim_status cushim_memory_wait(struct cushim_memory_call *call);

/**
 * Fill call->ends with the contexts of two ends, destination first: of the ledger, given, or the
 * call's; an end in host or managed memory goes with the other one.
 * @return CUSHIM_OK | BADDEVICE (the ledger knows another) | BADHANDLE | DEADCONTEXT
 */
enum cushim_status cushim_memory_ends(struct cushim_memory_call *call, struct cushim_context *dctx,
                                      struct cushim_context *sctx);

/* BADDEVICE unless the stream of the call belongs to one of its ends. */
enum cushim_status cushim_memory_judge_stream(struct cushim_memory_call *call);

/* Whether memory of this kind belongs to one context; host and managed memory does not. */
bool cushim_memory_is_bound(const struct cushim_address_map_row *row);

/* Enter a stream's context: of the handle, else `context` if that is not NULL, else of `ctx` as
 * every call; *handle is what the driver takes. */
enum cushim_status cushim_memory_enter_stream(struct cushim_scope *scope, const char *what,
                                              struct cushim_stream *stream,
                                              struct cushim_context_object *context,
                                              struct cushim_context *ctx, CUstream *handle);
