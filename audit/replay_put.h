/*
 * Words of a timeline, out of canonical JSON. All that comes from a record goes through log_vis:
 * what is put holds no control, no bidirectional and no invalid byte.
 */
#ifndef AUDIT_REPLAY_PUT_H
#define AUDIT_REPLAY_PUT_H

#include "common/buf.h"

void replay_put_vis(struct buf *b, struct str s);
/* As people read it: strings without quotes, arrays of strings joined by spaces, nothing as `-`. */
void replay_put_value(struct buf *b, struct str v);
/* "  name value", unless there is none or it is empty. */
void replay_put_field(struct buf *b, const char *name, struct str v);

#endif
