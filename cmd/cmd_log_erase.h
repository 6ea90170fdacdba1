/* `cofferdam log erase`: keys of what was sealed, by subject. */
#ifndef CMD_CMD_LOG_ERASE_H
#define CMD_CMD_LOG_ERASE_H

int cmd_log_erase(int argc, char **argv);

#endif
