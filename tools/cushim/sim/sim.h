/* `cushim sim`: a program on the software device. */
#ifndef CUSHIM_TOOLS_SIM_COMMAND_H
#define CUSHIM_TOOLS_SIM_COMMAND_H

/* argv[0] is "sim". */
int sim_main(int argc, char **argv);

#endif
