/*
 * A family of kernels: its fatbin, the kernels in it, and the devices on which they are ready.
 *
 * The fatbin is loaded once per process, at the first use or by cushim_kernels_load(), and stays
 * loaded.  If the driver cannot load it, the next use tries again.  Loading takes the family's
 * mutex; a use takes none if the device is ready.
 */
#ifndef CUSHIM_KERNELS_FAMILY_H
#define CUSHIM_KERNELS_FAMILY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cushim/status.h"
#include "companion/shared.h"
#include "kernels/launch/facts.h"

enum { CUSHIM_FAMILY_MOST_KERNELS = 192 };

struct cushim_kernel {
    const char *name;      /* in the fatbin: <family>_<what>; NULL has no kernel at this number */
    unsigned shared_bytes; /* the most dynamic shared memory of any launch.  If it is above 48
                              KiB, loading raises the limit to it, or to what the device has */
    bool is_wide;          /* launched in clusters of more than 8 blocks */
    bool wants_l1;         /* L1 gets what its blocks do not need as shared memory */
};

/*
 * What the driver answered about clusters of a kernel, one bit per device: for up to 8 blocks, and
 * for more.
 */
struct cushim_kernel_clusters {
    atomic_uint_fast64_t asked[2], had[2];
};

struct cushim_kernel_family {
    const char *name;
    const unsigned char *image;          /* the fatbin */
    const struct cushim_kernel *kernels; /* [n_kernels] */
    unsigned n_kernels;
    struct cushim_kernel_clusters *clusters; /* [n_kernels] */
    pthread_mutex_t lock;
    CUlibrary library;                            /* held to load */
    CUkernel handles[CUSHIM_FAMILY_MOST_KERNELS]; /* written before a bit of ready is set */
    atomic_uint_fast64_t ready;                   /* one bit per device; bit 63 is for all beyond */
};

/*
 * Define the family of a file: CUSHIM_KERNEL_FAMILY(softmax, kernels) with an array of struct
 * cushim_kernel makes cushim_family_softmax of the image cushim_fatbin_softmax.  Add its name to
 * families.def.
 */
#define CUSHIM_KERNEL_FAMILY(family, list)                                                         \
    extern const unsigned char cushim_fatbin_##family[];                                           \
    static struct cushim_kernel_clusters cushim_clusters_##family[sizeof(list) / sizeof *(list)];  \
    struct cushim_kernel_family cushim_family_##family = {.name = #family,                         \
                                                          .image = cushim_fatbin_##family,         \
                                                          .kernels = (list),                       \
                                                          .n_kernels =                             \
                                                              sizeof(list) / sizeof *(list),       \
                                                          .clusters = cushim_clusters_##family,    \
                                                          .lock = PTHREAD_MUTEX_INITIALIZER};      \
    _Static_assert(sizeof(list) / sizeof *(list) <= CUSHIM_FAMILY_MOST_KERNELS, #family)

#define FAMILY(name) extern struct cushim_kernel_family cushim_family_##name;
#include "kernels/launch/families.def"
#undef FAMILY

/**
 * Make a family's kernels ready to launch on a device.
 * @param what    the public function, for the text
 * @param device  its ordinal
 * @param facts   of the device
 * @return CUSHIM_OK | NOTSUPPORTED (the driver or the device cannot run the fatbin) | another
 *         driver status; the error text is set
 * Threads  any
 * Capture  valid while any thread captures
 */
enum cushim_status cushim_family_use(const char *what, struct cushim_kernel_family *family,
                                     int device, const struct cushim_kernel_facts *facts);

#endif
