/* `cushim diff`: two runs side by side, and whether the second is worse than allowed. */
#ifndef CUSHIM_TOOLS_DIFF_H
#define CUSHIM_TOOLS_DIFF_H

/* argv[0] is "diff". */
int diff_main(int argc, char **argv);

#endif
