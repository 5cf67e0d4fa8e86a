#include "visible.h"

#include "device.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { UUID_CHARS = 4 + 36 }; /* GPU-, and 32 digits in five groups */

static void write_uuid(int number, char text[UUID_CHARS + 1]) {
    CUuuid uuid;
    sim_device_uuid(number, &uuid);
    char *at = text + sprintf(text, "GPU-");
    for (int i = 0; i < 16; i++)
        at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                      (unsigned char)uuid.bytes[i]);
}

/* The one device whose UUID begins like this; -1: none, or several. */
static int find_uuid(const char *entry, size_t n, int n_all) {
    int found = -1;
    for (int number = 0; number < n_all; number++) {
        char uuid[UUID_CHARS + 1];
        write_uuid(number, uuid);
        if (n > UUID_CHARS || strncasecmp(uuid, entry, n) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = number;
    }
    return found;
}

/* As atoi reads it, so that text after the digits is no error. */
static int find_index(const char *entry, int n_all) {
    char *end;
    long number = strtol(entry, &end, 10);
    return end != entry && number >= 0 && number < n_all ? (int)number : -1;
}

int sim_visible_devices(const char *text, int n_all, int *numbers) {
    bool is_seen[SIM_MAX_DEVICES] = {false};
    int n = 0;
    for (; !text && n < n_all; n++)
        numbers[n] = n;
    while (text) {
        while (isspace((unsigned char)*text))
            text++;
        size_t n_chars = strcspn(text, ",");
        size_t n_word = strcspn(text, ", \t\n");
        bool is_uuid = n_word >= 3 && strncasecmp(text, "GPU", 3) == 0;
        int number = is_uuid ? find_uuid(text, n_word, n_all) : find_index(text, n_all);
        if (number < 0)
            break;
        if (is_seen[number])
            return 0;
        is_seen[number] = true;
        numbers[n++] = number;
        text = text[n_chars] ? text + n_chars + 1 : NULL;
    }
    return n;
}
