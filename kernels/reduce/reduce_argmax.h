/* What the launcher and the kernels of argmax agree on. */
#ifndef CUSHIM_KERNELS_REDUCE_ARGMAX_H
#define CUSHIM_KERNELS_REDUCE_ARGMAX_H

enum {
    REDUCE_ARGMAX_THREADS = 1024,
    REDUCE_ARGMAX_PARTS_THREADS = 512, /* few large blocks, so that little is left to the last
                                          kernel */
    REDUCE_ARGMAX_PARTS_PER_SM = 2,
    REDUCE_ARGMAX_LAST_THREADS = 512,
    REDUCE_ARGMAX_WORDS = 3,            /* of 32 bits, of one part in scratch */
    REDUCE_ARGMAX_PLACE_BYTES = 64 * 16 /* shared memory of a cluster's block: 64 candidates */
};

#endif
