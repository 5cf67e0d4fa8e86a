/*
 * Memory as a training program has it: weights that stay, activations that live for a step, work
 * space that lives for a call, a cache that grows because nobody empties it, and an evaluation that
 * asks for more than there is and goes on with less.
 *
 *   train [--layers N] [--steps N] [--time]
 */
#include "program.h"

enum { MIB = 1 << 20, MOST_LAYERS = 32, MOST_STEPS = 1000 };

struct layer {
    void *weights, *moments, *activations;
};

static size_t activation_bytes(size_t i) {
    return (size_t)(2 + i % 3 * 2) * MIB;
}

static void load_model(struct layer *layer) {
    TRY(cudaMalloc(&layer->weights, 6 * MIB));
    TRY(cudaMemset(layer->weights, 1, 4096));
}

static void start_adam(struct layer *layer) {
    TRY(cudaMalloc(&layer->moments, 12 * MIB));
    TRY(cudaMemset(layer->moments, 0, 4096));
}

static void forward(struct layer *layer, size_t i) {
    void *workspace;
    TRY(cudaMalloc(&layer->activations, activation_bytes(i)));
    TRY(cudaMalloc(&workspace, 3 * MIB));
    TRY(cudaMemset(layer->activations, 2, 4096));
    TRY(cudaFree(workspace));
}

static void backward(struct layer *layer) {
    void *gradients;
    TRY(cudaMalloc(&gradients, 6 * MIB));
    TRY(cudaMemset(gradients, 3, 4096));
    TRY(cudaFree(gradients));
    TRY(cudaFree(layer->activations));
}

/* Keep the losses of a step, to draw them later. */
static void remember(void **history) {
    TRY(cudaMalloc(history, MIB));
}

/* Evaluate the whole data set at once if it fits, otherwise in parts.  Returns how many. */
static int evaluate(void) {
    void *batch;
    size_t free_bytes, all_bytes;
    TRY(cudaMemGetInfo(&free_bytes, &all_bytes));
    if (cudaMalloc(&batch, all_bytes) == cudaSuccess) {
        TRY(cudaFree(batch));
        return 1;
    }
    MUST(cudaGetLastError() == cudaErrorMemoryAllocation);
    for (int i = 0; i < 4; i++) {
        TRY(cudaMalloc(&batch, 40 * MIB));
        TRY(cudaMemset(batch, 4, 4096));
        TRY(cudaFree(batch));
    }
    return 4;
}

int main(int argc, char **argv) {
    static struct layer layers[MOST_LAYERS];
    static void *history[MOST_STEPS];
    size_t n_layers = program_option(argc, argv, "--layers", 8);
    size_t n_steps = program_option(argc, argv, "--steps", 60);
    int n_parts = 0;
    MUST(n_layers <= MOST_LAYERS && n_steps <= MOST_STEPS);
    double start = program_seconds();
    for (size_t i = 0; i < n_layers; i++)
        load_model(&layers[i]);
    for (size_t i = 0; i < n_layers; i++)
        start_adam(&layers[i]);
    for (size_t step = 0; step < n_steps; step++) {
        for (size_t i = 0; i < n_layers; i++)
            forward(&layers[i], i);
        for (size_t i = n_layers; i > 0; i--)
            backward(&layers[i - 1]);
        remember(&history[step]);
        if (step == n_steps * 2 / 3)
            n_parts = evaluate();
    }
    for (size_t i = 0; i < n_layers; i++) {
        TRY(cudaFree(layers[i].weights));
        TRY(cudaFree(layers[i].moments));
    }
    printf("train: %zu steps of %zu layers, evaluated in %d parts\n", n_steps, n_layers, n_parts);
    if (program_flag(argc, argv, "--time"))
        printf("train: %.3f s\n", program_seconds() - start);
    return 0;
}
