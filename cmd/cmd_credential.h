/* Shared by the subcommands of `cofferdam credential`. */
#ifndef CMD_CMD_CREDENTIAL_H
#define CMD_CMD_CREDENTIAL_H

#include "broker/core_vault.h"
#include "common/http.h"

#define CRED_NO_FD UINT64_MAX

struct cred_args {
	const char *name, *state, *kind, *url, *host, *user, *field, *command, *path;
	uint64_t port, fd; /* fd CRED_NO_FD: not given */
	bool run;
};

/* --- cmd_credential_vault.c ------------------------------------------------------ */
struct vault_file {
	int dir; /* locked while we hold it, so that two commands do not lose an entry */
	struct secret *key;
	struct vault *vault;
};
int vault_file_open(const char *state, struct vault_file *ret, struct err *err);
int vault_file_save(struct vault_file *f, struct err *err);
void vault_file_close(struct vault_file *f);
/* "https://user@host:443"; the caller frees. */
char *cred_binding(const struct vault_entry *e);
/* What a running broker needs to hear of a change; empty when none answers. Caller frees. */
char *cred_broker_note(const char *state);

/* --- cmd_credential_secret.c ----------------------------------------------------- */
/*
 * The secret, without the line feed at its end: from the output of `sh -c command` if that is
 * given, else from fd: a terminal is asked without echo. ERR_INVALID when it is empty.
 */
int cred_secret_read(const char *command, int fd, struct secret **ret, struct err *err);

/* --- cmd_credential_aws.c -------------------------------------------------------- */
/*
 * An access key in words or as AWS_ACCESS_KEY_ID=... and its like, `export` or not, with blanks or
 * line feeds between them: "ID KEY[ TOKEN]". ERR_INVALID.
 */
int cred_aws_secret(const struct secret *raw, struct secret **ret, struct err *err);
/* A path, and of the JSON protocol an X-Amz-Target (else NULL), that only reads; false: none known.
 */
bool cred_aws_probe(struct str host, const char **ret_path, const char **ret_target);

/* --- cmd_credential_test.c ------------------------------------------------------- */
/* Holds the entry to the targets of the active policy; with --run also to the broker and the
 * target itself. Prints; returns an exit status. */
int cred_test(const struct cred_args *a, const struct vault_entry *e);

#endif
