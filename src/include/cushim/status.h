/*
 * Statuses: what every function of cushim returns.
 *
 * 0 is success, every failure is negative, and a number never changes its meaning.  A binding
 * treats an unknown negative number as a failure.
 */
#ifndef CUSHIM_STATUS_H
#define CUSHIM_STATUS_H

/* The mark of a function that libcushim exports; its version script is made from it. */
#define CUSHIM_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

enum cushim_status {
    CUSHIM_OK = 0,
    CUSHIM_INVALID = -1,
    CUSHIM_NOMEM = -2,
    CUSHIM_NOSYM = -3,
    CUSHIM_NOCUDA = -4,
    CUSHIM_NODEVICE = -5,
    CUSHIM_BADDEVICE = -6,
    CUSHIM_NOCONTEXT = -7,
    CUSHIM_DEADCONTEXT = -8,
    CUSHIM_BADHANDLE = -9,
    CUSHIM_UNKNOWNPTR = -10,
    CUSHIM_DOUBLEFREE = -11,
    CUSHIM_STATE = -12,
    CUSHIM_NOTFOUND = -13,
    CUSHIM_NOFILE = -14,
    CUSHIM_NOBINARY = -15,
    CUSHIM_COMPILE = -16,
    CUSHIM_LAUNCH = -17,
    CUSHIM_FAULT = -18,
    CUSHIM_ECC = -19,
    CUSHIM_NOTREADY = -20,
    CUSHIM_NOTSUPPORTED = -21,
    CUSHIM_CAPTURE = -22,
    CUSHIM_EMPTYGRAPH = -23,
    CUSHIM_UPDATE = -24,
    CUSHIM_STALE = -25,
    CUSHIM_LIMIT = -26,
    CUSHIM_SYSTEM = -27,
    CUSHIM_TIMEOUT = -28,
    CUSHIM_ABI = -29,
    CUSHIM_VULKAN = -30,
    CUSHIM_UNKNOWN = -31,
    CUSHIM_CALLBACK = -32
};

/* Classes of failure, as bits; COMPILE comes together with LOGIC. */
enum cushim_class {
    CUSHIM_CLASS_NONE = 0,
    CUSHIM_CLASS_MEMORY = 1,
    CUSHIM_CLASS_LOGIC = 2,
    CUSHIM_CLASS_LAUNCH = 4,
    CUSHIM_CLASS_RUNTIME = 8,
    CUSHIM_CLASS_COMPILE = 16,
    CUSHIM_CLASS_OTHER = 32
};

/**
 * Name a status.
 * @param status  any value
 * @return "CUSHIM_NOMEM" and the like, "CUSHIM_?" for a number that is not a status; never NULL,
 *         static
 * Threads  any; takes no lock
 */
CUSHIM_API const char *cushim_status_name(enum cushim_status status);

/**
 * Get the meaning of a status in words.
 * @param status  any value
 * @return one phrase in English; never NULL, static
 * Threads  any; takes no lock
 */
CUSHIM_API const char *cushim_status_text(enum cushim_status status);

/**
 * Get the class of a status.
 * @param status  any value
 * @return bits of enum cushim_class; CUSHIM_CLASS_OTHER for a number that is not a status
 * Threads  any; takes no lock
 */
CUSHIM_API int cushim_status_class(enum cushim_status status);

#ifdef __cplusplus
}
#endif

#endif
