/*
 * Invitations to enrol a passkey. Runs in core and in the command line. Pure. Who signs one are
 * those who sign policies: what comes of an invitation is proposed to them again, as a line of the
 * next one.
 */
#include "policy/invite.h"

#include "policy/statement.h"

#include "common/banned.h"

static int
put(const struct invite *v, struct str until, struct buf *out, struct err *err)
{
	const struct statement_line lines[] = {
	    {"broker", v->broker, STATEMENT_FIELD_MAX},
	    {"id", v->id, STATEMENT_FIELD_MAX},
	    {"origin", v->origin, STATEMENT_FIELD_MAX},
	    {"person", v->person, STATEMENT_FIELD_MAX},
	    {"until", until, STATEMENT_FIELD_MAX},
	    {"signer", v->signer, STATEMENT_FIELD_MAX},
	};
	AUTO_BUF struct buf b = BUF(STATEMENT_MAX);
	int rc;

	buf_put_z(&b, "cofferdam-invitation v1\n");
	rc = statement_lines("invitation", lines, ARRAY_LEN(lines), &b, err);
	if (rc != 0)
		return rc;
	buf_put_z(&b, "end\n");
	buf_put_str(out, buf_str(&b));
	return 0;
}

int
invite_bytes(const struct invite *v, struct buf *out, struct err *err)
{
	char until[CLOCK_TEXT_SIZE];

	clock_format_s(v->until_us, until);
	return put(v, str_z(until), out, err);
}

bool
invite_person_ok(struct str person)
{
	for (size_t i = 0; i < person.n; i++) {
		char c = person.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			c == '.' || c == '_' || c == '-'))
			return false;
	}
	return person.n != 0 && person.n <= POLICY_ID_MAX;
}

bool
invite_may_sign(const struct policy *p, struct str signer)
{
	const struct policy_owners *o = policy_owners(p);

	for (size_t i = 0; o != NULL && i < o->n; i++)
		if (str_eq(o->people[i], signer))
			return true;
	return o == NULL && policy_person(p, signer) != NULL;
}
