#include "tools/cushim/recording/events.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/writer.h"
#include "report/page.h"
#include "report/report.h"
#include "tools/cushim/recording/recording.h"

enum { MOST_PERFETTO = 8000000 }; /* about 1 GiB */

typedef void event_fn(struct cushim_writer *out, const struct cushim_trace_account *account);

static int each(struct cushim_writer *out, const char *path, event_fn *begin, event_fn *put) {
    static struct cushim_trace_account account; /* too large for a stack */
    int error = cushim_trace_account_open(&account, path);
    if (error)
        return error;
    if (begin)
        begin(out, &account);
    while (!out->error && cushim_trace_account_next(&account))
        put(out, &account);
    error = account.error;
    cushim_trace_account_close(&account);
    return error;
}

static const char *kind_of(const struct cushim_trace_event *event) {
    return event->kind < CUSHIM_N_KINDS ? cushim_report_kind((enum cushim_kind)event->kind)
                                        : "unknown";
}

static void put_event_text(struct cushim_writer *out, const struct cushim_trace_event *event) {
    char text[CUSHIM_TRACE_TEXT_BYTES];
    size_t n = event->text_bytes < sizeof text ? event->text_bytes : sizeof text - 1;
    memcpy(text, event->text, n);
    text[n] = 0;
    cushim_report_put_string(out, text);
}

/* ---- a line for each event ---- */

static void put_rest(struct cushim_writer *out, const struct cushim_trace_account *account) {
    const struct cushim_trace_event *event = &account->event;
    uint64_t site = account->site ? account->site->number : 0;
    bool has_text = event->code == CUSHIM_TRACE_DEVICE || event->code == CUSHIM_TRACE_MARK ||
                    event->code == CUSHIM_TRACE_MODULE || event->code == CUSHIM_TRACE_COPY;
    if (event->code == CUSHIM_TRACE_ALLOC)
        cushim_write(out, " alloc 0x%" PRIx64 " %" PRIu64 " site %" PRIu64 "%s%s%s", event->address,
                     event->n_bytes, site, event->flags & CUSHIM_TRACE_NO_CALL ? " no-call" : "",
                     event->flags & CUSHIM_TRACE_NATIVELY ? " natively" : "",
                     event->flags & CUSHIM_TRACE_RESTORED ? " restored" : "");
    else if (event->code == CUSHIM_TRACE_FREE)
        cushim_write(out, " free 0x%" PRIx64 " %" PRIu64 "%s", event->address,
                     account->block.n_bytes, account->is_guessed ? " guessed" : "");
    else if (event->code == CUSHIM_TRACE_WAIT)
        cushim_write(out, " wait %" PRIu64 " %" PRIu64 "%s", event->n_waits, event->number,
                     event->flags & CUSHIM_TRACE_IN_REQUEST ? " in-request" : "");
    else if (event->code == CUSHIM_TRACE_REFUSE)
        cushim_write(out, " refuse %" PRIu64 " site %" PRIu64, event->n_bytes, site);
    else if (event->code == CUSHIM_TRACE_SEGMENT)
        cushim_write(out, " segment 0x%" PRIx64 " %" PRIu64 "%s", event->address, event->n_bytes,
                     event->flags & CUSHIM_TRACE_GIVEN_BACK ? " given-back" : "");
    else if (event->code == CUSHIM_TRACE_DEVICE)
        cushim_write(out, " memory %" PRIu64 " ", event->n_bytes);
    else if (event->code == CUSHIM_TRACE_PLACE)
        cushim_write(out, " place");
    else if (event->code == CUSHIM_TRACE_GONE)
        cushim_write(out, " gone 0x%" PRIx64, event->number);
    else if (event->code == CUSHIM_TRACE_MARK)
        cushim_write(out, " mark ");
    else if (event->code == CUSHIM_TRACE_STACK)
        cushim_write(out, " stack %" PRIu64, event->number);
    else if (event->code == CUSHIM_TRACE_MODULE)
        cushim_write(out, " module 0x%" PRIx64 " %" PRIu64 " %" PRIu64 " ", event->address,
                     event->n_bytes, event->number);
    else if (event->code == CUSHIM_TRACE_COPY)
        cushim_write(out, " copy %s %s %" PRIu64 " %" PRIu64 " ",
                     event->flags & CUSHIM_TRACE_TO_HOST ? "to-host" : "to-device",
                     event->flags & CUSHIM_TRACE_NATIVELY ? "by-driver" : "staged", event->n_bytes,
                     event->number);
    for (unsigned i = 0; i < event->n_frames; i++)
        cushim_write(out, " 0x%" PRIx64, event->frames[i]);
    if (has_text)
        put_event_text(out, event);
}

static void put_line(struct cushim_writer *out, const struct cushim_trace_account *account) {
    const struct cushim_trace_event *event = &account->event;
    cushim_write(out, "%" PRIu64 " thread %" PRIu64 " device %u %s",
                 cushim_trace_account_since(account, event->time_ns), event->thread, event->device,
                 kind_of(event));
    put_rest(out, account);
    cushim_write(out, "\n");
}

int events_text(struct cushim_writer *out, const char *path) {
    return each(out, path, NULL, put_line);
}

/* ---- Perfetto ---- */

/* Write the fields that all elements have; `ns` is a time of the recording. */
static void put_element(struct cushim_writer *out, const struct cushim_trace_account *account,
                        const char *phase, uint64_t ns) {
    ns = cushim_trace_account_since(account, ns);
    cushim_write(out,
                 ",\n{\"ph\":\"%s\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64 ",\"ts\":%" PRIu64
                 ".%03" PRIu64 ",",
                 phase, account->reader.head.process, account->event.thread, ns / 1000, ns % 1000);
}

static void put_counter(struct cushim_writer *out, const struct cushim_trace_account *account,
                        unsigned device, unsigned kind, const char *what, uint64_t n_bytes) {
    const struct cushim_trace_event at = {.kind = kind};
    put_element(out, account, "C", account->event.time_ns);
    cushim_write(out, "\"name\":\"device %u %s %s\",\"args\":{\"bytes\":%" PRIu64 "}}", device,
                 kind_of(&at), what, n_bytes);
}

static void put_span(struct cushim_writer *out, const struct cushim_trace_account *account,
                     const char *name) {
    const struct cushim_trace_event *event = &account->event;
    uint64_t ns = event->number < event->time_ns ? event->number : 0;
    put_element(out, account, "X", event->time_ns - ns);
    cushim_write(out, "\"dur\":%" PRIu64 ".%03" PRIu64 ",\"name\":\"%s\"", ns / 1000, ns % 1000,
                 name);
}

static void put_perfetto(struct cushim_writer *out, const struct cushim_trace_account *account) {
    const struct cushim_trace_event *event = &account->event;
    unsigned device = account->block.device, kind = account->block.kind;
    if (account->n_events >= MOST_PERFETTO) {
        if (account->n_events == MOST_PERFETTO) {
            put_element(out, account, "i", event->time_ns);
            cushim_write(out, "\"s\":\"g\",\"name\":\"the recording goes on: it is cut here\"}");
        }
        return;
    }
    if (event->code == CUSHIM_TRACE_ALLOC || event->code == CUSHIM_TRACE_FREE) {
        if (account->site)
            put_counter(out, account, device, kind, "live", account->sums[device][kind].live_bytes);
    } else if (event->code == CUSHIM_TRACE_SEGMENT) {
        put_counter(out, account, event->device, event->kind, "held",
                    account->sums[event->device][event->kind].held_bytes);
    } else if (event->code == CUSHIM_TRACE_WAIT) {
        put_span(out, account,
                 event->flags & CUSHIM_TRACE_IN_REQUEST ? "a request waits" : "a free waits");
        cushim_write(out, "}");
    } else if (event->code == CUSHIM_TRACE_COPY) {
        put_span(out, account,
                 event->flags & CUSHIM_TRACE_TO_HOST ? "copy to host" : "copy to device");
        cushim_write(out, ",\"args\":{\"bytes\":%" PRIu64 ",\"not staged for\":", event->n_bytes);
        put_event_text(out, event);
        cushim_write(out, "}}");
    } else if (event->code == CUSHIM_TRACE_MARK) {
        put_element(out, account, "i", event->time_ns);
        cushim_write(out, "\"s\":\"p\",\"name\":");
        put_event_text(out, event);
        cushim_write(out, "}");
    } else if (event->code == CUSHIM_TRACE_REFUSE) {
        put_element(out, account, "i", event->time_ns);
        cushim_write(out,
                     "\"s\":\"p\",\"name\":\"out of memory\",\"args\":{\"bytes\":%" PRIu64 "}}",
                     event->n_bytes);
    }
}

static void begin_perfetto(struct cushim_writer *out, const struct cushim_trace_account *account) {
    const struct cushim_trace_head *head = &account->reader.head;
    char name[sizeof head->program + sizeof " (no GPU)"];
    cushim_write(out,
                 "{\"ph\":\"M\",\"pid\":%" PRIu64 ",\"name\":\"process_name\",\"args\":{\"name\":",
                 head->process);
    snprintf(name, sizeof name, "%.*s%s", (int)sizeof head->program, head->program,
             atomic_load(&head->is_software) ? " (no GPU)" : "");
    cushim_report_put_string(out, name);
    cushim_write(out, "}}");
}

int events_perfetto(struct cushim_writer *out, const char *path) {
    return each(out, path, begin_perfetto, put_perfetto);
}
