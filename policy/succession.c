/*
 * From one bundle to the next. Runs in core, and in the command line to say the same beforehand.
 * Rests on the keys of the bundle before alone: who is let in by the new one has no say in it.
 */
#include "policy/succession.h"

#include <stdio.h>

#include "common/jcs.h"
#include "common/json.h"
#include "common/xalloc.h"
#include "policy/policy_internal.h"

#include "common/banned.h"

#define SCHEMA "cofferdam-policy-signatures/1"

/* --- the statement ------------------------------------------------------------------- */

static void
put_hash_line(struct buf *out, const char *name, const struct hash *h)
{
	char hex[HASH_HEX_SIZE];

	hash_hex(h, hex);
	buf_printf(out, "%s: sha256:%s\n", name, hex);
}

static void
put_line(struct buf *out, const char *name, struct str value)
{
	buf_printf(out, "%s: %.*s\n", name, STR_ARG(value));
}

void
succession_step_put(const struct succession_step *s, struct buf *out)
{
	buf_put_z(out, "cofferdam-policy v1\n");
	put_line(out, "policy", s->policy);
	buf_printf(out, "serial: %lld\n", (long long)s->serial);
	put_hash_line(out, "bundle", &s->bundle);
	put_hash_line(out, "before", &s->before);
	put_line(out, "author", s->author.n != 0 ? s->author : STR("none"));
	put_line(out, "signer", s->signer);
	buf_put_z(out, "end\n");
}

void
succession_statement(
    const struct policy *next, const struct hash *before, struct str signer, struct buf *out)
{
	const struct succession_step s = {.policy = next->name,
	    .author = next->author,
	    .signer = signer,
	    .serial = next->serial,
	    .bundle = next->digest,
	    .before = *before};

	succession_step_put(&s, out);
}

/* --- the file ------------------------------------------------------------------------ */

void
succession_free(struct succession *s)
{
	json_free(s->doc);
	*s = (struct succession){0};
}

static int
read_signature(const struct json_doc *doc, const struct json *v, struct succession_signature *ret,
    struct err *err)
{
	struct str person = json_str(json_get(v, "person")),
		   armored = json_str(json_get(v, "signature"));

	if (json_count(v) != 2 || !read_is_id(person) || armored.n == 0 ||
	    armored.n > SIG_SSHSIG_MAX)
		return json_err(doc, v, err, ERR_INVALID,
		    "a signature must have \"person\" and \"signature\" of up to %d bytes",
		    SIG_SSHSIG_MAX);
	*ret = (struct succession_signature){person, armored};
	return 0;
}

int
succession_parse(struct str text, struct succession *ret, struct err *err)
{
	const struct json *o, *list;
	int rc;

	*ret = (struct succession){0};
	rc = json_parse(text, "signatures", &ret->doc, err);
	if (rc != 0)
		return rc;
	o = json_root(ret->doc);
	list = json_get(o, "signatures");
	if (json_count(o) != 4 || !str_eqz(json_str(json_get(o, "schema")), SCHEMA) ||
	    !hash_from_hex(json_str(json_get(o, "before")), &ret->before) ||
	    !hash_from_hex(json_str(json_get(o, "bundle")), &ret->bundle) ||
	    json_type(list) != JSON_ARRAY)
		return json_err(ret->doc, o, err, ERR_INVALID,
		    "must be " SCHEMA " with \"before\", \"bundle\" and \"signatures\"");
	if (json_count(list) > SUCCESSION_SIGNATURES_MAX)
		return json_err(ret->doc, list, err, ERR_INVALID,
		    "signatures may be up to %d, are %zu", SUCCESSION_SIGNATURES_MAX,
		    json_count(list));
	for (; ret->n < json_count(list); ret->n++) {
		rc = read_signature(ret->doc, json_at(list, ret->n), &ret->sig[ret->n], err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

void
succession_put(const struct succession *s, struct buf *out)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_hex(&j, "before", s->before.b, HASH_LEN);
	jcs_hex(&j, "bundle", s->bundle.b, HASH_LEN);
	jcs_z(&j, "schema", SCHEMA);
	jcs_array(&j, "signatures");
	for (size_t i = 0; i < s->n; i++) {
		jcs_open(&j, NULL);
		jcs_str(&j, "person", s->sig[i].person);
		jcs_str(&j, "signature", s->sig[i].armored);
		jcs_close(&j);
	}
	jcs_array_end(&j);
	jcs_close(&j);
}

/* --- the check ----------------------------------------------------------------------- */

/* Why a signature does not count; NULL: it does. */
static const char *
fault_of(const struct policy *before, const struct policy *next,
    const struct succession_signature *s, struct err *why)
{
	const struct policy_person *q = policy_person(before, s->person);
	AUTO_BUF struct buf text = BUF(SUCCESSION_STATEMENT_MAX);
	struct sig_sshsig by;
	bool owner = false;

	for (size_t i = 0; i < before->owners.n; i++)
		owner |= str_eq(before->owners.people[i], s->person);
	if (q == NULL || !owner)
		return "no owner of the policy before";
	succession_statement(next, &before->digest, s->person, &text);
	if (sig_verify(s->armored, SUCCESSION_NAMESPACE, buf_str(&text), NULL, 0, &by, why) != 0)
		return why->msg;
	return policy_person_has_key(q, &by.key) ? NULL
						 : "the key is not theirs in the policy before";
}

int
succession_counts(const struct policy *before, const struct policy *next,
    const struct succession_signature *s, struct err *err)
{
	struct err why = {0};
	const char *fault = fault_of(before, next, s, &why);

	return fault == NULL ? 0
			     : err_set(err, ERR_SIGNATURE, "%.*s: %s", STR_ARG(s->person), fault);
}

struct tally {
	struct str seen[SUCCESSION_SIGNATURES_MAX];
	unsigned n;
	bool other; /* than the author */
	char why[ERR_MSG_MAX + 128];
};

static void
take(struct tally *t, const struct policy *before, const struct policy *next,
    const struct succession_signature *s)
{
	struct err err = {0};
	const char *fault = fault_of(before, next, s, &err);

	if (fault != NULL) {
		if (t->why[0] == '\0')
			(void)snprintf(
			    t->why, sizeof(t->why), "; %.*s: %s", STR_ARG(s->person), fault);
		return;
	}
	for (unsigned i = 0; i < t->n; i++)
		if (str_eq(t->seen[i], s->person))
			return;
	t->seen[t->n++] = s->person;
	t->other |= !str_eq(s->person, next->author);
}

static void
put_owners(struct buf *out, const struct policy_owners *o)
{
	for (size_t i = 0; i < o->n; i++)
		buf_printf(out, "%s%.*s", i != 0 ? ", " : "", STR_ARG(o->people[i]));
}

int
succession_check(const struct policy *before, const struct policy *next,
    const struct succession_signature *sig, size_t n, struct err *err)
{
	const struct policy_owners *o = &before->owners;
	AUTO_FREE struct tally *t = xcalloc(1, sizeof(*t));
	AUTO_BUF struct buf names = BUF(16384);

	if (hash_eq(&before->digest, &next->digest))
		return 0;
	if (next->serial <= before->serial)
		return err_set(err, ERR_DENIED,
		    "serial must be over %lld, that of the policy before, is %lld: to go back, "
		    "build the old text with a new serial",
		    (long long)before->serial, (long long)next->serial);
	for (size_t i = 0; i < n && i < SUCCESSION_SIGNATURES_MAX; i++)
		take(t, before, next, &sig[i]);
	put_owners(&names, o);
	if (t->n < o->count)
		return err_set(err, ERR_DENIED,
		    "signatures of %u of its owners are needed (%.*s), %u count%s", o->count,
		    STR_ARG(buf_str(&names)), t->n, t->why);
	if (o->not_author && next->author.n == 0)
		return err_set(err, ERR_DENIED,
		    "an owner beside the author must sign, and the policy names no \"author\"");
	if (o->not_author && !t->other)
		return err_set(err, ERR_DENIED, "an owner beside the author, %.*s, must sign, too",
		    STR_ARG(next->author));
	return 0;
}
