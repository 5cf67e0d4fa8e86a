/* `cushim compare`: a command without and with cushim, in turns. */
#ifndef CUSHIM_TOOLS_COMPARE_H
#define CUSHIM_TOOLS_COMPARE_H

/* argv[0] is "compare". */
int compare_main(int argc, char **argv);

#endif
