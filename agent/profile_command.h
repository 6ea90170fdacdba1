/* `cofferdam profile list|show NAME`. */
#ifndef AGENT_PROFILE_COMMAND_H
#define AGENT_PROFILE_COMMAND_H

int profile_command(int argc, char **argv); /* an exit status; argv[0] is "profile" */

#endif
