#include "trace/event.h"

#include <string.h>

_Static_assert(sizeof(struct cushim_trace_head) <= CUSHIM_TRACE_HEAD_BYTES &&
                   sizeof(struct cushim_trace_chunk) <= CUSHIM_TRACE_CHUNK_HEAD_BYTES,
               "heads have space");

enum { CLOCK_SHIFT = 4, ADDRESS_SHIFT = 8, CODE_SHIFT = 4, FLAGS = 15, LONGEST_NUMBER = 10 };

_Static_assert(2 + (CUSHIM_TRACE_FRAMES + 4) * LONGEST_NUMBER < CUSHIM_TRACE_EVENT_BYTES &&
                   2 + 5 * LONGEST_NUMBER + CUSHIM_TRACE_TEXT_BYTES < CUSHIM_TRACE_EVENT_BYTES,
               "an event has space");

/* ---- numbers: seven bits per byte, the low ones first ---- */

static uint8_t *put(uint8_t *to, uint64_t number) {
    for (; number >= 0x80; number >>= 7)
        *to++ = (uint8_t)(number | 0x80);
    *to++ = (uint8_t)number;
    return to;
}

/* Of either sign: 0, -1, 1, -2, ... */
static uint8_t *put_signed(uint8_t *to, uint64_t number) {
    return put(to, number << 1 ^ -(number >> 63));
}

struct source {
    const uint8_t *at, *end;
    bool is_short;
};

static uint64_t get(struct source *source) {
    uint64_t number = 0;
    for (unsigned shift = 0; source->at < source->end && shift < 64; shift += 7) {
        uint8_t byte = *source->at++;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return number;
    }
    source->is_short = true;
    return 0;
}

static uint64_t get_signed(struct source *source) {
    uint64_t number = get(source);
    return number >> 1 ^ -(number & 1);
}

/* ---- fields ---- */

/* The fields of an event in their order: @ an address that is relative to the last one, t a text, f
 * a number and frames; the others are numbers. */
static const char *const fields[CUSHIM_TRACE_N_CODES] = {
    [CUSHIM_TRACE_ALLOC] = "@bs",   [CUSHIM_TRACE_FREE] = "@",     [CUSHIM_TRACE_WAIT] = "wn",
    [CUSHIM_TRACE_REFUSE] = "bs",   [CUSHIM_TRACE_SEGMENT] = "@b", [CUSHIM_TRACE_PLACE] = "dkph",
    [CUSHIM_TRACE_GONE] = "n",      [CUSHIM_TRACE_MARK] = "t",     [CUSHIM_TRACE_STACK] = "f",
    [CUSHIM_TRACE_MODULE] = "abnt", [CUSHIM_TRACE_COPY] = "bnt",   [CUSHIM_TRACE_DEVICE] = "bt"};

static uint64_t *number_of(struct cushim_trace_event *event, char field) {
    return field == 'a'   ? &event->address
           : field == 'b' ? &event->n_bytes
           : field == 'n' ? &event->number
           : field == 's' ? &event->stack
           : field == 'w' ? &event->n_waits
           : field == 'p' ? &event->pool
                          : &event->thread;
}

static unsigned shift_of(unsigned flags) {
    return flags & CUSHIM_TRACE_UNALIGNED ? 0 : ADDRESS_SHIFT;
}

/* An address is relative to the last one, in steps of 256. */
static uint8_t *put_address(uint8_t *to, struct cushim_trace_base *base, uint64_t address,
                            unsigned flags) {
    unsigned shift = shift_of(flags);
    to = put_signed(to, (address >> shift) - (base->address >> shift));
    base->address = address;
    return to;
}

static uint64_t get_address(struct source *source, struct cushim_trace_base *base, unsigned flags) {
    unsigned shift = shift_of(flags);
    base->address = ((base->address >> shift) + get_signed(source)) << shift;
    return base->address;
}

static uint8_t *put_text(uint8_t *to, const struct cushim_trace_event *event) {
    size_t n = event->text_bytes;
    if (n > CUSHIM_TRACE_TEXT_BYTES)
        n = CUSHIM_TRACE_TEXT_BYTES;
    to = put(to, n);
    memcpy(to, event->text, n);
    return to + n;
}

static void get_text(struct source *source, struct cushim_trace_event *event) {
    uint64_t n = get(source);
    if (source->is_short || n > CUSHIM_TRACE_TEXT_BYTES || n > (size_t)(source->end - source->at)) {
        source->is_short = true;
        return;
    }
    event->text = (const char *)source->at;
    event->text_bytes = n;
    source->at += n;
}

static uint8_t *put_frames(uint8_t *to, const struct cushim_trace_event *event) {
    uint64_t last = 0;
    unsigned n =
        event->n_frames < CUSHIM_TRACE_FRAMES ? event->n_frames : (unsigned)CUSHIM_TRACE_FRAMES;
    to = put(put(to, event->number), n);
    for (unsigned i = 0; i < n; i++) {
        to = put_signed(to, event->frames[i] - last);
        last = event->frames[i];
    }
    return to;
}

static void get_frames(struct source *source, struct cushim_trace_event *event, uint64_t *frames) {
    uint64_t last = 0;
    event->number = get(source);
    uint64_t n = get(source);
    if (n > CUSHIM_TRACE_FRAMES)
        source->is_short = true;
    for (uint64_t i = 0; i < n && !source->is_short; i++)
        frames[i] = last += get_signed(source);
    event->n_frames = (unsigned)n;
    event->frames = frames;
}

/* ---- events ---- */

size_t cushim_trace_encode(uint8_t *to, struct cushim_trace_base *base,
                           const struct cushim_trace_event *event) {
    const char *field = event->code < CUSHIM_TRACE_N_CODES ? fields[event->code] : NULL;
    uint8_t *start = to;
    unsigned flags = event->flags & (FLAGS & ~CUSHIM_TRACE_UNALIGNED);
    if (!field)
        return 0;
    if (*field == '@' && event->address & ((1u << ADDRESS_SHIFT) - 1))
        flags |= CUSHIM_TRACE_UNALIGNED;
    *to++ = (uint8_t)((unsigned)event->code << CODE_SHIFT | flags);
    /* cut to whole steps; the rest goes to the next event */
    uint64_t ticks =
        event->time_ns > base->time_ns ? (event->time_ns - base->time_ns) >> CLOCK_SHIFT : 0;
    base->time_ns += ticks << CLOCK_SHIFT;
    to = put(to, ticks);
    for (; *field; field++)
        to = *field == '@'   ? put_address(to, base, event->address, flags)
             : *field == 't' ? put_text(to, event)
             : *field == 'f' ? put_frames(to, event)
             : *field == 'd' ? put(to, event->device)
             : *field == 'k' ? put(to, event->kind)
                             : put(to, *number_of((struct cushim_trace_event *)event, *field));
    return (size_t)(to - start);
}

static void get_field(struct source *source, struct cushim_trace_base *base,
                      struct cushim_trace_event *event, uint64_t *frames, char field) {
    if (field == '@')
        event->address = get_address(source, base, event->flags);
    else if (field == 't')
        get_text(source, event);
    else if (field == 'f')
        get_frames(source, event, frames);
    else if (field == 'd')
        event->device = (unsigned)get(source);
    else if (field == 'k')
        event->kind = (unsigned)get(source);
    else
        *number_of(event, field) = get(source);
}

size_t cushim_trace_decode(const uint8_t *from, size_t n_bytes, struct cushim_trace_base *base,
                           struct cushim_trace_event *event, uint64_t *frames) {
    struct source source = {from, from + n_bytes, false};
    struct cushim_trace_base next = *base;
    *event = (struct cushim_trace_event){0};
    if (!n_bytes || *from >> CODE_SHIFT >= CUSHIM_TRACE_N_CODES || !fields[*from >> CODE_SHIFT])
        return 0;
    event->code = (enum cushim_trace_code)(*from >> CODE_SHIFT);
    event->flags = *source.at++ & FLAGS;
    next.time_ns += get(&source) << CLOCK_SHIFT;
    event->time_ns = next.time_ns;
    for (const char *field = fields[event->code]; *field; field++)
        get_field(&source, &next, event, frames, *field);
    if (source.is_short)
        return 0;
    *base = next;
    return (size_t)(source.at - from);
}
