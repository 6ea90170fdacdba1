/* A signature by the person's own key; a key of SSH stays with ssh-keygen or the agent. */
#ifndef CMD_CMD_SIGN_H
#define CMD_CMD_SIGN_H

#include "common/buf.h"
#include "common/err.h"
#include "common/secret.h"

char *sign_key_default(void); /* ~/.ssh/id_ed25519; the caller frees */
/* Is the key (NULL: the default) there, or its public half for an agent? */
int sign_ready(const char *key, struct err *err);
/* Is there somebody to ask, or `yes`? */
int sign_can_ask(bool yes, struct err *err);
/* "WHAT this as PERSON? [y/N]"; with `yes` nobody is asked. ERR_DENIED: it is not to be signed. */
int sign_ask(const char *what, const char *person, bool yes, struct err *err);
/* The passphrase of a key of our own, from fd; -1: the terminal is asked, whatever stdin is. */
int sign_passphrase(const char *file, int fd, struct secret **ret, struct err *err);
/*
 * The armored signature over a text of up to 32 KiB, in this namespace: by ssh-keygen, which asks
 * the agent where `key` is a public key, or by a key of `cofferdam key new`.
 */
int sign_bytes_in(
    const char *key, const char *ns, struct str text, struct buf *ret, struct err *err);
/* The same over a statement, in the namespace of statements. */
int sign_bytes(const char *key, struct str statement, struct buf *ret, struct err *err);

#endif
