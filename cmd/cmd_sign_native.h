/* Keys of `cofferdam key new`: their file, and signatures with them. docs/format-approval.md 3. */
#ifndef CMD_CMD_SIGN_NATIVE_H
#define CMD_CMD_SIGN_NATIVE_H

#include "common/buf.h"
#include "common/err.h"
#include "common/secret.h"

#define SIGN_NATIVE_FILE_MAX 4096

/* A new key: the text of its file, and its public line. Without a passphrase (NULL) it stands open.
 */
int sign_native_new(
    const struct secret *passphrase, struct buf *ret_file, struct buf *ret_line, struct err *err);
bool sign_native_is(struct str file); /* begins as such a file does */
bool sign_native_is_sealed(struct str file);
/* The public line that stands in the file, without opening it. */
int sign_native_line(struct str file, struct buf *ret, struct err *err);
/* The armored signature. passphrase: NULL if the file is not sealed. */
int sign_native(struct str file, const struct secret *passphrase, const char *ns, struct str text,
    struct buf *ret, struct err *err);

#endif
