/*
 * libkernels.so: names that a program asks for and that nothing public gives a meaning.  Each
 * refuses whatever it is called with.
 */
#include "kernels/dropin/enter.h"

#define REFUSED(name)                                                                              \
    int name(void) {                                                                               \
        return DROPIN_NOT_SUPPORTED;                                                               \
    }

REFUSED(iq_dequant_2xxs_f32)
REFUSED(iq_dequant_3s_f32)
REFUSED(iq_dequant_nl_f32)
REFUSED(kv_dequant_q3_f32)
REFUSED(kv_dequant_q4_f32)
REFUSED(nsa_attention_f32)
