/*
 * Who owns a policy: whose signatures its successor needs, as written. Runs in the command line on
 * source and in core on bundles. A number that its people could never reach is an error, since
 * no policy could ever follow.
 */
#include <stddef.h>

#include "policy/policy_internal.h"

#include "common/banned.h"

struct owners_read {
	struct strs people;
	int64_t count;
	bool not_author;
};

static int
read_count(struct reader *r, const struct json *v, void *out, struct err *err)
{
	return read_int(r, v, "count", 1, POLICY_QUORUM_MAX, out, err);
}

static int
read_flag(struct reader *r, const struct json *v, void *out, struct err *err)
{
	bool *ret = out;
	int rc = read_type(r, v, JSON_BOOL, "not_author", err);

	if (rc == 0)
		*ret = json_bool(v);
	return rc;
}

static const struct read_field owners_fields[] = {
    {"people", read_ids, offsetof(struct owners_read, people), true},
    {"count", read_count, offsetof(struct owners_read, count), true},
    {"not_author", read_flag, offsetof(struct owners_read, not_author), false},
};

int
policy_read_owners(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct policy *p = out;
	struct owners_read o = {.count = 0};
	int rc = read_object(r, v, "owners", owners_fields, ARRAY_LEN(owners_fields), &o, err);

	if (rc != 0)
		return rc;
	p->owners = (struct policy_owners){.n = o.people.n,
	    .people = o.people.v,
	    .count = (unsigned)o.count,
	    .not_author = o.not_author};
	return 0;
}

int
policy_check_owners(struct reader *r, struct err *err)
{
	const struct policy *p = r->p;
	const struct json *v = json_get(r->parts[0].v, "owners"),
			  *author = json_get(r->parts[0].v, "author");
	bool other = false;

	r->doc = r->parts[0].doc;
	if (p->author.n != 0 && policy_person(p, p->author) == NULL)
		return json_err(r->doc, author, err, ERR_INVALID,
		    "author: no person is named \"%.*s\"", STR_ARG(p->author));
	for (size_t i = 0; i < p->owners.n; i++) {
		struct str id = p->owners.people[i];
		const struct policy_person *q = policy_person(p, id);

		if (q == NULL || q->nkeys == 0)
			return json_err(r->doc, v, err, ERR_INVALID,
			    "owners: %.*s must be a person with a key", STR_ARG(id));
		other |= !str_eq(id, p->author);
	}
	if (p->owners.count > p->owners.n)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "owners: %u must sign, and there are %zu: no policy could ever follow",
		    p->owners.count, p->owners.n);
	if (p->owners.not_author && !other)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "owners: the author is the only one, so nobody else could sign");
	return 0;
}

const struct policy_owners *
policy_owners(const struct policy *p)
{
	return p->owners.n != 0 ? &p->owners : NULL;
}

struct str
policy_author(const struct policy *p)
{
	return p->author;
}
