/* `cushim doctor`: say whether cushim works here, and with a given program. */
#ifndef CUSHIM_TOOLS_DOCTOR_H
#define CUSHIM_TOOLS_DOCTOR_H

/* argv[0] is "doctor".  Returns an exit code. */
int doctor_main(int argc, char **argv);

#endif
