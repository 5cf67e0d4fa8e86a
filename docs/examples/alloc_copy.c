/*
 * Device memory, written and read back: the smallest program that does something.
 *
 *   cc -o alloc_copy alloc_copy.c $(pkg-config --cflags --libs cushim)
 *
 * It needs no CUDA header and no link to CUDA: the first call loads the driver, and if there is
 * none, that call says so.  It prints:
 *
 *   400 floats there and back
 */
#include <cushim/cushim.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    float there[400], back[400] = {0};
    for (int i = 0; i < 400; i++)
        there[i] = (float)i / 7;

    cushim_devptr p = 0;
    if (cushim_memory_alloc(NULL, sizeof there, &p) != CUSHIM_OK ||
        cushim_memory_h2d(p, there, sizeof there) != CUSHIM_OK ||
        cushim_memory_d2h(back, p, sizeof back) != CUSHIM_OK ||
        cushim_memory_free(p) != CUSHIM_OK) {
        fprintf(stderr, "%s\n", cushim_last_error());
        return 1;
    }
    puts("400 floats there and back");
    return memcmp(there, back, sizeof there) != 0;
}
