/* A mutex that is held until the end of the block. */
#pragma once

#include <pthread.h>

static inline pthread_mutex_t *cushim_mutex_hold(pthread_mutex_t *mutex) {
    pthread_mutex_lock(mutex);
    return mutex;
}

static inline void cushim_mutex_let_go(pthread_mutex_t **mutex) {
    pthread_mutex_unlock(*mutex);
}

/* CUSHIM_LOCKED(&lock): as a declaration, once in a block; values of `return` are read under it. */
#define CUSHIM_LOCKED(mutex)                                                                       \
    __attribute__((cleanup(cushim_mutex_let_go), unused)) pthread_mutex_t *held_mutex_ =           \
        cushim_mutex_hold(mutex)

/* The value of an expression, made under a mutex. */
#define CUSHIM_UNDER(mutex, expr)                                                                  \
    __extension__({                                                                                \
        pthread_mutex_lock(mutex);                                                                 \
        __typeof__(expr) value_ = (expr);                                                          \
        pthread_mutex_unlock(mutex);                                                               \
        value_;                                                                                    \
    })
