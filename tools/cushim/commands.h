/* The main function of each command: argv[0] is the command's name, and the result is an exit
 * code. */
#pragma once

typedef int command_fn(int argc, char **argv);

command_fn run_main, stat_main, record_main, snapshot_main, report_main, replay_main, top_main,
    suspend_main, resume_main, trim_main, limit_main, merge_main, diff_main, metrics_main, sim_main,
    doctor_main;
