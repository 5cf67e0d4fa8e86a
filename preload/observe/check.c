#include "preload/observe/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/lock.h"
#include "base/log.h"
#include "cuda/table.h"
#include "memory/alloc.h"
#include "memory/cache/cache.h"
#include "memory/state/heap_state.h"
#include "preload/state/captures.h"
#include "preload/state/live.h"
#include "preload/state/process_options.h"
#include "preload/observe/stack.h"
#include "report/finding.h"
#include "report/page_ring.h"
#include "report/report.h"

/* Values of the option, in the order of its words. */
enum { IS_OFF, OF_FREES, IS_FULL };
enum { ZERO_ON = 2 };

enum { TEXT_BYTES = 256 };

static void say(struct cushim_mem_finding *finding);

struct cushim_mem_check cushim_check = {.lock = PTHREAD_MUTEX_INITIALIZER, .tell = say};

/* In place of the page's, if there is no file; NULL: nobody reads it. */
static atomic_uint_fast64_t *shared_orphan;

static atomic_uint_fast64_t *orphan(void) {
    return cushim_live_orphan ? cushim_live_orphan : shared_orphan;
}

void cushim_check_configure(void) {
    bool is_read = *cushim_process_options.stats || cushim_process_options.live;
    void *page = is_read ? mmap(NULL, sizeof *shared_orphan, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0)
                         : MAP_FAILED;
    shared_orphan = page == MAP_FAILED ? NULL : page;
    cushim_process.policy.has_guards = cushim_process_options.check != IS_OFF;
    cushim_check.quarantine_bytes = cushim_process_options.check_quarantine;
}

/* ---- words ---- */

static const struct {
    const char *fault, *harm;
} words[] = {
    [CUSHIM_MEM_HARM_BEFORE] = {"overrun", "before its start"},
    [CUSHIM_MEM_HARM_AFTER] = {"overrun", "behind its end"},
    [CUSHIM_MEM_HARM_FREED] = {"use after free", "after its free"},
    [CUSHIM_MEM_HARM_AGAIN] = {"double free", "freed again"},
    [CUSHIM_MEM_HARM_INSIDE] = {"interior free", "freed inside"},
    [CUSHIM_MEM_HARM_EXCEEDED] = {"overrun", "left by a call"},
    [CUSHIM_MEM_HARM_TOUCHED] = {"use after free", "touched by a call after its free"},
    [CUSHIM_MEM_HARM_GONE] = {"late free", "freed after its context"},
    [CUSHIM_MEM_HARM_RESET] = {"device reset", "it took what was live"},
    [CUSHIM_MEM_HARM_STRAY] = {CUSHIM_FINDING_STRAY, CUSHIM_FINDING_STRAY_HARM},
    [CUSHIM_MEM_HARM_FORKED] = {CUSHIM_FINDING_FORKED, CUSHIM_FINDING_FORKED_HARM},
};

const char *cushim_check_harm(enum cushim_mem_harm harm) {
    return words[harm].harm;
}

const char *cushim_check_fault(enum cushim_mem_harm harm) {
    return words[harm].fault;
}

static void put_event(const struct cushim_mem_finding *finding, char text[TEXT_BYTES]) {
    const char *fault = cushim_check_fault(finding->harm);
    long number = (long)finding->offset; /* of a device, or a process */
    char bytes[CUSHIM_AMOUNT_BYTES];
    if (finding->harm == CUSHIM_MEM_HARM_RESET)
        snprintf(text, TEXT_BYTES, "%s: %s took %s of device %ld with it, which were live", fault,
                 finding->call, cushim_text_bytes(bytes, finding->n_bytes), number);
    else if (finding->harm == CUSHIM_MEM_HARM_STRAY)
        snprintf(text, TEXT_BYTES, CUSHIM_FINDING_STRAY_TEXT, fault, finding->call, number);
    else
        snprintf(text, TEXT_BYTES, CUSHIM_FINDING_FORKED_TEXT, fault, number, finding->call);
}

/* What is wrong, in words, for the log and the report. */
static void put_text(const struct cushim_mem_finding *finding, char text[TEXT_BYTES]) {
    char span[48] = "", block[96]; /* span: how much a refused call was to touch */
    const char *fault = cushim_check_fault(finding->harm);
    snprintf(block, sizeof block, "the block of %zu %s at 0x%" PRIx64, finding->n_bytes,
             finding->n_bytes == 1 ? "byte" : "bytes", finding->address);
    if (finding->span_bytes)
        snprintf(span, sizeof span, " of %zu %s", finding->span_bytes,
                 finding->span_bytes == 1 ? "byte" : "bytes");
    if (cushim_mem_harm_is_event(finding->harm))
        put_event(finding, text);
    else if (finding->harm == CUSHIM_MEM_HARM_GONE)
        snprintf(text, TEXT_BYTES,
                 "%s: %s of 0x%" PRIx64 ", which went with its context; refused, as by the driver",
                 fault, finding->call, finding->address);
    else if (!cushim_mem_harm_is_refusal(finding->harm))
        snprintf(text, TEXT_BYTES,
                 "%s: %s was written %s: 0x%02x at offset %" PRId64 "; found by %s", fault, block,
                 words[finding->harm].harm, finding->found, finding->offset, finding->call);
    else if (!finding->n_bytes)
        snprintf(text, TEXT_BYTES,
                 "%s: %s%s at 0x%" PRIx64 ", where no block is; refused, as by the driver", fault,
                 finding->call, span, finding->address + (uint64_t)finding->offset);
    else if (finding->harm == CUSHIM_MEM_HARM_AGAIN)
        snprintf(text, TEXT_BYTES,
                 "%s: %s of %s, which was freed before; refused, as by the driver", fault,
                 finding->call, block);
    else
        snprintf(text, TEXT_BYTES,
                 "%s: %s%s at offset %" PRId64 " of %s%s; refused, as by the driver", fault,
                 finding->call, span, finding->offset, block,
                 cushim_backtrace_is_empty(&finding->freed) ? "" : ", which was freed");
}

static void say_stack(const char *what, const struct cushim_backtrace *stack) {
    int first = cushim_backtrace_first(stack), end = cushim_stack_end(stack);
    for (int i = first; i < end; i++) {
        char text[CUSHIM_BACKTRACE_FRAME_BYTES];
        cushim_stack_text(stack, i, text);
        log_error("check", "  %s %d: %s", what, i - first, text);
    }
}

/* Put it into the page, so that the report has it however the process ends. */
static void note(const struct cushim_mem_finding *finding, const char *text) {
    enum {
        MOST = sizeof((struct cushim_page_finding *)NULL)->at / sizeof(struct cushim_page_frame)
    };
    struct cushim_page_finding record = {.is_refusal = cushim_mem_harm_is_refusal(finding->harm) +
                                                       cushim_mem_harm_is_event(finding->harm),
                                         .address = finding->address,
                                         .n_bytes = finding->n_bytes,
                                         .offset = (uint64_t)finding->offset,
                                         .found = finding->found,
                                         .span_bytes = finding->span_bytes};
    snprintf(record.fault, sizeof record.fault, "%s", cushim_check_fault(finding->harm));
    snprintf(record.harm, sizeof record.harm, "%s", cushim_check_harm(finding->harm));
    snprintf(record.call, sizeof record.call, "%s", finding->call);
    snprintf(record.text, sizeof record.text, "%s", text);
    record.n_obtained = cushim_stack_describe(&finding->obtained, record.obtained, MOST);
    record.n_freed = cushim_stack_describe(&finding->freed, record.freed, MOST);
    record.n_at = cushim_stack_describe(&finding->at, record.at, MOST);
    cushim_live_show(cushim_page.findings, sizeof cushim_page.findings);
    cushim_page_ring_put(CUSHIM_PAGE_RING(cushim_page.findings), &cushim_page.n_findings, &record);
}

static void say(struct cushim_mem_finding *finding) {
    char text[TEXT_BYTES];
    if (!finding->call)
        finding->call = cushim_cuda_symbol_name(cushim_thread.symbol);
    put_text(finding, text);
    note(finding, text);
    if (!cushim_check_is_on()) /* it only goes into a report */
        return;
    log_error("check", "%s", text);
    say_stack("allocated at", &finding->obtained);
    say_stack("freed at", &finding->freed);
    say_stack(cushim_mem_harm_is_refusal(finding->harm) ? "called at" : "found at", &finding->at);
}

/* Without the check refusals are not logged, and a report has only the first ones, so that a
 * program with many of them pays for a few. */
static bool is_refusal_told(void) {
    bool is_read = *cushim_process_options.stats || cushim_process_options.live;
    return cushim_check_is_on() ||
           (is_read && cushim_mem_stats_read(&cushim_check.n_findings) < CUSHIM_PAGE_FINDINGS);
}

void cushim_check_refused(enum cushim_mem_harm harm, const struct cushim_mem_lookup *lookup,
                          uint64_t address, size_t span_bytes) {
    if (!is_refusal_told())
        return;
    uint64_t base = lookup && lookup->meta ? lookup->base : address;
    struct cushim_mem_finding finding = {.harm = harm,
                                         .address = base,
                                         .offset = (int64_t)(address - base),
                                         .span_bytes = span_bytes};
    cushim_stack_begin(true);
    if (lookup && lookup->meta && lookup->state == CUSHIM_MEM_LIVE)
        finding.n_bytes = lookup->asked_bytes;
    cushim_mem_check_refused(&cushim_check, &finding);
}

/* ---- calls that have nothing to do with a block ---- */

/* What the program asked for of a device. */
struct asked {
    size_t live_bytes;
    uint64_t n_requests;
};

static struct asked asked_of(int device) {
    struct asked asked = {0};
    for (int kind = 0; kind < CUSHIM_KIND_IMPORTED; kind++) {
        struct cushim_mem_stats sum;
        cushim_mem_cache_sum(&cushim_page.stats[device][kind], &sum);
        asked.live_bytes += cushim_report_held(&sum).live_bytes;
        asked.n_requests += cushim_mem_stats_read(&sum.n_requests);
    }
    return asked;
}

size_t cushim_check_before_reset(int device) {
    bool is_wanted = (unsigned)device < CUSHIM_MAX_DEVICES && is_refusal_told();
    return is_wanted ? asked_of(device).live_bytes : 0;
}

void cushim_check_after_reset(int device, size_t before_bytes) {
    size_t n_bytes = before_bytes ? cushim_less(before_bytes, asked_of(device).live_bytes) : 0;
    if (n_bytes)
        cushim_mem_check_refused(&cushim_check,
                                 &(struct cushim_mem_finding){.harm = CUSHIM_MEM_HARM_RESET,
                                                              .n_bytes = n_bytes,
                                                              .offset = device});
}

/* Which call first asked for the context of each device, if there are several devices. */
static struct {
    atomic_bool is_known;
    enum cushim_cuda_symbol symbol;
    struct cushim_backtrace at;
} made[CUSHIM_MAX_DEVICES];

void cushim_check_context_made(struct cushim_cuda *cuda, int device) {
    int n = 0;
    if ((unsigned)device >= CUSHIM_MAX_DEVICES || made[device].is_known || !is_refusal_told() ||
        !cuda->cuDeviceGetCount || cuda->cuDeviceGetCount(&n) != CUDA_SUCCESS || n < 2 ||
        atomic_exchange(&made[device].is_known, true))
        return;
    made[device].symbol = cushim_thread.symbol;
    cushim_backtrace_take(&made[device].at);
    struct cushim_page_made *row = &cushim_page.made[device];
    cushim_live_show(row, sizeof *row);
    snprintf(row->call, sizeof row->call, "%s", cushim_cuda_symbol_name(made[device].symbol));
    row->n_at = cushim_stack_describe(&made[device].at, row->at, sizeof row->at / sizeof *row->at);
    atomic_store(&row->is_known, 1);
}

/* Of frees nobody knows whether they were meant, because a child inherits objects. */
static bool is_cleaning_up(const char *call) {
    return strstr(call, "Free") || strstr(call, "Destroy") || strstr(call, "Release") ||
           strstr(call, "Detach");
}

/* Other threads of the parent may have held any lock, so no stack is taken. */
void cushim_check_called_after_fork(enum cushim_cuda_symbol symbol) {
    static atomic_bool is_told;
    char text[TEXT_BYTES];
    struct cushim_mem_finding finding = {.harm = CUSHIM_MEM_HARM_FORKED,
                                         .call = cushim_cuda_symbol_name(symbol),
                                         .offset = getpid()};
    if (is_cleaning_up(finding.call) || atomic_exchange(&is_told, true))
        return;
    put_text(&finding, text);
    log_error("fork", "%s", text);
    if (orphan())
        atomic_store(orphan(), (uint64_t)finding.offset << 32 | symbol);
}

/* A user who asked for the check sees that it ran. */
static void say_that_all_is_well(void) {
    struct cushim_writer out = {.fd = STDERR_FILENO};
    uint64_t n_unchecked = cushim_mem_stats_read(&cushim_check.n_unchecked);
    CUSHIM_LOCKED(&cushim_check.lock);
    cushim_write(&out, "cushim: the check of %s found nothing: it looked at %s",
                 program_invocation_short_name, CUSHIM_SOME(cushim_check.n_freed, "freed block"));
    if (cushim_check.n_live)
        cushim_write(&out, ", %s never freed", CUSHIM_COUNT(cushim_check.n_live));
    if (n_unchecked)
        cushim_write(&out, ", %s could not be looked at", CUSHIM_COUNT(n_unchecked));
    cushim_write(&out, "\n");
    cushim_writer_flush(&out);
}

void cushim_check_end(void) {
    uint64_t n_all = 0, child = orphan() ? atomic_load(orphan()) : 0;
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++)
        n_all += made[device].is_known ? asked_of(device).n_requests : 0;
    for (int device = 0; device < CUSHIM_MAX_DEVICES && n_all; device++) {
        if (made[device].is_known && !asked_of(device).n_requests)
            cushim_mem_check_refused(
                &cushim_check,
                &(struct cushim_mem_finding){.harm = CUSHIM_MEM_HARM_STRAY,
                                             .call = cushim_cuda_symbol_name(made[device].symbol),
                                             .offset = device,
                                             .at = made[device].at});
    }
    if (child)
        cushim_mem_check_refused(&cushim_check, &(struct cushim_mem_finding){
                                                    .harm = CUSHIM_MEM_HARM_FORKED,
                                                    .call = cushim_cuda_symbol_name(
                                                        (enum cushim_cuda_symbol)(uint32_t)child),
                                                    .offset = (int64_t)(child >> 32)});
    if (cushim_check_is_on() && !cushim_mem_stats_read(&cushim_check.n_findings) &&
        cushim_log_on(CUSHIM_LOG_ERROR))
        say_that_all_is_well();
}

/* ---- wiring ---- */

/* May we write and read the program's memory now? */
static bool may_look(void) {
    return !cushim_capture_is_open() && !cushim_thread.host_function_depth;
}

enum cushim_status cushim_check_obtained(struct cushim_mem_heap *heap,
                                         struct cushim_mem_block *block, size_t n_bytes) {
    struct cushim_mem_lookup lookup;
    if (!cushim_check_is_on() || !heap->guard_bytes)
        return CUSHIM_OK;
    if (!may_look()) {
        cushim_mem_stats_add(&cushim_check.n_unchecked, 1);
        return CUSHIM_OK;
    }
    /* CUSHIM_ZERO does not clear all of the block, and the rest must stay as it came */
    bool is_poisoned = cushim_process_options.zero != ZERO_ON;
    if (cushim_mem_check_obtained(&cushim_check, heap, block->address, n_bytes, is_poisoned) !=
        CUSHIM_TIMEOUT)
        return CUSHIM_OK;
    /* take another block and leave it unchecked, because a set of the first block's bytes may
     * still be under way when somebody gets it */
    if (cushim_mem_blocks_find_live(&cushim_process.blocks, block->address, &lookup))
        cushim_mem_alloc_undo(heap, &lookup, block->is_hit);
    return cushim_mem_alloc(heap, n_bytes, block);
}

bool cushim_check_release(const struct cushim_mem_lookup *lookup, enum cushim_status *status,
                          CUresult *answer) {
    if (!cushim_check_is_on() || !lookup->segment->guard_bytes)
        return false;
    if (!may_look()) {
        cushim_check_drop(lookup);
        return false;
    }
    *status = cushim_mem_check_release(&cushim_check, lookup, answer);
    return true;
}

void cushim_check_drop(const struct cushim_mem_lookup *lookup) {
    if (cushim_check_is_on() && lookup->segment->guard_bytes)
        cushim_mem_check_drop(&cushim_check, lookup->base);
}

void cushim_check_synchronised(struct cushim_mem_heap *heap) {
    if (cushim_process_options.check == IS_FULL && heap && may_look())
        cushim_mem_check_look(&cushim_check, heap, false);
}

void cushim_check_leave(struct cushim_mem_heap *heap) {
    if (!cushim_check_is_on() || !heap || !may_look())
        return;
    cushim_mem_check_empty(&cushim_check, 0);
    cushim_mem_check_look(&cushim_check, heap, true);
}

void cushim_check_forget(const struct cushim_mem_heap *heap) {
    if (cushim_check_is_on())
        cushim_mem_check_forget(&cushim_check, heap);
}

void cushim_check_give_back(void) {
    if (cushim_check_is_on() && may_look())
        cushim_mem_check_empty(&cushim_check, 0);
}
