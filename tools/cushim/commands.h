/* The main function of each command: argv[0] is the command's name, and the result is an exit
 * code. */
#pragma once

int diff_main(int argc, char **argv);
int doctor_main(int argc, char **argv);
int limit_main(int argc, char **argv);
int merge_main(int argc, char **argv);
int metrics_main(int argc, char **argv);
int record_main(int argc, char **argv);
int replay_main(int argc, char **argv);
int report_main(int argc, char **argv);
int resume_main(int argc, char **argv);
int run_main(int argc, char **argv);
int snapshot_main(int argc, char **argv);
int sim_main(int argc, char **argv);
int stat_main(int argc, char **argv);
int suspend_main(int argc, char **argv);
int top_main(int argc, char **argv);
int trim_main(int argc, char **argv);
