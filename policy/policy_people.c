/*
 * The people of a policy: roles, logins, keys. Runs in the command line on source and in core
 * on bundles. A login or a key names one person only, else one human could be two.
 */
#include "policy/policy_internal.h"

#include <stddef.h>

#include "common/hash.h"
#include "common/sig_webauthn.h"

#include "common/banned.h"

struct person {
	struct strs roles, logins;
	struct sig_pubkey *keys;
	struct str *credentials;
	size_t nkeys;
};

static int
read_logins(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct strs *ret = out;
	int rc = read_texts(r, v, ret, err);

	if (rc != 0)
		return rc;
	for (size_t i = 0; i < ret->n; i++) {
		struct str user = ret->v[i];

		if (!str_has_prefix(user, "unix:") ||
		    !read_is_id((struct str){user.p + 5, user.n - 5}))
			return json_err(r->doc, v, err, ERR_INVALID,
			    "a login must be \"unix:USER\", is \"%.*s\"", STR_ARG(user));
	}
	return 0;
}

/*
 * A bare fingerprint, in case files alone. It takes the place of a key so that the engine can
 * tell keys apart; no signature can ever verify against it.
 */
static bool
opaque_key(struct str s, struct sig_pubkey *ret)
{
	struct hash h = hash_sha256(s);
	bool hardware = str_has_prefix(s, "sk-ed25519 SHA256:");

	if ((!hardware && !str_has_prefix(s, "ed25519 SHA256:")) || s.n >= sizeof(ret->application))
		return false;
	*ret = (struct sig_pubkey){.hardware = hardware};
	(void)memcpy(ret->pub, h.b, HASH_LEN);
	(void)memcpy(ret->application, s.p, s.n);
	return true;
}

static int
read_key(struct reader *r, const struct json *v, struct sig_pubkey *ret, struct err *err)
{
	struct err why = {0};
	int rc = read_type(r, v, JSON_STRING, "a key", err);

	if (rc != 0)
		return rc;
	if (r->source != NULL && r->source->src->opaque_keys && opaque_key(json_str(v), ret)) {
		r->p->opaque_keys = true;
		return 0;
	}
	rc = sig_pubkey_parse(json_str(v), ret, &why);
	if (rc != 0)
		return json_err(r->doc, v, err, ERR_INVALID, "%s", why.msg);
	return 0;
}

/* A browser is told which credentials it may use. */
static struct str
read_credential(struct reader *r, const struct json *v, const struct sig_pubkey *k)
{
	AUTO_BUF struct buf id = BUF(SIG_CREDENTIAL_MAX);

	if (k->form != SIG_FORM_WEBAUTHN ||
	    sig_webauthn_credential(str_trim(json_str(v)), &id, NULL) != 0)
		return STR("");
	return read_keep(r, buf_str(&id));
}

static int
read_keys(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct person *q = out;
	int rc = read_type(r, v, JSON_ARRAY, "keys", err);

	if (rc != 0)
		return rc;
	if (json_count(v) > POLICY_KEYS_MAX)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "a person may have up to %d keys, has %zu", POLICY_KEYS_MAX, json_count(v));
	q->keys = arena_alloc(r->p->mem, (json_count(v) + 1) * sizeof(*q->keys));
	q->credentials = arena_alloc(r->p->mem, (json_count(v) + 1) * sizeof(*q->credentials));
	for (size_t i = 0; i < json_count(v); i++) {
		rc = read_key(r, json_at(v, i), &q->keys[i], err);
		if (rc != 0)
			return rc;
		q->credentials[i] = read_credential(r, json_at(v, i), &q->keys[i]);
		q->nkeys++;
	}
	return 0;
}

static const struct read_field person_fields[] = {
    {"roles", read_ids, offsetof(struct person, roles), false},
    {"login", read_logins, offsetof(struct person, logins), false},
    {"keys", read_keys, 0, false},
};

static int
by_person(const void *a, const void *b)
{
	const struct policy_person *x = a, *y = b;

	return str_cmp(x->id, y->id);
}

struct owned_key {
	struct sig_pubkey key;
	struct str person;
};

static int
by_key(const void *a, const void *b)
{
	const struct owned_key *x = a, *y = b;

	return memcmp(x->key.pub, y->key.pub, sizeof(x->key.pub));
}

/*
 * Equal public halves are one key, whatever the application string says: the same secret
 * must not sign for two.
 */
static int
check_keys(struct reader *r, struct err *err)
{
	const struct policy *p = r->p;
	struct owned_key *all;
	size_t n = 0, k = 0;

	for (size_t i = 0; i < p->npeople; i++)
		n += p->people[i].nkeys;
	all = arena_alloc(p->mem, (n + 1) * sizeof(*all));
	for (size_t i = 0; i < p->npeople; i++)
		for (size_t j = 0; j < p->people[i].nkeys; j++)
			all[k++] = (struct owned_key){p->people[i].keys[j], p->people[i].id};
	qsort(all, n, sizeof(*all), by_key);
	for (size_t i = 1; i < n; i++)
		if (by_key(&all[i - 1], &all[i]) == 0)
			return json_err(r->doc, read_place(r, SECTION_PEOPLE, all[i].person), err,
			    ERR_INVALID, "one key stands twice: with %.*s and with %.*s",
			    STR_ARG(all[i - 1].person), STR_ARG(all[i].person));
	return 0;
}

struct owned_login {
	struct str login, person;
};

static int
by_login(const void *a, const void *b)
{
	const struct owned_login *x = a, *y = b;

	return str_cmp(x->login, y->login);
}

static int
check_logins(struct reader *r, struct err *err)
{
	const struct policy *p = r->p;
	struct owned_login *all;
	size_t n = 0, k = 0;

	for (size_t i = 0; i < p->npeople; i++)
		n += p->people[i].nlogins;
	all = arena_alloc(p->mem, (n + 1) * sizeof(*all));
	for (size_t i = 0; i < p->npeople; i++)
		for (size_t j = 0; j < p->people[i].nlogins; j++)
			all[k++] = (struct owned_login){p->people[i].logins[j], p->people[i].id};
	qsort(all, n, sizeof(*all), by_login);
	for (size_t i = 1; i < n; i++)
		if (by_login(&all[i - 1], &all[i]) == 0)
			return json_err(r->doc, read_place(r, SECTION_PEOPLE, all[i].person), err,
			    ERR_INVALID, "login %.*s stands twice: one login is one person",
			    STR_ARG(all[i].login));
	return 0;
}

static int
read_person(struct reader *r, const struct json *v, struct str id, struct policy_person *ret,
    struct err *err)
{
	struct person q = {0};
	int rc = read_check_id(r, v, id, "a person's name", err);

	if (rc == 0)
		rc =
		    read_object(r, v, "a person", person_fields, ARRAY_LEN(person_fields), &q, err);
	if (rc != 0)
		return rc;
	*ret = (struct policy_person){.id = read_keep(r, id),
	    .nroles = q.roles.n,
	    .nlogins = q.logins.n,
	    .nkeys = q.nkeys,
	    .roles = q.roles.v,
	    .logins = q.logins.v,
	    .keys = q.keys,
	    .credentials = q.credentials};
	return 0;
}

static void
people_alloc(struct policy *p, size_t n)
{
	p->people = arena_alloc(p->mem, (n + 1) * sizeof(*p->people));
}

static int
people_one(struct reader *r, struct str name, const struct json *v, struct err *err)
{
	int rc = read_person(r, v, name, &r->p->people[r->p->npeople], err);

	if (rc == 0)
		r->p->npeople++;
	return rc;
}

static int
people_done(struct reader *r, struct err *err)
{
	int rc;

	qsort(r->p->people, r->p->npeople, sizeof(*r->p->people), by_person);
	rc = check_keys(r, err);
	return rc != 0 ? rc : check_logins(r, err);
}

const struct section policy_people_section = {.key = "people",
    .type = JSON_OBJECT,
    .id = SECTION_PEOPLE,
    .max = POLICY_PEOPLE_MAX,
    .alloc = people_alloc,
    .one = people_one,
    .done = people_done};
