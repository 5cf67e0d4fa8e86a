/*
 * RMS norm in all its kinds.  There are kernels of every shape with wide accesses, because rows of
 * models are multiples of 8.  With accesses of one element there is one shape, and one for rows of
 * any length.  Codes without a NaN, which the drop-in library has, are only for rows of any length.
 */
#include "kernels/device/device.cuh"

#include "kernels/norm/norm_rows.cuh"

#define WIDE(n_threads, n_blocks, word, Op, name, what, ...)                                       \
    KERNEL_OF(n_threads, n_blocks, norm_##word##_##name)                                           \
    (const struct norm_args args) {                                                                \
        what<Op, __VA_ARGS__>(args);                                                               \
    }

/* `one`, after the kind, means accesses of one element. */
#define EACH_ONE(n_threads, n_blocks, name, what, ...)                                             \
    WIDE(n_threads, n_blocks, rms_f32_one, RmsF32<1>, name, what, __VA_ARGS__)                     \
    WIDE(n_threads, n_blocks, add_rms_f32_one, AddRmsF32<1>, name, what, __VA_ARGS__)              \
    WIDE(n_threads, n_blocks, rms_add_f32_one, RmsAddF32<1>, name, what, __VA_ARGS__)              \
    WIDE(n_threads, n_blocks, rms_f16_one, RmsF16<1>, name, what, __VA_ARGS__)                     \
    WIDE(n_threads, n_blocks, rms_e4m3_one, RmsE4m3<1>, name, what, __VA_ARGS__)

#define EACH_KIND(n_threads, n_plain, n_adding, n_codes, name, what, ...)                          \
    WIDE(n_threads, n_plain, rms_f32, RmsF32<4>, name, what, __VA_ARGS__)                          \
    WIDE(n_threads, n_adding, add_rms_f32, AddRmsF32<4>, name, what, __VA_ARGS__)                  \
    WIDE(n_threads, n_adding, rms_add_f32, RmsAddF32<4>, name, what, __VA_ARGS__)                  \
    WIDE(n_threads, n_plain, rms_f16, RmsF16<8>, name, what, __VA_ARGS__)                          \
    WIDE(n_threads, n_codes, rms_e4m3, RmsE4m3<8>, name, what, __VA_ARGS__)

/*
 * Blocks for which a multiprocessor has registers: 1024 threads, or fewer if each has more of a
 * row.  The kinds that add have fewer, so that what they also read has room, but two blocks of 512.
 * If an instruction decodes codes, they and what comes with them fit in 40 registers, 1536
 * threads.
 */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define CODES_THREADS 1536
#else
#define CODES_THREADS 1024
#endif
#define BLOCK_OF(T)     ((T) <= 32 ? CUSHIM_ROW_BLOCK_THREADS : (T))
#define PLAIN_OF(T, E)  (((E) <= 16 || (T) == 512 ? 1024 : (E) <= 32 ? 768 : 512) / BLOCK_OF(T))
#define ADDING_OF(T, E) (((E) > 32 ? 384 : (E) > 16 ? 512 : (T) < 512 ? 768 : 1024) / BLOCK_OF(T))
#define CODES_OF(T, E)  ((T) > 32 && (E) <= 16 ? CODES_THREADS / (T) : PLAIN_OF(T, E))
#define ROW_SHAPE(T, E, when)                                                                      \
    EACH_KIND(BLOCK_OF(T), PLAIN_OF(T, E), ADDING_OF(T, E), CODES_OF(T, E), row_##T##_##E,         \
              norm_row, T, E, false)
#define LONG_SHAPE ROW_SHAPE
#define CLUSTER_SHAPE(T, E, when)                                                                  \
    EACH_KIND(T, PLAIN_OF(T, E), ADDING_OF(T, E), CODES_OF(T, E), cluster_##T##_##E, norm_cluster, \
              T, E)
#define ONE_SHAPE(T, E, when)                                                                      \
    EACH_ONE(BLOCK_OF(T), ADDING_OF(T, E), row_##T##_##E, norm_row, T, E, false)
#include "kernels/shared/row_shapes.def"

EACH_ONE(NORM_STREAM_THREADS, 1, stream, norm_stream, NORM_STREAM_THREADS)
EACH_KIND(NORM_STREAM_THREADS, 1, 1, 1, stream, norm_stream, NORM_STREAM_THREADS)
WIDE(NORM_STREAM_THREADS, 1, rms_e4m3_finite_one, RmsE4m3Finite<1>, stream, norm_stream,
     NORM_STREAM_THREADS)
WIDE(NORM_STREAM_THREADS, 1, rms_e4m3_finite, RmsE4m3Finite<8>, stream, norm_stream,
     NORM_STREAM_THREADS)
WIDE(NORM_STREAM_THREADS, 1, add_rms_bf16_one, AddRmsBf16<1>, stream, norm_stream,
     NORM_STREAM_THREADS)
WIDE(NORM_STREAM_THREADS, 1, rms_add_bf16_one, RmsAddBf16<1>, stream, norm_stream,
     NORM_STREAM_THREADS)
WIDE(NORM_STREAM_THREADS, 1, add_rms_bf16, AddRmsBf16<8>, stream, norm_stream, NORM_STREAM_THREADS)
WIDE(NORM_STREAM_THREADS, 1, rms_add_bf16, RmsAddBf16<8>, stream, norm_stream, NORM_STREAM_THREADS)
