/* What is called when a thread ends. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/* CUSHIM_THREAD_END(watch, end): define `static bool watch(void *value)`.  After it, `end` gets the
 * value, which is not NULL, when the calling thread ends; false: it will not. */
#define CUSHIM_THREAD_END(watch, end)                                                              \
    static pthread_key_t watch##_key;                                                              \
    static bool watch##_has_key;                                                                   \
                                                                                                   \
    static void watch##_make_key(void) {                                                           \
        watch##_has_key = pthread_key_create(&watch##_key, end) == 0;                              \
    }                                                                                              \
                                                                                                   \
    static bool watch(void *value) {                                                               \
        static pthread_once_t once = PTHREAD_ONCE_INIT;                                            \
        pthread_once(&once, watch##_make_key);                                                     \
        return watch##_has_key && pthread_setspecific(watch##_key, value) == 0;                    \
    }
