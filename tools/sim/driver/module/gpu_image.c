#include "gpu_image.h"

#include "fatbin.h"
#include "tools/sim/driver/core/model.h"

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>

/* The first words of images, and of the wrapper around a fatbin in a program of nvcc's. */
static const uint32_t WRAPPER = 0x466243b1, FATBIN = 0xba55ed50, CUBIN = 0x464c457f;

struct wrapper {
    uint32_t magic, version;
    const void *fatbin, *others;
};

static bool is_elf64(const unsigned char *bytes) {
    return memcmp(bytes, ELFMAG, SELFMAG) == 0 && bytes[EI_CLASS] == ELFCLASS64;
}

/* A cubin has no size: its table of sections comes last. */
static struct sim_part whole_cubin(struct sim_part bytes) {
    Elf64_Ehdr head;
    if (bytes.n_bytes < sizeof head || !is_elf64((const unsigned char *)bytes.bytes))
        return (struct sim_part){NULL, 0};
    memcpy(&head, bytes.bytes, sizeof head);
    size_t n_bytes = head.e_shoff + (size_t)head.e_shnum * head.e_shentsize;
    return (struct sim_part){bytes.bytes, n_bytes < bytes.n_bytes ? n_bytes : bytes.n_bytes};
}

static bool read_part(struct sim_image *image, struct sim_part part) {
    if (part.n_bytes > sizeof(Elf64_Ehdr) && is_elf64((const unsigned char *)part.bytes))
        return sim_cubin_read(image, part);
    return sim_ptx_read(image, part);
}

static bool read_fatbin(struct sim_image *image, const void *bytes, size_t most_bytes) {
    struct sim_part fatbin = sim_fatbin_whole(bytes);
    if (fatbin.n_bytes > most_bytes)
        fatbin.n_bytes = most_bytes;
    struct sim_part content = sim_fatbin_take(fatbin, sim_model().capability);
    bool is_read = content.bytes && read_part(image, content);
    free((void *)content.bytes);
    return is_read;
}

/* A text ends with a 0, or at the end of the part. */
static bool read_bytes(struct sim_image *image, struct sim_part part) {
    uint32_t magic;
    struct wrapper wrapper;
    memcpy(&magic, part.bytes, sizeof magic);
    if (magic == WRAPPER && part.n_bytes >= sizeof wrapper) {
        memcpy(&wrapper, part.bytes, sizeof wrapper);
        return wrapper.fatbin && read_fatbin(image, wrapper.fatbin, SIZE_MAX);
    }
    if (magic == FATBIN)
        return part.n_bytes >= 16 && read_fatbin(image, part.bytes, part.n_bytes);
    if (magic == CUBIN)
        return sim_cubin_read(image, whole_cubin(part));
    return sim_ptx_read(image, (struct sim_part){part.bytes, strnlen(part.bytes, part.n_bytes)});
}

bool sim_gpu_image_read(struct sim_image *image, struct sim_part bytes) {
    image->is_complete = read_bytes(image, bytes);
    if (!image->is_complete)
        sim_image_finish(image);
    return image->is_complete;
}
