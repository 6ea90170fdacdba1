/* What the courier says of itself: its status file, not core. */
#ifndef CMD_CMD_COURIER_H
#define CMD_CMD_COURIER_H

#include "common/jcs.h"

/* NULL: there is no courier. A file that is not of the form is an error. */
int courier_status_read(const char *state, struct json_doc **ret, struct err *err);
void courier_status_print(const struct json *status);
/*
 * Core's answer with the courier's beside it, as "courier" (status may be NULL: there is none), and
 * "exports", the cursors in the state directory.
 */
int courier_status_add(struct jcs *j, const struct json *core, const struct json *status,
    const char *state, struct err *err);

#endif
