/* `cushim merge`: reports of several processes, as one. */
#ifndef CUSHIM_TOOLS_MERGE_H
#define CUSHIM_TOOLS_MERGE_H

/* argv[0] is "merge". */
int merge_main(int argc, char **argv);

#endif
