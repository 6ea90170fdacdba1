/*
 * `cofferdam invite`: lets a person enrol a passkey at the console. Runs as who signs it, an owner
 * of the policy; the bytes are built here from what the broker showed. What comes out is a link,
 * good for one passkey, and what comes of that is a line for the policy, which is reviewed as any
 * other.
 */
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_control.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_sign.h"
#include "common/jcs.h"
#include "common/xalloc.h"
#include "policy/invite.h"
#include "policy/statement.h"

#include "common/banned.h"

struct invite_args {
	const char *state, *as, *key, *person;
	bool yes;
};

#define AT(f) offsetof(struct invite_args, f)

static const struct option_row rows[] = {
    {"PERSON", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(person), 0, 0, NULL,
	"who is to make a passkey"},
    {"--as", OPTION_TEXT | OPTION_NEEDED, AT(as), 0, 0, "OWNER",
	"who signs, an owner of the policy; where it has none, any person"},
    {"--key", OPTION_TEXT, AT(key), 0, 0, "FILE", ARG_KEY_IS},
    {"--yes", OPTION_FLAG, AT(yes), 0, 0, NULL, "do not ask before signing"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
    {"--via", ARG_VIA, AT(state), 0, 0, "URL", ARG_VIA_IS},
};

static int
ask(const struct invite_args *a, struct json_doc **ret, struct err *err)
{
	AUTO_BUF struct buf args = BUF(4096);
	struct jcs j;

	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "person", str_z(a->person));
	jcs_close(&j);
	return control_call(a->state, "invite-request", buf_str(&args), ret, err);
}

static int
sign(const struct invite_args *a, const struct json *o, struct buf *signature, struct err *err)
{
	AUTO_BUF struct buf bytes = BUF(STATEMENT_MAX);
	AUTO_FREE char *key = a->key != NULL ? xstrdup(a->key) : sign_key_default();
	struct invite v = {.broker = json_str(json_get(o, "broker")),
	    .id = json_str(json_get(o, "id")),
	    .origin = json_str(json_get(o, "origin")),
	    .person = str_z(a->person),
	    .until_us = json_int(json_get(o, "until_us")),
	    .signer = str_z(a->as)};
	int rc = invite_bytes(&v, &bytes, err);

	if (rc != 0)
		return rc;
	(void)printf("%.*s", STR_ARG(buf_str(&bytes)));
	rc = sign_ask("Sign", a->as, a->yes, err);
	return rc != 0 ? rc : sign_bytes(key, buf_str(&bytes), signature, err);
}

static int
send(const struct invite_args *a, const struct json *o, struct str signature, struct json_doc **ret,
    struct err *err)
{
	AUTO_BUF struct buf args = BUF(16384);
	struct jcs j;

	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_str(&j, "id", json_str(json_get(o, "id")));
	jcs_str_lossy(&j, "person", str_z(a->as));
	jcs_str(&j, "signature", signature);
	jcs_close(&j);
	return control_call(a->state, "invite-sign", buf_str(&args), ret, err);
}

int
cmd_invite(int argc, char **argv)
{
	AUTO(json) struct json_doc *asked = NULL, *done = NULL;
	AUTO_BUF struct buf signature = BUF(8192);
	AUTO_FREE char *url = NULL, *until = NULL;
	struct invite_args a = {0};
	struct err err;

	if (!ARGS_READ("invite", rows, argc, argv, &a))
		return CMD_USAGE;
	if (sign_ready(a.key, &err) != 0 || ask(&a, &asked, &err) != 0 ||
	    sign(&a, json_root(asked), &signature, &err) != 0 ||
	    send(&a, json_root(asked), buf_str(&signature), &done, &err) != 0)
		return cmd_fail(&err);
	url = control_text(json_root(done), "url");
	until = control_text(json_root(done), "until");
	(void)printf("Give this link to %s alone; it makes one passkey, until %s:\n%s\n", a.person,
	    until, url);
	return CMD_OK;
}
