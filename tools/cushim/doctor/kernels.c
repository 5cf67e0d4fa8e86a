#include "tools/cushim/doctor/kernels.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/launch/settings.h"
#include "tools/cushim/doctor/fatbin.h"
#include "tools/cushim/file_image.h"
#include "tools/cushim/launch.h"
#include "tools/cushim/doctor/machine.h"
#include "tools/cushim/doctor/findings.h"

#define LIBRARY "libcushim-kernels.so"

enum {
    LEAST_CAPABILITY = 75, /* as in kernels/launch/call.c */
    LEAST_DRIVER = 13000,  /* our kernels are built with a toolkit of 13.0 or later */
    TEXT_BYTES = 256
};

/* Look in the places of cushim_kernels_open, as far as the command knows them. */
static bool find(char path[PATH_MAX]) {
    const char *given = getenv("CUSHIM_KERNELS");
    if (given && *given == '/') {
        snprintf(path, PATH_MAX, "%s", given);
        return true;
    }
    if (given)
        report_note("setting", "CUSHIM_KERNELS=%s is not an absolute path and is ignored", given);
    return launch_find_library(LIBRARY ".0", "../../kernels", path);
}

/* The family (each is a fatbin) that fits a device worst. */
struct choice {
    enum fatbin_fit fit;
    struct fatbin_code code; /* not set if there is none */
    unsigned n_families;     /* that fit no better */
};

static unsigned choose(struct choice *choice, struct image section, unsigned capability) {
    struct fatbin fatbin;
    unsigned n_families = 0;
    *choice = (struct choice){.fit = FATBIN_EXACT};
    while (fatbin_take(&section, &fatbin)) {
        struct fatbin_code code = {.capability = 0};
        enum fatbin_fit fit =
            capability < LEAST_CAPABILITY ? FATBIN_NONE : fatbin_choose(&fatbin, capability, &code);
        n_families++;
        if (n_families == 1 || fit < choice->fit)
            *choice = (struct choice){.fit = fit, .code = code};
        choice->n_families += fit == choice->fit;
    }
    return n_families;
}

static void describe(char text[TEXT_BYTES], const struct choice *choice, unsigned n_families) {
    static const struct {
        const char *before, *behind;
    } fits[] = {[FATBIN_EXACT] = {"code compiled for it, ", ""},
                [FATBIN_NEAR] = {"code that runs on it, ", ""},
                [FATBIN_PTX] = {"", ", which the driver compiles at the first use"},
                [FATBIN_NONE] = {"no code for it", ""}};
    char name[FATBIN_NAME_BYTES] = "", part[64] = "";
    if (choice->fit != FATBIN_NONE)
        fatbin_name(&choice->code, name);
    if (choice->n_families < n_families)
        snprintf(part, sizeof part, " in %u of %u families", choice->n_families, n_families);
    snprintf(text, TEXT_BYTES, "%s%s%s%s", fits[choice->fit].before, name, fits[choice->fit].behind,
             part);
}

/* Why the CPU references run in spite of the code; NULL if they do not. */
static const char *why_references(const struct machine *machine) {
    const struct cushim_kernel_settings *settings = cushim_kernel_settings();
    if (settings->has_arch)
        return settings->is_cpu ? "CUSHIM_KERNEL_ARCH says so" : NULL;
    return driver_is_software(&machine->driver) ? "it is a software device" : NULL;
}

static void examine_device(const struct machine *machine, int device, struct image section) {
    char row[32], text[TEXT_BYTES];
    const char *references = why_references(machine);
    struct choice choice;
    int major = 0, minor = 0;
    const struct driver *driver = &machine->driver;
    driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    unsigned n_families = choose(&choice, section, 10 * (unsigned)major + (unsigned)minor);
    describe(text, &choice, n_families);
    if (machine->driver_version < LEAST_DRIVER) {
        snprintf(text, sizeof text, "none that a driver of CUDA " MACHINE_VERSION " loads",
                 MACHINE_VERSION_PARTS(machine->driver_version));
        choice.fit = FATBIN_NONE;
    }
    snprintf(row, sizeof row, "for device %d", device);
    if (references)
        report_note(row, "of %d.%d: %s; but the CPU references run: %s", major, minor, text,
                    references);
    else if (choice.fit == FATBIN_NONE)
        report_note(row,
                    "of %d.%d: %s; calls return CUSHIM_NOTSUPPORTED, or run the CPU references if "
                    "CUSHIM_KERNEL_ARCH=cpu",
                    major, minor, text);
    else
        report_add(choice.fit == FATBIN_PTX ? REPORT_NOTE : REPORT_OK, row, "of %d.%d: %s", major,
                   minor, text);
}

static void examine_setting(void) {
    const struct cushim_kernel_settings *settings = cushim_kernel_settings();
    if (settings->wrong)
        report_wrong("setting", "CUSHIM_KERNEL_ARCH=%s is none of 75, 80, 89, 90, cpu",
                     settings->wrong);
    else if (settings->has_arch)
        report_note("setting", "CUSHIM_KERNEL_ARCH=%s", getenv("CUSHIM_KERNEL_ARCH"));
}

void kernels_examine(const struct machine *machine) {
    char path[PATH_MAX];
    struct image library, section = {NULL, 0};
    struct fatbin fatbin;
    report_heading("the kernels, for programs that call " LIBRARY);
    examine_setting();
    if (!find(path)) {
        report_note("library",
                    "not built or not installed beside this command; with nvcc: meson configure "
                    "<build> -Dkernels=enabled && ninja -C <build>");
        return;
    }
    int error = image_map(&library, path, NULL);
    bool is_whole = !error && fatbin_find(&library, &section);
    for (struct image rest = section; is_whole && rest.n_bytes;)
        is_whole = fatbin_take(&rest, &fatbin);
    if (error)
        report_wrong("library", "%s: %s", path, strerror(error));
    else if (!is_whole)
        report_wrong("library", "%s: no fatbins that can be read", path);
    else
        report_ok("library", "%s", path);
    for (int i = 0; is_whole && i < machine->n_devices; i++)
        examine_device(machine, i, section);
    image_unmap(&library);
}
