#include "base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"

/* The variables of a launcher: for the rank, and for the number of ranks. */
static const struct launcher {
    const char *rank, *ranks;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMIX_RANK", NULL},
    {"PMI_RANK", "PMI_SIZE"},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    {"RANK", "WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
};

static long number_of(const char *name) {
    enum { MOST_DIGITS = 9 };
    const char *value = name ? cushim_environment(name) : NULL;
    size_t n = value ? strlen(value) : 0;
    return n && n <= MOST_DIGITS && strspn(value, "0123456789") == n ? strtol(value, NULL, 10) : -1;
}

/* NULL: none is known. */
static const struct launcher *launcher_of_process(void) {
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        if (number_of(launchers[i].rank) >= 0)
            return &launchers[i];
    }
    return NULL;
}

long cushim_path_rank(void) {
    const struct launcher *launcher = launcher_of_process();
    return launcher ? number_of(launcher->rank) : -1;
}

long cushim_path_ranks(void) {
    const struct launcher *launcher = launcher_of_process();
    return launcher ? number_of(launcher->ranks) : -1;
}

static bool is_entry_of(const char *entry, const char *name) {
    size_t n = name ? strlen(name) : 0;
    return n && strncmp(entry, name, n) == 0 && entry[n] == '=';
}

bool cushim_path_is_of_launcher(const char *entry) {
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        if (is_entry_of(entry, launchers[i].rank) || is_entry_of(entry, launchers[i].ranks))
            return true;
    }
    return false;
}

/* ---- expansion ---- */

struct output {
    char *text;
    size_t n, cap;
    bool is_cut;
};

static void put(struct output *out, const char *text, size_t n_bytes) {
    if (n_bytes >= out->cap - out->n) {
        out->is_cut = true;
        return;
    }
    memcpy(out->text + out->n, text, n_bytes);
    out->n += n_bytes;
}

static void put_number(struct output *out, long number) {
    char text[24];
    put(out, text, (size_t)snprintf(text, sizeof text, "%ld", number));
}

static void put_host(struct output *out) {
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        strcpy(host, "localhost");
    put(out, host, strlen(host));
}

/* "q{NAME}": returns its length; 0: there is no such variable. */
static size_t put_variable(struct output *out, const char *place) {
    char name[128];
    size_t n = place[1] == '{' ? strcspn(place + 2, "}") : 0;
    if (!n || n >= sizeof name || place[2 + n] != '}')
        return 0;
    snprintf(name, sizeof name, "%.*s", (int)n, place + 2);
    const char *value = cushim_environment(name);
    if (!value)
        return 0;
    for (; *value; value++)
        put(out, *value == '/' ? "_" : value, 1);
    return n + 3;
}

/* The place behind a %.  Returns its length; 0: it is no place, and stays as it is written. */
static size_t put_place(struct output *out, const char *place,
                        const struct cushim_path_places *places) {
    switch (*place) {
    case 'p':
        put_number(out, places->process);
        return 1;
    case 'h':
        put_host(out);
        return 1;
    case 'r': /* processes of a job whose rank is unknown must not share a name */
        put_number(out, places->rank < 0 ? places->process : places->rank);
        return 1;
    case 'n':
        put_number(out, (long)places->number);
        return 1;
    case '%':
        put(out, "%", 1);
        return 1;
    case 'q':
        return put_variable(out, place);
    default:
        return 0;
    }
}

bool cushim_path_expand(char *text, size_t cap, const char *pattern,
                        const struct cushim_path_places *places) {
    struct output out = {text, 0, cap, false};
    if (!cap)
        return false;
    while (*pattern && !out.is_cut) {
        size_t n = *pattern == '%' ? put_place(&out, pattern + 1, places) : 0;
        if (!n)
            put(&out, pattern, 1);
        pattern += n + 1;
    }
    text[out.n] = 0;
    return !out.is_cut;
}

bool cushim_path_tell_apart(char *out, size_t cap, const char *name, const char *place) {
    const char *slash = strrchr(name, '/'), *dot = strrchr(name, '.');
    if (!dot || dot <= (slash ? slash + 1 : name))
        dot = name + strlen(name);
    int n = snprintf(out, cap, "%.*s-%s%s", (int)(dot - name), name, place, dot);
    return n >= 0 && (size_t)n < cap;
}

bool cushim_path_has(const char *pattern, const char *places) {
    for (; *pattern; pattern++) {
        if (*pattern != '%' || !pattern[1])
            continue;
        if (strchr(places, *++pattern))
            return true;
    }
    return false;
}

bool cushim_path_ends_in(const char *name, const char *ending) {
    size_t n = strlen(name), n_ending = strlen(ending);
    return n >= n_ending && strcmp(name + n - n_ending, ending) == 0;
}
