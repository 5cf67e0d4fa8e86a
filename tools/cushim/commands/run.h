/* `cushim run`: become another program, with the preload library in it. */
#ifndef CUSHIM_TOOLS_RUN_H
#define CUSHIM_TOOLS_RUN_H

/* argv[0] is "run".  Returns an exit code; does not return where the program was started. */
int run_main(int argc, char **argv);

#endif
