/*
 * Imitates loading a model: pairs of weights and staging fill most of the device, all staging is
 * freed, and then one large block is requested.
 *
 *   frag [--kib N] [--fill PCT]     blocks of N KiB (1536), until PCT percent are taken (80)
 *
 * Prints one line each: the device's total and its free memory before and after the load and after
 * the free of the staging, by cudaMemGetInfo in MiB; live bytes; and the largest block that
 * cudaMalloc then grants, to the MiB.
 */
#include "program.h"

#include <vector>

static const size_t MIB = (size_t)1 << 20;

static size_t say_free(const char *when) {
    size_t n_free, n_total;
    TRY(cudaMemGetInfo(&n_free, &n_total));
    printf("free_%s_mib %zu\n", when, n_free / MIB);
    return n_free;
}

static bool is_granted(size_t n_mib) {
    void *block;
    if (cudaMalloc(&block, n_mib * MIB) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    TRY(cudaFree(block));
    return true;
}

/* All sizes below the boundary succeed, so a binary search finds it. */
static size_t find_largest(size_t total_mib) {
    size_t good = 0, bad = total_mib + 1;
    while (bad - good > 1) {
        size_t middle = good + (bad - good) / 2;
        if (is_granted(middle))
            good = middle;
        else
            bad = middle;
    }
    return good;
}

int main(int argc, char **argv) {
    size_t n_bytes = program_option(argc, argv, "--kib", 1536) * 1024;
    size_t fill_pct = program_option(argc, argv, "--fill", 80), n_free, n_total;
    std::vector<void *> weights, staging;
    TRY(cudaMemGetInfo(&n_free, &n_total));
    printf("total_mib %zu\n", n_total / MIB);
    say_free("before");
    /* The cost of a block without cushim: small blocks share pages of 2 MiB, others have their
     * own. */
    size_t page_bytes = n_bytes <= MIB ? n_bytes : (n_bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
    size_t n_pairs = n_free / 100 * fill_pct / page_bytes / 2;
    for (size_t i = 0; i < n_pairs; i++) {
        void *one, *other;
        TRY(cudaMalloc(&one, n_bytes));
        TRY(cudaMalloc(&other, n_bytes));
        weights.push_back(one);
        staging.push_back(other);
    }
    say_free("loaded");
    for (void *block : staging)
        TRY(cudaFree(block));
    printf("live_mib %zu\n", n_pairs * n_bytes / MIB);
    say_free("unstaged");
    printf("largest_mib %zu\n", find_largest(n_total / MIB));
    for (void *block : weights)
        TRY(cudaFree(block));
    return 0;
}
