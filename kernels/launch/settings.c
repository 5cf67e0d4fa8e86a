#include "kernels/launch/settings.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct cushim_kernel_settings settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_arch(const char *word) {
    static const struct {
        const char *word;
        int arch;
    } known[] = {{"75", 75}, {"80", 80}, {"89", 89}, {"90", 90}, {"cpu", 0}};
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(word, known[i].word) == 0) {
            settings.arch = known[i].arch;
            settings.is_cpu = known[i].arch == 0;
            settings.has_arch = true;
            return;
        }
    }
    settings.wrong = word;
}

static void read_all(void) {
    const char *arch = getenv("CUSHIM_KERNEL_ARCH"), *pdl = getenv("CUSHIM_KERNEL_PDL");
    settings.has_pdl = !pdl || strcmp(pdl, "0") != 0;
    if (arch && *arch)
        read_arch(arch);
}

const struct cushim_kernel_settings *cushim_kernel_settings(void) {
    pthread_once(&once, read_all);
    return &settings;
}
