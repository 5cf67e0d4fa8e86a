/*
 * One case: its buffers on the host and the device, its runs, and the checks after each.
 *
 * A buffer is one allocation: a guard zone, the operand, a guard zone.  Before each run all of it
 * is written from an image on the host, and afterwards all of it is read back, to find writes
 * beside the outputs.
 *
 * A bare frame has no guard zones, and writes neither scratch nor the elements of an output that
 * the reference writes.  To a sanitizer these are uninitialised, so it sees reads of them.
 */
#include "kernels/tests/frame/frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cushim/cushim.h"

enum { GUARD_BYTES = 4096, ALIGN_BYTES = 256, MOST_TEXT = 160 };
enum { GUARD = 0xA5, POISON = 0xFF, OTHER_POISON = 0x5A };

struct buffer {
    cushim_devptr base;
    size_t start, n_bytes, all_bytes; /* the operand in the allocation, and the whole */
    unsigned char *image;             /* [all_bytes]: what was written */
    unsigned char *first, *after;     /* [all_bytes]: what the first and a later run left */
    void *host;                       /* [n_bytes]: for the reference */
    void *kept;                       /* [n_bytes] of an input, as the first key makes it */
    bool is_input, is_output;
    bool is_compared; /* it is not scratch */
    size_t width;     /* bytes of an element */
};

struct run {
    const struct frame *frame;
    struct kernel_case *c;
    struct CUstream_st *handle;
    struct buffer buffers[MOST_OPERANDS]; /* of roots; the others are all 0 */
    uint64_t key;                         /* of the inputs that are in the images now */
    uint64_t kept_key;
    bool has_kept;
    bool is_ref_done; /* the reference has run on what is in the host arrays */
    const char *stage;
    char *text;
    size_t cap_bytes;
};

static bool fail(struct run *run, const char *why) {
    snprintf(run->text, run->cap_bytes, "%s, key %#llx: %s", run->stage,
             (unsigned long long)run->key, why);
    return false;
}

static bool is_ok(struct run *run, enum cushim_status status, const char *call) {
    char why[2 * MOST_TEXT];
    if (status == CUSHIM_OK)
        return true;
    snprintf(why, sizeof why, "%s: %s, %s", call, cushim_status_name(status), cushim_last_error());
    return fail(run, why);
}

#define OK(run, call) is_ok((run), (call), #call)

/* ---- buffers ---- */

static void *get(size_t n_bytes) {
    size_t rounded = (n_bytes + ALIGN_BYTES) / ALIGN_BYTES * ALIGN_BYTES;
    void *memory = aligned_alloc(ALIGN_BYTES, rounded);
    if (!memory)
        abort();
    return memory;
}

static void lay_out(struct run *run) {
    struct kernel_case *c = run->c;
    for (int i = 0; i < c->n_operands; i++) {
        struct buffer *b = &run->buffers[case_root(c, i)];
        const struct kernel_operand *operand = &c->operands[i];
        size_t n_bytes = operand->n * bytes_of(operand->type);
        enum kernel_role role = operand->role;
        b->n_bytes = n_bytes > b->n_bytes ? n_bytes : b->n_bytes;
        b->is_input = b->is_input || role == ROLE_IN || role == ROLE_BOTH;
        b->is_output = b->is_output || role != ROLE_IN;
        b->is_compared = b->is_compared || role != ROLE_SCRATCH;
        b->width = b->width ? b->width : bytes_of(operand->type);
    }
}

static bool obtain(struct run *run) {
    struct kernel_case *c = run->c;
    for (int i = 0; i < c->n_operands; i++) {
        struct buffer *b = &run->buffers[i];
        size_t guard_bytes = run->frame->is_bare ? 0 : GUARD_BYTES;
        if (!b->n_bytes)
            continue;
        b->start = guard_bytes + c->operands[i].offset;
        b->all_bytes = b->start + b->n_bytes + guard_bytes;
        b->image = get(b->all_bytes);
        b->first = get(b->all_bytes);
        b->after = get(b->all_bytes);
        b->host = malloc(b->n_bytes); /* exactly, so that a sanitizer sees a reference that reads
                                         beyond */
        b->kept = b->is_input ? get(b->n_bytes) : NULL;
        if (!b->host)
            abort();
        if (!OK(run, cushim_memory_alloc(NULL, b->all_bytes, &b->base)))
            return false;
    }
    return true;
}

/* After case_root, because in place the addresses are the same. */
static void hand_out(struct run *run) {
    struct kernel_case *c = run->c;
    for (int i = 0; i < c->n_operands; i++) {
        const struct buffer *b = &run->buffers[case_root(c, i)];
        bool has = b->n_bytes && c->operands[i].n;
        c->host[i] = has ? b->host : NULL;
        c->got[i] = has ? b->first + b->start : NULL;
        c->device[i] = has ? (void *)(uintptr_t)(b->base + b->start) : NULL; // NOLINT
    }
}

static void give_back(struct run *run) {
    for (int i = 0; i < run->c->n_operands; i++) {
        struct buffer *b = &run->buffers[i];
        if (b->base)
            cushim_memory_free(b->base);
        free(b->image);
        free(b->first);
        free(b->after);
        free(b->host);
        free(b->kept);
        run->c->host[i] = run->c->got[i] = run->c->device[i] = NULL;
    }
}

/* ---- contents ---- */

/* One input on the host; those of the first key are made once. */
static void make_input(struct run *run, int i) {
    const struct kernel_operand *operand = &run->c->operands[i];
    struct buffer *b = &run->buffers[i];
    struct kernel_draw draw = {run->key * 64 + (uint64_t)i};
    kernel_make *maker = operand->make ? operand->make : ordinary_make(operand->type);
    if (run->has_kept && run->key == run->kept_key) {
        memcpy(b->host, b->kept, b->n_bytes);
        return;
    }
    memset(b->host, 0, b->n_bytes);
    maker(&draw, b->host, operand->n);
    if (!run->has_kept)
        memcpy(b->kept, b->host, b->n_bytes);
}

/* Images and host arrays from a key; what is not an input gets the poison. */
static void make(struct run *run, uint64_t key, int poison) {
    run->key = key;
    run->is_ref_done = false;
    for (int i = 0; i < run->c->n_operands; i++) {
        struct buffer *b = &run->buffers[i];
        if (!b->n_bytes)
            continue;
        if (b->is_input)
            make_input(run, i);
        else
            memset(b->host, poison, b->n_bytes);
        memset(b->image, GUARD, b->all_bytes);
        memcpy(b->image + b->start, b->host, b->n_bytes);
    }
    if (!run->has_kept)
        run->kept_key = key;
    run->has_kept = true;
}

static void run_ref(struct run *run) {
    if (!run->is_ref_done)
        run->c->subject->ref(run->c);
    run->is_ref_done = true;
}

static bool is_filled(const unsigned char *bytes, int with, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != with)
            return false;
    }
    return true;
}

/* Upload all of a buffer, and download it. */
static bool is_whole(const struct run *run, const struct buffer *b) {
    return !run->frame->is_bare || b->is_input;
}

static bool upload_range(struct run *run, const struct buffer *b, size_t from, size_t to) {
    return from == to || OK(run, cushim_memory_h2d_async(b->base + from, b->image + from, to - from,
                                                         run->frame->stream));
}

/* The poison of those elements of an output that the reference has left alone. */
static bool upload_unwritten(struct run *run, const struct buffer *b) {
    const unsigned char *poison = b->image + b->start, *reference = b->host;
    size_t from = 0, to = 0; /* a range of such elements, in bytes */
    for (; to + b->width <= b->n_bytes; to += b->width) {
        if (is_filled(reference + to, poison[to], b->width))
            continue;
        if (!upload_range(run, b, b->start + from, b->start + to))
            return false;
        from = to + b->width;
    }
    return upload_range(run, b, b->start + from, b->start + b->n_bytes);
}

static bool upload(struct run *run) {
    if (run->frame->is_bare)
        run_ref(run); /* it says what an output keeps */
    for (int i = 0; i < run->c->n_operands; i++) {
        struct buffer *b = &run->buffers[i];
        if (is_whole(run, b) && !upload_range(run, b, 0, b->all_bytes))
            return false;
        if (!is_whole(run, b) && b->is_compared && !upload_unwritten(run, b))
            return false;
    }
    return true;
}

/* Bring everything back to the host after its work has ended. */
static bool download(struct run *run, bool is_first) {
    for (int i = 0; i < run->c->n_operands; i++) {
        struct buffer *b = &run->buffers[i];
        size_t from = is_whole(run, b) ? 0 : b->start;
        unsigned char *to = is_first ? b->first : b->after;
        if (!b->n_bytes || (run->frame->is_bare && !b->is_compared))
            continue;
        if (!OK(run, cushim_memory_d2h_async(to + from, b->base + from, b->all_bytes - from,
                                             run->frame->stream)))
            return false;
    }
    return OK(run, cushim_stream_synchronize(run->frame->stream));
}

/* ---- what must not have changed ---- */

static size_t first_difference(const unsigned char *a, const unsigned char *b, size_t n) {
    size_t i = 0;
    while (i < n && a[i] == b[i])
        i++;
    return i;
}

static bool are_guards_whole(struct run *run, bool is_first) {
    for (int i = 0; i < run->c->n_operands; i++) {
        const struct buffer *b = &run->buffers[i];
        const unsigned char *now = is_first ? b->first : b->after;
        char why[MOST_TEXT];
        if (!is_whole(run, b) || !b->all_bytes)
            continue;
        size_t end = b->start + b->n_bytes, at = first_difference(now, b->image, b->start);
        if (at == b->start)
            at = end + first_difference(now + end, b->image + end, b->all_bytes - end);
        if (at == b->all_bytes)
            continue;
        snprintf(why, sizeof why, "%s: byte %lld was written, of %zu", run->c->operands[i].name,
                 (long long)at - (long long)b->start, b->n_bytes);
        return fail(run, why);
    }
    return true;
}

static bool are_inputs_whole(struct run *run, bool is_first) {
    for (int i = 0; i < run->c->n_operands; i++) {
        const struct buffer *b = &run->buffers[i];
        const unsigned char *now = is_first ? b->first : b->after;
        char why[MOST_TEXT];
        if (!b->n_bytes || b->is_output)
            continue;
        size_t at = first_difference(now + b->start, b->image + b->start, b->n_bytes);
        if (at == b->n_bytes)
            continue;
        snprintf(why, sizeof why, "%s, an input: byte %zu was written, of %zu",
                 run->c->operands[i].name, at, b->n_bytes);
        return fail(run, why);
    }
    return true;
}

static bool finish(struct run *run, bool is_first) {
    return download(run, is_first) && are_guards_whole(run, is_first) &&
           are_inputs_whole(run, is_first);
}

/* ---- the same bits ---- */

/*
 * Whether a later run left what the first one did.  If the poison differed between them, this tells
 * an element that neither wrote from one that both wrote; it is right if the reference leaves it
 * alone too.
 */
static bool is_same(struct run *run, int poison) {
    struct kernel_case *c = run->c;
    for (int i = 0; i < c->n_operands; i++) {
        const struct kernel_operand *operand = &c->operands[i];
        const struct buffer *b = &run->buffers[case_root(c, i)];
        size_t width = bytes_of(operand->type);
        if (operand->role == ROLE_IN || operand->role == ROLE_SCRATCH || !operand->n)
            continue;
        const unsigned char *then = b->first + b->start, *now = b->after + b->start;
        if (memcmp(then, now, operand->n * width) == 0)
            continue;
        for (size_t e = 0; e < operand->n; e++, then += width, now += width) {
            char why[3 * MOST_TEXT], was[MOST_TEXT], is[MOST_TEXT];
            if (memcmp(then, now, width) == 0)
                continue;
            bool is_unwritten = is_filled(then, POISON, width) && is_filled(now, poison, width);
            if (is_unwritten)
                run_ref(run);
            if (is_unwritten && is_filled((unsigned char *)c->host[i] + e * width, poison, width))
                continue;
            describe_element(operand, b->after + b->start, e, is, sizeof is);
            describe_element(operand, b->first + b->start, e, was, sizeof was);
            snprintf(why, sizeof why, is_unwritten ? "%s was not written" : "%s, at first %s", is,
                     strchr(was, '=') + 2);
            return fail(run, why);
        }
    }
    return true;
}

/* ---- runs ---- */

static bool compare(struct run *run) {
    char why[3 * MOST_TEXT];
    return compare_outputs(run->c, why, sizeof why) || fail(run, why);
}

/* The function itself. */
static bool run_directly(struct run *run, bool is_first) {
    return upload(run) && is_ok(run, run->c->subject->run(run->c, run->handle), "the function") &&
           finish(run, is_first);
}

static bool run_first(struct run *run, uint64_t key) {
    run->stage = "first run";
    make(run, key, POISON);
    run_ref(run);
    if (!run_directly(run, true) || !compare(run))
        return false;
    const char *why = run->c->subject->check ? run->c->subject->check(run->c) : NULL;
    return !why || fail(run, why);
}

static bool run_again(struct run *run, uint64_t key) {
    run->stage = "second run";
    make(run, key, OTHER_POISON);
    return run_directly(run, false) && is_same(run, OTHER_POISON);
}

static bool capture(struct run *run, struct cushim_graphexec **executable) {
    struct cushim_stream *stream = run->frame->stream;
    struct cushim_graph_options options;
    struct cushim_graph *graph = NULL;
    run->stage = "capture";
    cushim_graph_options_default(&options);
    options.struct_size = sizeof options;
    options.mode = CUSHIM_GRAPH_MODE_THREAD_LOCAL;
    options.allow_empty = 1; /* without an output element nothing is queued */
    if (!OK(run, cushim_graph_begin(stream, &options)))
        return false;
    if (!is_ok(run, run->c->subject->run(run->c, run->handle), "the function")) {
        cushim_graph_abort(stream);
        return false;
    }
    bool is_good = OK(run, cushim_graph_end(stream, &graph)) &&
                   OK(run, cushim_graph_instantiate(graph, 0, executable));
    cushim_graph_destroy(graph);
    return is_good;
}

/* On other inputs, then on the first ones, whose outputs are known to the bit. */
static bool replay(struct run *run, struct cushim_graphexec *executable, uint64_t key) {
    run->stage = "first replay";
    make(run, key + 1, POISON);
    run_ref(run);
    if (!upload(run) || !OK(run, cushim_graphexec_launch(executable, run->frame->stream)) ||
        !finish(run, false))
        return false;
    for (int i = 0; i < run->c->n_operands; i++) {
        const struct buffer *b = &run->buffers[case_root(run->c, i)];
        run->c->got[i] = run->c->got[i] ? b->after + b->start : NULL;
    }
    if (!compare(run))
        return false;
    run->stage = "second replay";
    make(run, key, POISON);
    return upload(run) && OK(run, cushim_graphexec_launch(executable, run->frame->stream)) &&
           finish(run, false) && is_same(run, POISON);
}

bool frame_run(const struct frame *frame, struct kernel_case *c, uint64_t key, char *text,
               size_t cap_bytes) {
    struct run run = {.frame = frame, .c = c, .text = text, .cap_bytes = cap_bytes};
    struct cushim_graphexec *executable = NULL;
    run.stage = "begin";
    lay_out(&run);
    bool is_good = OK(&run, cushim_stream_handle(frame->stream, &run.handle)) && obtain(&run);
    if (is_good) {
        hand_out(&run);
        is_good = run_first(&run, key) && run_again(&run, key) && capture(&run, &executable) &&
                  replay(&run, executable, key);
    }
    cushim_stream_synchronize(frame->stream); /* after a fault, before buffers are freed */
    cushim_graphexec_destroy(executable);
    give_back(&run);
    return is_good;
}
