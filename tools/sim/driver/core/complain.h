/* What the driver tells the user by itself. */
#ifndef CUSHIM_SIM_COMPLAIN_H
#define CUSHIM_SIM_COMPLAIN_H

/* One line on standard error; what controls a terminal is "?" in it, since words of others may. */
__attribute__((format(printf, 1, 2))) void sim_complain(const char *format, ...);

#endif
