/* The `cofferdam` command: a table of subcommands, one file each. */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include <stdbool.h>

struct cmd {
	const char *name;
	int (*run)(int argc, char **argv); /* argv[0] is the subcommand; returns the exit status */
	const char *usage;		   /* NULL: cmd_help has it */
	const char *summary;
};

/* Exit statuses of every subcommand: done, refused or changed, usage or configuration. */
enum { CMD_OK = 0, CMD_FAILED = 1, CMD_USAGE = 2 };

int cmd_invite(int argc, char **argv);
int cmd_init(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_sandboxd(int argc, char **argv);
int cmd_mcp(int argc, char **argv);
int cmd_policy(int argc, char **argv);
int cmd_credential(int argc, char **argv);
int cmd_key(int argc, char **argv);
int cmd_control_pipe(int argc, char **argv);
int cmd_pending(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_approve(int argc, char **argv); /* also deny, and revoke of a request: argv[0] tells */
int cmd_freeze(int argc, char **argv);
int cmd_exception(int argc, char **argv);
int cmd_breakglass(int argc, char **argv);
int cmd_revoke(int argc, char **argv); /* of a run, or of a request */
int cmd_attach(int argc, char **argv);
int cmd_steer(int argc, char **argv); /* pause, resume, stop, message */
int cmd_log(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_answer(int argc, char **argv);
int cmd_run_end(int argc, char **argv);
int cmd_witness(int argc, char **argv);

#endif
