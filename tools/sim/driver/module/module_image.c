#include "module_image.h"

#include "function.h"

#include "gpu_image.h"
#include "sim.h"
#include "tools/sim/driver/core/options.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What images begin with. */
static const uint32_t WRAPPER = 0x466243b1, FATBIN = 0xba55ed50, ELF = 0x464c457f;

static bool begins_with(const char *text, uint32_t wanted) {
    uint32_t magic;
    if (!text[0] || !text[1] || !text[2])
        return false; /* a shorter text */
    memcpy(&magic, text, sizeof magic);
    return magic == wanted;
}

bool sim_image_is_own(const char *text) {
    return strncmp(text, SIM_MODULE_IMAGE, sizeof SIM_MODULE_IMAGE - 1) == 0;
}

/* The program takes any fatbin for its own kernels. */
static bool is_taken_unread(const char *text) {
    return sim_options()->kernels == SIM_KERNELS_PROGRAM && begins_with(text, FATBIN) &&
           dlsym(RTLD_DEFAULT, "sim_fatbin_kernels");
}

/* Does the program have a function for a kernel of a GPU's image? */
static bool has_function(struct sim_part part) {
    struct sim_image image = {NULL, 0, false};
    bool is_found = false;
    sim_gpu_image_read(&image, part);
    for (size_t i = 0; i < image.n && !is_found; i++)
        is_found =
            image.rows[i].kind == SIM_IMAGE_ENTRY && sim_function_is_of_program(image.rows[i].name);
    sim_image_finish(&image);
    return is_found;
}

CUresult sim_image_judge(struct sim_part image) {
    const char *text = image.bytes;
    if (sim_image_is_own(text))
        return CUDA_SUCCESS;
    bool is_ptx = strncmp(text, "//", 2) == 0 || strncmp(text, ".version", 8) == 0;
    if (!is_ptx && !begins_with(text, WRAPPER) && !begins_with(text, FATBIN) &&
        !begins_with(text, ELF))
        return CUDA_ERROR_INVALID_IMAGE;
    if (sim_options()->kernels != SIM_KERNELS_PROGRAM)
        return CUDA_SUCCESS;
    return is_taken_unread(text) || has_function(image) ? CUDA_SUCCESS
                                                        : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

bool sim_image_add(struct sim_image *image, const struct sim_image_row *row, const char *name) {
    struct sim_image_row *rows = realloc(image->rows, (image->n + 1) * sizeof *rows), *added;
    if (!rows)
        return false;
    image->rows = rows;
    added = &rows[image->n++];
    *added = *row;
    added->name = strdup(name);
    added->contents = NULL;
    char *contents = row->contents ? malloc(row->sizes[0]) : NULL;
    if (contents)
        added->contents = memcpy(contents, row->contents, row->sizes[0]);
    return added->name && (contents || !row->contents);
}

/* Parse one line without its end; its name stays in it.  False if it is none of ours. */
static bool read_line(struct sim_image_row *row, char *line) {
    static const char *const words[] = {[SIM_IMAGE_ENTRY] = ".entry",
                                        [SIM_IMAGE_FUNC] = ".func",
                                        [SIM_IMAGE_EXTERN] = ".extern",
                                        [SIM_IMAGE_GLOBAL] = ".global",
                                        [SIM_IMAGE_SHARED] = ".shared"};
    char *rest = NULL, *word = strtok_r(line, " ", &rest), *name = strtok_r(NULL, " ", &rest);
    *row = (struct sim_image_row){.kind = SIM_IMAGE_ENTRY};
    while (row->kind <= SIM_IMAGE_SHARED && strcmp(words[row->kind], word) != 0)
        row->kind++;
    if (row->kind > SIM_IMAGE_SHARED || !name)
        return false;
    row->name = name;
    char *number = strtok_r(NULL, " ", &rest);
    for (int i = 0; number && i < SIM_IMAGE_N_SIZES - 1; i++) {
        row->sizes[i] = strtoul(number, NULL, 10);
        if (row->sizes[i] == 0)
            return false;
        number = strtok_r(NULL, " ", &rest);
    }
    bool has_size = row->kind == SIM_IMAGE_GLOBAL || row->kind == SIM_IMAGE_SHARED;
    return !number && (!has_size || row->sizes[0]);
}

/* The lines after the first; they are cut into pieces. */
static CUresult read_lines(struct sim_image *image, char *text, struct sim_image_log *log) {
    struct sim_image_row row;
    char *line = text;
    for (int number = 1; line; number++) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        char shown[64];
        snprintf(shown, sizeof shown, "%s", line);
        if (number > 1 && *line && !read_line(&row, line)) {
            snprintf(log->text, log->cap_bytes, "image, line %d; error   : Not understood: '%s'\n",
                     number, shown);
            return CUDA_ERROR_INVALID_PTX;
        }
        if (number > 1 && *line && !sim_image_add(image, &row, row.name))
            return CUDA_ERROR_OUT_OF_MEMORY;
        line = end ? end + 1 : NULL;
    }
    return CUDA_SUCCESS;
}

CUresult sim_image_read(struct sim_image *image, struct sim_part text, struct sim_image_log *log) {
    *image = (struct sim_image){NULL, 0, false};
    if (!sim_image_is_own(text.bytes)) {
        if (!is_taken_unread(text.bytes))
            sim_gpu_image_read(image, text);
        return CUDA_SUCCESS;
    }
    char *copy = strdup(text.bytes);
    CUresult result = copy ? read_lines(image, copy, log) : CUDA_ERROR_OUT_OF_MEMORY;
    free(copy);
    if (result != CUDA_SUCCESS)
        sim_image_finish(image);
    return result;
}

const struct sim_image_row *sim_image_find(const struct sim_image *image, enum sim_image_kind kind,
                                           const char *name) {
    for (size_t i = 0; i < image->n; i++) {
        if (image->rows[i].kind == kind && strcmp(image->rows[i].name, name) == 0)
            return &image->rows[i];
    }
    return NULL;
}

const char *sim_image_unresolved(const struct sim_image *image) {
    for (size_t i = 0; i < image->n; i++) {
        if (image->rows[i].kind == SIM_IMAGE_EXTERN &&
            !sim_image_find(image, SIM_IMAGE_FUNC, image->rows[i].name))
            return image->rows[i].name;
    }
    return NULL;
}

bool sim_image_has_kernel(const struct sim_image *image, const char *name) {
    for (size_t i = 0; i < image->n; i++) {
        if (image->rows[i].kind == SIM_IMAGE_ENTRY || image->rows[i].kind == SIM_IMAGE_FUNC)
            return sim_image_find(image, SIM_IMAGE_ENTRY, name) != NULL;
    }
    return !image->is_complete;
}

void sim_image_finish(struct sim_image *image) {
    for (size_t i = 0; i < image->n; i++) {
        free(image->rows[i].name);
        free((void *)image->rows[i].contents);
    }
    free(image->rows);
    *image = (struct sim_image){NULL, 0, false};
}

struct sim_image_log sim_image_log_of(unsigned n, const CUjit_option *options, void **values,
                                      CUjit_option buffer, CUjit_option size) {
    struct sim_image_log log = {NULL, 0};
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == buffer)
            log.text = values[i];
        if (options[i] == size)
            log.cap_bytes = (size_t)(uintptr_t)values[i];
    }
    if (!log.text || !log.cap_bytes)
        return (struct sim_image_log){NULL, 0};
    log.text[0] = '\0';
    return log;
}
