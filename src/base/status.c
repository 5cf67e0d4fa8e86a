/* Names, texts and classes of statuses: rows of base/status.def. */
#include "cushim/status.h"

#include <stddef.h>

enum { CUSHIM_CLASS_COMPILE_LOGIC = CUSHIM_CLASS_COMPILE | CUSHIM_CLASS_LOGIC };

struct row {
    const char *name;
    const char *text;
    int class_bits;
};

/* Row k is status -k: the list has no holes, which the assertions below keep true. */
static const struct row rows[] = {
#define STATUS(number, word, class, text)                                                          \
    [-(number)] = {"CUSHIM_" #word, text, CUSHIM_CLASS_##class},
#include "base/status.def"
#undef STATUS
};

#define STATUS(number, word, class, text) _Static_assert(CUSHIM_##word == (number), #word);
#include "base/status.def"
#undef STATUS

static const struct row *row_of(enum cushim_status status) {
    long k = -(long)status;
    if (k < 0 || k >= (long)(sizeof rows / sizeof rows[0]))
        return NULL;
    return &rows[k];
}

const char *cushim_status_name(enum cushim_status status) {
    const struct row *row = row_of(status);
    return row ? row->name : "CUSHIM_?";
}

const char *cushim_status_text(enum cushim_status status) {
    const struct row *row = row_of(status);
    return row ? row->text : "not a status";
}

int cushim_status_class(enum cushim_status status) {
    const struct row *row = row_of(status);
    return row ? row->class_bits : CUSHIM_CLASS_OTHER;
}
