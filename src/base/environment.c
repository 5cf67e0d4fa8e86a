#include "base/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/path.h"

/* The entries, each with its final 0; written once, at the start. */
static struct { const char *first, *end; } noted;

/* ---- what we read ---- */

static bool is_ours(const char *entry) {
    return strncmp(entry, "CUSHIM", sizeof "CUSHIM" - 1) == 0;
}

/* Does a file name of ours use the variable, as "%q{NAME}"? */
static bool is_in_a_name(const char *entry) {
    size_t n = strcspn(entry, "=");
    for (char **other = environ; *other; other++) {
        const char *place = is_ours(*other) ? strstr(*other, "%q{") : NULL;
        for (; place; place = strstr(place + 1, "%q{")) {
            if (strncmp(place + 3, entry, n) == 0 && place[3 + n] == '}')
                return true;
        }
    }
    return false;
}

static bool is_read(const char *entry) {
    return is_ours(entry) || strncmp(entry, "XDG_RUNTIME_DIR=", 16) == 0 ||
           cushim_path_is_of_launcher(entry) || is_in_a_name(entry);
}

void cushim_environment_note(void) {
    size_t n_bytes = 0;
    bool has_ours = false;
    if (getauxval(AT_SECURE) || !environ)
        return;
    for (char **entry = environ; *entry; entry++)
        has_ours |= is_ours(*entry);
    for (char **entry = environ; has_ours && *entry; entry++)
        n_bytes += is_read(*entry) ? strlen(*entry) + 1 : 0;
    char *to = n_bytes
                   ? mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                   : MAP_FAILED;
    if (to == MAP_FAILED)
        return;
    noted.first = to;
    for (char **entry = environ; *entry; entry++) {
        if (is_read(*entry))
            to = stpcpy(to, *entry) + 1;
    }
    noted.end = to;
}

/* ---- reading ---- */

static const char *value_of(const char *entry, const char *name, size_t n_bytes) {
    return strncmp(entry, name, n_bytes) == 0 && entry[n_bytes] == '=' ? entry + n_bytes + 1 : NULL;
}

const char *cushim_environment(const char *name) {
    const char *value = secure_getenv(name);
    for (const char *at = noted.first; at < noted.end && !value; at += strlen(at) + 1)
        value = value_of(at, name, strlen(name));
    return value;
}

static bool is_there(const char *entry) {
    for (char **other = environ; other && *other; other++) {
        if (value_of(*other, entry, strcspn(entry, "=")))
            return true;
    }
    return false;
}

void cushim_environment_each(void (*visit)(const char *entry, void *context), void *context) {
    if (getauxval(AT_SECURE))
        return;
    for (char **entry = environ; entry && *entry; entry++)
        visit(*entry, context);
    for (const char *at = noted.first; at < noted.end; at += strlen(at) + 1) {
        if (!is_there(at))
            visit(at, context);
    }
}
