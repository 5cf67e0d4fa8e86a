/* `cushim record`: start a program, and record what its memory does. */
#ifndef CUSHIM_TOOLS_RECORD_H
#define CUSHIM_TOOLS_RECORD_H

/* argv[0] is "record".  Returns an exit code if nothing was started. */
int record_main(int argc, char **argv);

#endif
