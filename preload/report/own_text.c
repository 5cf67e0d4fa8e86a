#include "preload/report/own.h"

#include "preload/entry/check_mode.h"

static void put_count(struct cushim_writer *out, uint64_t n, const char *one, const char *many) {
    char text[CUSHIM_AMOUNT_BYTES];
    if (n)
        cushim_write(out, "finding: %s %s\n", cushim_text_count(text, n), n == 1 ? one : many);
}

static void put_stack(struct cushim_writer *out, const char *what,
                      const struct cushim_backtrace *stack) {
    for (int i = cushim_backtrace_first(stack); i < stack->n_frames; i++) {
        char text[CUSHIM_BACKTRACE_FRAME_BYTES];
        cushim_backtrace_text(stack, i, text);
        cushim_write(out, "         %s %s\n", what, text);
    }
}

void cushim_own_text(struct cushim_writer *out) {
    const struct cushim_mem_told *told = atomic_load(&cushim_check.told);
    for (; told; told = atomic_load(&told->next)) {
        char text[CUSHIM_CHECK_TEXT_BYTES];
        cushim_check_text(&told->finding, text);
        cushim_write(out, "finding: %s\n", text);
        put_stack(out, "allocated at", &told->finding.obtained);
        put_stack(out, "freed at", &told->finding.freed);
        put_stack(out, cushim_check_place(told->finding.harm), &told->finding.at);
    }
    put_count(out, cushim_mem_stats_read(&cushim_check.n_findings), "finding of the check",
              "findings of the check in all");
    put_count(out, cushim_mem_stats_read(&cushim_check.n_unchecked),
              "block that the check could not look at", "blocks that the check could not look at");
}
