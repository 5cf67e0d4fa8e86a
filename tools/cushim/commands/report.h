/* `cushim report`: what a recording has. */
#ifndef CUSHIM_TOOLS_REPORT_COMMAND_H
#define CUSHIM_TOOLS_REPORT_COMMAND_H

/* argv[0] is "report". */
int report_main(int argc, char **argv);

#endif
