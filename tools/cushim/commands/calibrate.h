/* `cushim calibrate`: how long driver allocations and frees take on this machine. */
#ifndef CUSHIM_TOOLS_CALIBRATE_H
#define CUSHIM_TOOLS_CALIBRATE_H

/* argv[0] is "calibrate".  Returns an exit code. */
int calibrate_main(int argc, char **argv);

#endif
