#include "dropin/vkgdr/error.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cushim/library.h"
#include "dropin/vkgdr/vkgdr.h"

enum { TEXT_BYTES = 1024 };

static _Thread_local char text[TEXT_BYTES];
static _Thread_local bool is_set;

void vkgdr_error_clear(void) {
    is_set = false;
}

void *vkgdr_error_set(const char *what, const char *name) {
    snprintf(text, sizeof text, "%s failed (%s)", what, name);
    is_set = true;
    return NULL;
}

/* "<what> failed: <name>: <text> (<details>)"; Vulkan's results are in the details. */
void *vkgdr_error_take(void) {
    static const char failed[] = " failed: ", vulkan[] = "(result=";
    const char *from = cushim_last_error();
    const char *name = strstr(from, failed);
    if (!name)
        return vkgdr_error_set("libcushim", "CUSHIM_?");
    int what_bytes = (int)(name - from);
    name += sizeof failed - 1;
    const char *details = strstr(name, " (");
    const char *result = strstr(name, vulkan);
    bool is_own = !result && strncmp(name, "CUSHIM_", 7) == 0;
    if (result)
        name = result + sizeof vulkan - 1;
    snprintf(text, sizeof text, "%.*s failed (%.*s)%s%s", what_bytes, from,
             (int)strcspn(name, ": )"), name, is_own && details ? ":" : "",
             is_own && details ? details : "");
    is_set = true;
    return NULL;
}

char *vkgdr_last_error(void) {
    return is_set ? strdup(text) : NULL;
}
