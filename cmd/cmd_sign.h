/* A signature by the person's own key; the key stays with ssh-keygen or the agent. */
#ifndef CMD_CMD_SIGN_H
#define CMD_CMD_SIGN_H

#include "common/buf.h"
#include "common/err.h"

char *sign_key_default(void); /* ~/.ssh/id_ed25519; the caller frees */
/* "WHAT this as PERSON? [y/N]"; with `yes` nobody is asked. ERR_DENIED: it is not to be signed. */
int sign_ask(const char *what, const char *person, bool yes, struct err *err);
/* The armored SSHSIG over a text of up to 32 KiB, in this namespace. */
int sign_bytes_in(
    const char *key, const char *ns, struct str text, struct buf *ret, struct err *err);
/* The same over a statement, in the namespace of statements. */
int sign_bytes(const char *key, struct str statement, struct buf *ret, struct err *err);

#endif
