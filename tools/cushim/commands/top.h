/* `cushim top`: what running programs have, again and again. */
#ifndef CUSHIM_TOOLS_TOP_H
#define CUSHIM_TOOLS_TOP_H

/* argv[0] is "top". */
int top_main(int argc, char **argv);

#endif
