/* What the driver writes to the user by itself. */
#pragma once

/* One line on standard error; "?" replaces control characters, because it may contain words of
 * others. */
__attribute__((format(printf, 1, 2))) void sim_complain(const char *format, ...);
