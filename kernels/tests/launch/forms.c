/*
 * Which form computes a product with a quantised matrix, on each kind of device.
 *
 *   kernel-forms                 the table of kernels/docs/kernels.md
 *   kernel-forms FORMAT M K N    a line for each kind of device
 *   kernel-forms --in PAGE       TAP: the page has the table
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cushim/kernels.h"
#include "kernels/gemv/gemv_forms.h"

enum { MOST_COLUMNS = 2048, TABLE_M = 14336, TABLE_K = 4096 };

static const struct {
    const char *name;
    int arch;
    bool has_clusters, has_wgmma;
    struct cushim_kernel_facts facts;
} kinds[] = {
    {"7.5", 75, false, false, {75, 40, 65536, 65536, 0, false}},
    {"8.0 to 8.9", 80, false, false, {86, 84, 101376, 102400, 1024, false}},
    {"9.0", 90, true, true, {90, 132, 232448, 233472, 1024, true}},
    {"10.0 to 11.0", 90, true, false, {100, 148, 232448, 233472, 1024, true}},
    {"12.x", 90, true, false, {120, 170, 101376, 102400, 1024, true}},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static const char *form_of(unsigned kind, enum quant_format format, int64_t m, int64_t k,
                           int64_t n) {
    void *p = (void *)(uintptr_t)(1ull << 40); // NOLINT: aligned, and never read
    struct cushim_kernel_call call = {.family = &cushim_family_gemv,
                                      .facts = &kinds[kind].facts,
                                      .arch = kinds[kind].arch,
                                      .has_clusters = kinds[kind].has_clusters,
                                      .has_wgmma = kinds[kind].has_wgmma,
                                      .n_sms = kinds[kind].facts.n_sms};
    struct gemv_product product = {
        format,       cushim_quant_parts(format, p, p),          p, p, m, k, n,
        .scratch = p, .scratch_bytes = cushim_gemm_scratch(k, n)};
    return cushim_gemv_form(&call, &product);
}

/* Forms with the least of the columns from which on they serve. */
static void write_cell(FILE *to, unsigned kind, enum quant_format format) {
    const char *last = NULL;
    for (int64_t n = 1; n <= MOST_COLUMNS; n++) {
        const char *form = form_of(kind, format, TABLE_M, TABLE_K, n);
        if (last && strcmp(last, form) == 0)
            continue;
        fprintf(to, last ? "; %lld %s" : "%.0lld%s", (long long)(last ? n : 0), form);
        last = form;
    }
}

static void write_table(FILE *to) {
    fprintf(to, "| weights |");
    for (unsigned kind = 0; kind < N_KINDS; kind++)
        fprintf(to, " %s |", kinds[kind].name);
    fprintf(to, "\n|---|---|---|---|---|---|\n");
    for (int format = 0; format < QUANT_N_FORMATS; format++) {
        fprintf(to, "| %s |", cushim_quant_layout((enum quant_format)format).name);
        for (unsigned kind = 0; kind < N_KINDS; kind++) {
            fputc(' ', to);
            write_cell(to, kind, (enum quant_format)format);
            fputs(" |", to);
        }
        fputc('\n', to);
    }
}

static bool has_table(const char *path) {
    static char page[1 << 20];
    char *table = NULL;
    size_t n_bytes = 0;
    FILE *to = open_memstream(&table, &n_bytes), *from = fopen(path, "r");
    if (!to || !from)
        return false;
    write_table(to);
    fclose(to);
    page[fread(page, 1, sizeof page - 1, from)] = '\0';
    fclose(from);
    bool has = strstr(page, table) != NULL;
    free(table);
    return has;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--in") == 0) {
        bool has = has_table(argv[2]);
        printf("1..1\n%s 1 - the page has the table that kernel-forms prints\n",
               has ? "ok" : "not ok");
        return !has;
    }
    if (argc == 1) {
        write_table(stdout);
        return 0;
    }
    for (int format = 0; argc == 5 && format < QUANT_N_FORMATS; format++) {
        int64_t m = strtoll(argv[2], NULL, 10), k = strtoll(argv[3], NULL, 10);
        int64_t n = strtoll(argv[4], NULL, 10);
        struct quant_layout layout = cushim_quant_layout((enum quant_format)format);
        if (strcmp(layout.name, argv[1]) != 0 || m < 1 || k < 0 || k % layout.values || n < 1)
            continue;
        for (unsigned kind = 0; kind < N_KINDS; kind++)
            printf("%s: %s\n", kinds[kind].name, form_of(kind, (enum quant_format)format, m, k, n));
        return 0;
    }
    fputs("kernel-forms [FORMAT M K N | --in PAGE]\n", stderr);
    return 2;
}
