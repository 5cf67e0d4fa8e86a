#include "complain.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"

void sim_complain(const char *format, ...) {
    char text[8192]; /* the longest path, and words */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cushim_utf8_clean(text);
    fprintf(stderr, "cushim software device: %s\n", text);
}
