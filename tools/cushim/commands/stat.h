/* `cushim stat`: what processes have now, from their live pages. */
#ifndef CUSHIM_TOOLS_STAT_H
#define CUSHIM_TOOLS_STAT_H

int stat_main(int argc, char **argv);

#endif
