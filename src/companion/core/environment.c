#include "companion/core/environment.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"

static struct cushim_options settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_once(void) {
    cushim_options_load_at(&settings, CUSHIM_LOG_OFF);
    /* without a log the check would not show what it finds */
    if (settings.check && !getenv("CUSHIM_LOG"))
        cushim_log_set_level(CUSHIM_LOG_ERROR);
}

const struct cushim_options *cushim_settings(void) {
    pthread_once(&once, read_once);
    return &settings;
}
