/* Cards of a build without Vulkan's headers.  There are none, so the functions after the first two
 * are never called. */
#include "companion/mapped/mapper.h"

bool cushim_card_is_possible(void) {
    return false;
}

enum cushim_status cushim_card_obtain(const char *what, const unsigned char uuid[16], int device,
                                      struct cushim_card **out) {
    (void)uuid;
    *out = NULL;
    return cushim_fail(what, CUSHIM_NOTSUPPORTED,
                       "device=%d: this libcushim was built without Vulkan", device);
}

void cushim_card_release(struct cushim_card *card) {
    (void)card;
}

enum cushim_status cushim_card_choose(const char *what, struct cushim_card *card, unsigned flags,
                                      struct cushim_card_type *type) {
    (void)what, (void)card, (void)flags, (void)type;
    return CUSHIM_NOTSUPPORTED;
}

void cushim_card_budget(struct cushim_card *card, unsigned heap, size_t *free_bytes,
                        size_t *total_bytes) {
    (void)card, (void)heap;
    *free_bytes = *total_bytes = 0;
}

enum cushim_status cushim_card_alloc(struct cushim_card *card, const struct cushim_card_type *type,
                                     size_t bytes, struct cushim_card_memory *memory) {
    (void)card, (void)type, (void)bytes, (void)memory;
    return CUSHIM_NOTSUPPORTED;
}

void cushim_card_free(struct cushim_card *card, struct cushim_card_memory *memory) {
    (void)card, (void)memory;
}

enum cushim_status cushim_card_export(const char *what, struct cushim_card *card,
                                      const struct cushim_card_memory *memory,
                                      enum cushim_card_export kind, int *fd) {
    (void)what, (void)card, (void)memory, (void)kind, (void)fd;
    return CUSHIM_NOTSUPPORTED;
}

enum cushim_status cushim_card_sync(struct cushim_card *card,
                                    const struct cushim_card_memory *memory, size_t offset,
                                    size_t bytes, enum cushim_card_sync way) {
    (void)card, (void)memory, (void)offset, (void)bytes, (void)way;
    return CUSHIM_NOTSUPPORTED;
}
