/*
 * Attributes of the preload.
 *
 * CUSHIM_EXPORT is before every hook, because the tree is built with hidden visibility, which
 * overrules the version script (interposition.md D5).  CUSHIM_EARLY is before code that runs inside
 * a look-up, because sanitizers look names up while they start, before code that they instrumented
 * may run.
 */
#pragma once

#define CUSHIM_EXPORT __attribute__((visibility("default")))

#if defined(__clang__)
#define CUSHIM_EARLY                                                                               \
    __attribute__((no_sanitize("address", "thread", "undefined", "memory"), no_stack_protector,    \
                   disable_sanitizer_instrumentation))
#else
#define CUSHIM_EARLY                                                                               \
    __attribute__((no_sanitize("address", "thread", "undefined"), no_stack_protector))
#endif

/* A sanitizer has to see the calls of what it is ahead of. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CUSHIM_IS_SANITIZED 1
#elif defined(__clang__)
#define CUSHIM_IS_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define CUSHIM_IS_SANITIZED 0
#endif
