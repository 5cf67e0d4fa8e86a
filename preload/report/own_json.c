/* What only the process itself knows, as members of the report in JSON. */
#include "preload/report/own.h"

#include <inttypes.h>

#include "preload/observe/check.h"
#include "preload/observe/stack.h"

static void put_stack(struct cushim_writer *out, const char *name,
                      const struct cushim_backtrace *stack) {
    int first = cushim_backtrace_first(stack), end = cushim_stack_end(stack);
    cushim_write(out, ", \"%s\": [", name);
    for (int i = first; i < end; i++) {
        char text[CUSHIM_BACKTRACE_FRAME_BYTES];
        cushim_stack_text(stack, i, text);
        cushim_write(out, i > first ? ", " : "");
        cushim_report_put_string(out, text);
    }
    cushim_write(out, "]");
}

static void put_harm(struct cushim_writer *out, const struct cushim_mem_finding *finding) {
    bool is_refusal = cushim_mem_harm_is_refusal(finding->harm);
    cushim_write(out,
                 "\n    {\"fault\": \"%s\", \"harm\": \"%s\", \"address\": %" PRIu64
                 ", \"bytes\": %zu, \"offset\": %" PRId64,
                 cushim_check_fault(finding->harm), cushim_check_harm(finding->harm),
                 finding->address, finding->n_bytes, finding->offset);
    if (is_refusal)
        cushim_write(out, ", \"call\": \"%s\", \"call_bytes\": %zu", finding->call,
                     finding->span_bytes);
    else
        cushim_write(out, ", \"found\": %u, \"found_by\": \"%s\"", finding->found, finding->call);
    put_stack(out, "allocated", &finding->obtained);
    put_stack(out, "freed", &finding->freed);
    put_stack(out, is_refusal ? "called_at" : "found_at", &finding->at);
    cushim_write(out, "}");
}

void cushim_own_json(struct cushim_writer *out) {
    const char *comma = "";
    cushim_write(out, "  \"harms\": [");
    const struct cushim_mem_told *told = atomic_load(&cushim_check.told);
    for (; told; told = atomic_load(&told->next)) {
        cushim_write(out, "%s", comma);
        put_harm(out, &told->finding);
        comma = ",";
    }
    cushim_write(out, "],\n  \"n_harms\": %" PRIu64 ", \"unchecked\": %" PRIu64 ",\n",
                 cushim_mem_stats_read(&cushim_check.n_findings),
                 cushim_mem_stats_read(&cushim_check.n_unchecked));
}
