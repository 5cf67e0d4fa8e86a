/*
 * Runs a fuzz target without libFuzzer: N seeded random inputs (default 2000), or the named files.
 *
 *   fuzz-NAME [-n N] [FILE...]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static int run_file(const char *name) {
    static uint8_t data[1 << 20];
    FILE *file = fopen(name, "rb");
    if (!file) {
        perror(name);
        return 1;
    }
    size_t n_bytes = fread(data, 1, sizeof data, file);
    fclose(file);
    return LLVMFuzzerTestOneInput(data, n_bytes);
}

int main(int argc, char **argv) {
    static uint8_t data[4096];
    unsigned long n_inputs = 2000;
    int n_files = 0, n_failed = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-n") == 0 && i + 1 < argc) {
            n_inputs = strtoul(argv[++i], NULL, 10);
            continue;
        }
        n_failed += run_file(argv[i]) != 0;
        n_files++;
    }
    for (unsigned long n = 0; !n_files && n < n_inputs; n++) {
        size_t n_bytes = draw() % (sizeof data + 1);
        for (size_t i = 0; i < n_bytes; i++)
            data[i] = (uint8_t)(draw() >> 32);
        n_failed += LLVMFuzzerTestOneInput(data, n_bytes) != 0;
    }
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
