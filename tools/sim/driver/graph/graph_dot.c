/* A graph as DOT text: its nodes by kind, and what each comes after. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/core/calls.h"
#include "graph.h"

#include <stdio.h>

static const char *name_of(enum sim_work_kind kind) {
    static const char *const names[] = {
        [SIM_WORK_EMPTY] = "EMPTY",
        [SIM_WORK_KERNEL] = "KERNEL",
        [SIM_WORK_COPY] = "MEMCPY",
        [SIM_WORK_SET] = "MEMSET",
        [SIM_WORK_HOST] = "HOST",
        [SIM_WORK_CALLBACK] = "HOST",
        [SIM_WORK_WRITE_VALUE] = "MEM_OP",
        [SIM_WORK_WAIT_VALUE] = "MEM_OP",
        [SIM_WORK_ALLOC] = "MEM_ALLOC",
        [SIM_WORK_FREE] = "MEM_FREE",
        [SIM_WORK_FREE_NODE] = "MEM_FREE",
        [SIM_WORK_CHILD] = "GRAPH",
        [SIM_WORK_CONDITIONAL] = "CONDITIONAL",
        [SIM_WORK_RUN] = "GRAPH",
        [SIM_WORK_WORDS] = "MEM_OP",
    };
    return names[kind];
}

static CUresult print(CUgraph handle, const char *path) {
    struct sim_graph *graph;
    SIM_TRY(sim_graph_of_handle(handle, &graph));
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return CUDA_ERROR_INVALID_VALUE;
    fputs("digraph dot {\n", file);
    for (size_t i = 0; i < graph->nodes.n; i++) {
        const struct sim_node *node = graph->nodes.nodes[i];
        fprintf(file, "\"node_%zu\" [label=\"%zu %s\"];\n", i, i, name_of(node->work.kind));
        for (size_t k = 0; k < node->after.n; k++)
            fprintf(file, "\"node_%zu\" -> \"node_%zu\";\n", node->after.nodes[k]->place, i);
    }
    fputs("}\n", file);
    return fclose(file) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags) {
    SIM_ENTER(cuGraphDebugDotPrint);
    (void)flags;
    return sim_leave(print(hGraph, path));
}
