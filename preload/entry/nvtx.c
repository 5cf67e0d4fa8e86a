/*
 * NVTX ranges: the arena is reset when the range ends that CUSHIM_ARENA_RESET names.
 *
 * A pushed range ends with its pop, on the same thread and in the same domain; a started range ends
 * with its end, on any thread.  For pushed ranges a thread keeps the depth of each domain, and
 * which levels have the name.  For a started range its number says whether it has the name.
 * Nothing is allocated and no name is kept.
 *
 * A program may ask for its injection and register its names before it uses CUDA.  That starts
 * nothing else, so the one option that matters here is read separately.
 */
#include "preload/entry/nvtx.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/environment.h"
#include "base/options.h"
#include "cushim/preload.h"
#include "preload/entry/arena_reset.h"
#include "preload/state/process.h"

/* Domain 0 is the default one; domains beyond the last are ignored. */
enum { DOMAINS = 32, LEVELS = 64 };

struct stack {
    int depth;
    uint64_t names; /* bit k: the range at depth k has the name */
};

static _Thread_local struct stack stacks[DOMAINS] __attribute__((tls_model("initial-exec")));

/* Handles are addresses in these: for a domain, and for a registered string that is or is not the
 * name. */
static char domains[DOMAINS + 1], strings[2];
static atomic_uint n_domains = 1;

/* "": none.  Written once, before a function of ours is handed out. */
static char name[CUSHIM_OPTION_PATH_BYTES];

/* ---- names ---- */

static bool is_name(const char *text) {
    return text && strcmp(text, name) == 0;
}

/* In the wide form only names in ASCII are recognised. */
static bool is_wide_name(const wchar_t *text) {
    const char *at = name;
    if (!text)
        return false;
    while (*at && (wchar_t)(unsigned char)*at == *text) {
        at++;
        text++;
    }
    return !*at && !*text;
}

static bool is_event(const struct cushim_nvtx_event *event) {
    if (!event || event->n_bytes < sizeof *event)
        return false;
    switch (event->message_type) {
    case CUSHIM_NVTX_ASCII:
        return is_name(event->message);
    case CUSHIM_NVTX_WIDE:
        return is_wide_name(event->message);
    case CUSHIM_NVTX_REGISTERED:
        return event->message == &strings[1];
    default:
        return false;
    }
}

static void end(bool has_name) {
    if (has_name)
        cushim_preload_arena_reset();
}

/* ---- pushed and popped ---- */

static struct stack *stack_of(const char *domain) {
    size_t index = domain ? (size_t)(domain - domains) : 0;
    return index < DOMAINS ? &stacks[index] : NULL;
}

static int push(struct stack *stack, bool has_name) {
    if (!stack)
        return CUSHIM_NVTX_NO_LEVEL;
    if (stack->depth < LEVELS) {
        uint64_t bit = (uint64_t)1 << stack->depth;
        stack->names = has_name ? stack->names | bit : stack->names & ~bit;
    }
    return stack->depth++;
}

static int pop(struct stack *stack) {
    if (!stack || !stack->depth)
        return CUSHIM_NVTX_NO_LEVEL;
    stack->depth--;
    end(stack->depth < LEVELS && (stack->names >> stack->depth & 1));
    return stack->depth;
}

/* ---- started and ended ---- */

/* The lowest bit of a number says whether its range has the name. */
static uint64_t start(bool has_name) {
    static atomic_uint_fast64_t n_started;
    return (atomic_fetch_add_explicit(&n_started, 1, memory_order_relaxed) + 1) << 1 | has_name;
}

/* ---- the callbacks ---- */

/* A function of NVTX in one of its forms; domains of their own matter to stacks alone. */
#define CALLBACK(result, name, parameters, what)                                                   \
    static result name parameters {                                                                \
        what;                                                                                      \
    }
#define ANY_DOMAIN __attribute__((unused)) const char *domain

CALLBACK(int, push_ex, (const struct cushim_nvtx_event *event),
         return push(&stacks[0], is_event(event)))
CALLBACK(int, push_a, (const char *text), return push(&stacks[0], is_name(text)))
CALLBACK(int, push_w, (const wchar_t *text), return push(&stacks[0], is_wide_name(text)))
CALLBACK(int, domain_push_ex, (const char *domain, const struct cushim_nvtx_event *event),
         return push(stack_of(domain), is_event(event)))
CALLBACK(int, pop_default, (void), return pop(&stacks[0]))
CALLBACK(int, domain_pop, (const char *domain), return pop(stack_of(domain)))

CALLBACK(uint64_t, start_ex, (const struct cushim_nvtx_event *event), return start(is_event(event)))
CALLBACK(uint64_t, start_a, (const char *text), return start(is_name(text)))
CALLBACK(uint64_t, start_w, (const wchar_t *text), return start(is_wide_name(text)))
CALLBACK(uint64_t, domain_start_ex, (ANY_DOMAIN, const struct cushim_nvtx_event *event),
         return start(is_event(event)))
CALLBACK(void, range_end, (uint64_t number), end(number & 1))
CALLBACK(void, domain_end, (ANY_DOMAIN, uint64_t number), end(number & 1))

CALLBACK(const char *, register_a, (ANY_DOMAIN, const char *text), return &strings[is_name(text)])
CALLBACK(const char *, register_w, (ANY_DOMAIN, const wchar_t *text),
         return &strings[is_wide_name(text)])

static const char *create_domain(const void *text) {
    (void)text;
    unsigned index = atomic_fetch_add_explicit(&n_domains, 1, memory_order_relaxed);
    return &domains[index < DOMAINS ? index : DOMAINS];
}

/* ---- the injection ---- */

struct place {
    unsigned index;
    cushim_nvtx_fn function;
};

static void fill(const struct cushim_nvtx_callbacks *callbacks, int module,
                 const struct place *places, size_t n_places) {
    cushim_nvtx_fn **table = NULL;
    unsigned n_table = 0;
    if (callbacks->find(module, &table, &n_table) != 1 || !table)
        return;
    for (size_t i = 0; i < n_places; i++) {
        if (places[i].index < n_table && table[places[i].index])
            *table[places[i].index] = places[i].function;
    }
}

#define PLACE(index, function)                                                                     \
    { CUSHIM_NVTX_##index, (cushim_nvtx_fn)(function) }

static const struct place core[] = {
    PLACE(RANGE_START_EX, start_ex), PLACE(RANGE_START_A, start_a), PLACE(RANGE_START_W, start_w),
    PLACE(RANGE_END, range_end),     PLACE(RANGE_PUSH_EX, push_ex), PLACE(RANGE_PUSH_A, push_a),
    PLACE(RANGE_PUSH_W, push_w),     PLACE(RANGE_POP, pop_default),
};

static const struct place core2[] = {
    PLACE(DOMAIN_RANGE_START_EX, domain_start_ex), PLACE(DOMAIN_RANGE_END, domain_end),
    PLACE(DOMAIN_RANGE_PUSH_EX, domain_push_ex),   PLACE(DOMAIN_RANGE_POP, domain_pop),
    PLACE(DOMAIN_REGISTER_STRING_A, register_a),   PLACE(DOMAIN_REGISTER_STRING_W, register_w),
    PLACE(DOMAIN_CREATE_A, create_domain),         PLACE(DOMAIN_CREATE_W, create_domain),
};

static void read_name(void) {
    const char *text = cushim_environment("CUSHIM_ARENA_RESET");
    const char *range = text ? cushim_arena_range_of(text) : NULL;
    if (range && strlen(range) < sizeof name)
        strcpy(name, range);
}

/* If we need no range, nothing is written, and NVTX makes every call do nothing. */
static bool is_needed(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_name);
    return *name && atomic_load(&cushim_process_state) != CUSHIM_PROCESS_OFF;
}

CUSHIM_EXPORT int InitializeInjectionNvtx2(cushim_nvtx_tables_fn *tables) {
    const struct cushim_nvtx_callbacks *callbacks =
        tables && is_needed() ? tables(CUSHIM_NVTX_TABLE_CALLBACKS) : NULL;
    if (callbacks && callbacks->n_bytes >= sizeof *callbacks && callbacks->find) {
        fill(callbacks, CUSHIM_NVTX_MODULE_CORE, core, sizeof core / sizeof core[0]);
        fill(callbacks, CUSHIM_NVTX_MODULE_CORE2, core2, sizeof core2 / sizeof core2[0]);
    }
    return 1;
}
