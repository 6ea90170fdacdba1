/*
 * What a credential is bound to, and what may stand in that:
 *
 * kind			scheme		user	field
 * postgresql-password	postgresql	yes
 * bearer		https, http		 Authorization: Bearer SECRET
 * basic		https, http	yes	 Authorization: Basic USER:SECRET
 * header		https, http	     yes FIELD: SECRET
 * query		https, http	     yes ?FIELD=SECRET
 * aws			https, http		 a signature of version 4 by "ID KEY" or "ID KEY
 * TOKEN"
 */
#ifndef BROKER_CORE_VAULT_BIND_H
#define BROKER_CORE_VAULT_BIND_H

#include "common/err.h"
#include "common/str.h"

#define VAULT_TEXT_MAX 255    /* bytes of a name, host, user or field */
#define VAULT_SECRET_MAX 8192 /* bytes */
#define VAULT_AWS_ID_MAX 128
#define VAULT_HTTP_SECRET_MIN 4 /* less cannot be told from an answer's ordinary bytes */

struct vault_kind {
	const char *name;
	bool http, user, field; /* user, field: has one; else it is empty */
};
const struct vault_kind *vault_kind(struct str name); /* NULL: there is none of that name */

struct vault_bind {
	struct str name, kind, scheme, host, user, field;
	uint16_t port;
	int64_t set_s; /* Unix time of this secret; 0: not known */
};
/*
 * ERR_INVALID, ERR_UNSUPPORTED. A name is [A-Za-z0-9._-]; texts are printable ASCII without '"'
 * and '\'. http is for loopback hosts only (localhost, *.localhost, 127.0.0.0/8, ::1). The secret
 * of an HTTP kind holds no control characters and no space at its ends; a bearer token is visible
 * ASCII; the user of basic has no colon; a header field is none that frames or routes a message.
 * Of aws the host may be "*.NAME", all below two labels or more: an account has many names, and
 * what leaves is a signature, which is good for one request to one of them.
 */
int vault_place_check(const struct vault_bind *b, struct err *err); /* all but the secret */
int vault_bind_check(const struct vault_bind *b, struct str secret, struct err *err);

/* Does what is bound to `bound` go to `host`? */
bool vault_host_covers(struct str bound, struct str host);

struct vault_aws {
	struct str id, key, token; /* token "": none */
};
/* The secret of kind aws; false: it is not of that form. */
bool vault_aws_split(struct str secret, struct vault_aws *ret);

#endif
