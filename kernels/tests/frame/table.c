/* The table of cases, as families fill it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/tests/frame/frame.h"

const int64_t edge_sizes[] = {0,       1,
                              2,       3,
                              5,       7,
                              31,      32,
                              33,      255,
                              256,     257,
                              1023,    1024,
                              1025,    (1 << 20) - 1,
                              1 << 20, (1 << 20) + 1};
const int n_edge_sizes = sizeof edge_sizes / sizeof *edge_sizes;

static void give_up(const char *subject, const char *why) {
    fprintf(stderr, "kernel-cases: %s: %s\n", subject, why);
    abort();
}

/* ---- cases ---- */

struct kernel_operand *case_operand(struct kernel_case *c, const char *name, enum kernel_type type,
                                    enum kernel_role role, size_t n) {
    if (c->n_operands == MOST_OPERANDS)
        give_up(c->subject->name, "too many operands");
    struct kernel_operand *operand = &c->operands[c->n_operands++];
    *operand = (struct kernel_operand){.name = name, .type = type, .role = role, .n = n};
    return operand;
}

int case_root(const struct kernel_case *c, int operand) {
    while (c->operands[operand].in_place_of)
        operand = c->operands[operand].in_place_of - 1;
    return operand;
}

size_t case_elements(const struct kernel_case *c) {
    size_t n = 0;
    for (int i = 0; i < c->n_operands; i++)
        n += c->operands[i].n;
    return n;
}

static size_t append(char *text, size_t cap_bytes, size_t n, const char *format, double value) {
    return n < cap_bytes ? n + (size_t)snprintf(text + n, cap_bytes - n, format, value) : n;
}

void case_describe(const struct kernel_case *c, char *text, size_t cap_bytes) {
    size_t n = (size_t)snprintf(text, cap_bytes, "%s sizes=", c->subject->name);
    for (int i = 0; i < c->subject->n_sizes; i++)
        n = append(text, cap_bytes, n, i ? ",%.0f" : "%.0f", (double)c->sizes[i]);
    for (int i = 0; i < c->subject->n_scalars; i++)
        n = append(text, cap_bytes, n, i ? ",%.9g" : " scalars=%.9g", c->scalars[i]);
    if (c->note && n < cap_bytes)
        n += (size_t)snprintf(text + n, cap_bytes - n, " (%s)", c->note);
    for (int i = 0; i < c->n_operands && n < cap_bytes; i++) {
        if (c->operands[i].offset)
            n += (size_t)snprintf(text + n, cap_bytes - n, " %s+%zu", c->operands[i].name,
                                  c->operands[i].offset);
    }
}

/* ---- adding ---- */

static struct kernel_case *add(struct kernel_table *table) {
    if (table->n == table->cap) {
        table->cap = table->cap ? 2 * table->cap : 256;
        table->entries = realloc(table->entries, table->cap * sizeof *table->entries);
        if (!table->entries)
            give_up("table", "no memory");
    }
    struct kernel_entry *entry = &table->entries[table->n++];
    entry->family = table->family;
    return &entry->c;
}

struct kernel_case *table_add(struct kernel_table *table, const struct kernel_subject *subject,
                              const char *note, const int64_t *sizes, const double *scalars) {
    if (subject->n_sizes > MOST_SIZES || subject->n_scalars > MOST_SCALARS ||
        (sizes && !subject->n_sizes) || (scalars && !subject->n_scalars))
        give_up(subject->name, "n_sizes or n_scalars does not say how many it has");
    struct kernel_case *c = add(table);
    *c = (struct kernel_case){.subject = subject, .note = note};
    if (sizes)
        memcpy(c->sizes, sizes, (size_t)subject->n_sizes * sizeof *sizes);
    if (scalars)
        memcpy(c->scalars, scalars, (size_t)subject->n_scalars * sizeof *scalars);
    subject->lay_out(c);
    return c;
}

void table_add_offsets(struct kernel_table *table, const struct kernel_case *c) {
    struct kernel_case base = *c; /* the table may move */
    for (int i = 0; i < base.n_operands; i++) {
        const struct kernel_operand *operand = &base.operands[i];
        size_t step = bytes_of(operand->type), most = step == 2 ? 6 : step == 1 ? 1 : 12;
        if (!operand->n || operand->in_place_of)
            continue;
        for (size_t offset = step; offset <= most; offset += step == 2 ? 4 : step) {
            struct kernel_case *further = add(table);
            *further = base;
            further->operands[i].offset = operand->offset + offset;
        }
    }
}
