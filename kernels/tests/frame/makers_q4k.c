/* The makers that kernels/tests/cases/cases_q4k.h declares. */
#include "kernels/tests/cases/cases_q4k.h"

#include <string.h>

/* A few q4k super-blocks, one of n_bytes after the other. */
typedef void make_block(struct kernel_draw *draw, uint8_t *block);

static void make_blocks(struct kernel_draw *draw, void *values, size_t n_bytes, make_block *make) {
    for (size_t i = 0; i + Q4K_BYTES <= n_bytes; i += Q4K_BYTES)
        make(draw, (uint8_t *)values + i);
}

static void quantised(struct kernel_draw *draw, uint8_t *block) {
    float values[Q4K_VALUES];
    int is_zero = draw_bits(draw) % 10 == 0;
    for (int i = 0; i < Q4K_VALUES; i++)
        values[i] = is_zero ? 0 : (float)draw_gauss(draw);
    quantise_q4k(values, block);
}

/* A half's exponent is below 31 if its top bit of five is 0. */
static void any_bytes(struct kernel_draw *draw, uint8_t *block) {
    for (int i = 0; i < Q4K_BYTES; i++)
        block[i] = (uint8_t)draw_bits(draw);
    block[1] &= 0xBF;
    block[3] &= 0xBF;
}

static void at_edges(struct kernel_draw *draw, uint8_t *block) {
    static const uint16_t halves[] = {0, 1, 0x03FF, 0x0400, 0x3C00, 0x7BFF, 0x8000, 0x8001, 0xBC00};
    static const uint8_t bytes[] = {0, 0xFF, 0x0F, 0xF0};
    const size_t n_halves = sizeof halves / sizeof *halves;
    uint16_t scales[2] = {halves[draw_bits(draw) % n_halves], halves[draw_bits(draw) % n_halves]};
    uint8_t sc[8], mn[8];
    for (int j = 0; j < 8; j++) {
        uint64_t bits = draw_bits(draw);
        sc[j] = bits & 3 ? 63 : 0;
        mn[j] = bits & 12 ? 63 : 0;
    }
    memcpy(block, scales, sizeof scales);
    pack_q4k(sc, mn, block + 4);
    for (int i = 16; i < Q4K_BYTES; i++)
        block[i] = bytes[draw_bits(draw) % 4];
}

static void without_dmin(struct kernel_draw *draw, uint8_t *block) {
    quantised(draw, block);
    block[2] = block[3] = 0;
}

void make_q4k(struct kernel_draw *draw, void *values, size_t n) {
    make_blocks(draw, values, n, quantised);
}

void make_q4k_bits(struct kernel_draw *draw, void *values, size_t n) {
    make_blocks(draw, values, n, any_bytes);
}

void make_q4k_edges(struct kernel_draw *draw, void *values, size_t n) {
    make_blocks(draw, values, n, at_edges);
}

void make_q4k_without_dmin(struct kernel_draw *draw, void *values, size_t n) {
    make_blocks(draw, values, n, without_dmin);
}
