/*
 * Which action of AWS a method and path are. Linked into core and the command line; pure. Where
 * more than one fits equally well, all of them count; a part of the query that no action knows
 * might name another, so that nothing fits.
 */
#include <stdlib.h>

#include "common/buf.h"
#include "policy/aws_action.h"
#include "policy/webform.h"

#include "common/banned.h"

static const struct row {
	const char *service, *method, *path, *action;
} rows[] = {
#define X(service, method, path, action) {service, method, path, action},
#include "policy/aws_rest.tbl"
#undef X
};

static const struct {
	const char *prefix, *service;
} targets[] = {
#define X(prefix, service) {prefix, service},
#include "policy/aws_targets.tbl"
#undef X
};

/* Parameters of S3 that choose no action. Anything else that is there must be in the row. */
static const char *const plain[] = {"x-id", "list-type", "prefix", "delimiter", "max-keys",
    "marker", "continuation-token", "start-after", "encoding-type", "fetch-owner", "versionId",
    "partNumber", "uploadId", "key-marker", "version-id-marker", "upload-id-marker", "max-uploads",
    "max-parts", "part-number-marker", "response-cache-control", "response-content-disposition",
    "response-content-encoding", "response-content-language", "response-content-type",
    "response-expires", "max-buckets", "bucket-region", "id", "select-type",
    "max-directory-buckets"};

bool
aws_service_is_rest(struct str service)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_eqz(service, rows[i].service))
			return true;
	return false;
}

struct str
aws_target_service(struct str prefix)
{
	for (size_t i = 0; i < ARRAY_LEN(targets); i++)
		if (str_eqz(prefix, targets[i].prefix))
			return str_z(targets[i].service);
	return STR("");
}

/* --- paths ------------------------------------------------------------------------------- */

static struct str
segment(struct str *s)
{
	struct str one;

	if (!str_cut(s, '/', &one)) {
		one = *s;
		s->n = 0;
	}
	return one;
}

/* Literal segments that agree, plus 1; 0: it does not fit. */
static unsigned
path_fits(struct str pattern, struct str path, struct str *ret_first)
{
	unsigned score = 1;

	*ret_first = STR("");
	while (pattern.n != 0) {
		struct str want = segment(&pattern), rest = path, have = segment(&path);

		if (!str_has_prefix(want, "{")) {
			if (!str_eq(want, have))
				return 0;
			score++;
			continue;
		}
		if (have.n == 0)
			return 0;
		if (ret_first->n == 0)
			*ret_first = have;
		if (str_has_suffix(want, "+}"))
			return rest.n != 0 ? score : 0;
	}
	return path.n == 0 ? score : 0;
}

/* --- queries ----------------------------------------------------------------------------- */

static bool
has_parameter(struct str query, struct str want)
{
	struct str name, value, want_value = want, want_name;
	bool valued = str_cut(&want_value, '=', &want_name);

	while (webform_next(&query, &name, &value))
		if (str_eq(name, valued ? want_name : want) &&
		    (!valued || str_eq(value, want_value)))
			return true;
	return false;
}

static unsigned
query_fits(struct str pattern, struct str query)
{
	unsigned n = 1;

	while (pattern.n != 0) {
		struct str one;

		if (!str_cut(&pattern, '&', &one)) {
			one = pattern;
			pattern.n = 0;
		}
		if (!has_parameter(query, one))
			return 0;
		n++;
	}
	return n;
}

/* Only S3 tells actions by parameters without a value. */
static bool
query_is_known(struct str query, struct str pattern)
{
	struct str name, value;

	while (webform_next(&query, &name, &value)) {
		bool known = has_parameter(pattern, name);

		for (size_t i = 0; !known && i < ARRAY_LEN(plain); i++)
			known = str_eqz(name, plain[i]);
		if (!known)
			return false;
	}
	return true;
}

struct fit {
	unsigned path, query;
	struct str first;
};

static struct fit
row_fits(const struct row *w, struct str path, struct str query)
{
	struct str pattern = str_z(w->path), want;
	struct fit f = {0};

	if (!str_cut(&pattern, '?', &want)) {
		want = pattern;
		pattern = STR("");
	}
	f.path = path_fits(want, path, &f.first);
	f.query = f.path != 0 ? query_fits(pattern, query) : 0;
	if (strcmp(w->service, "s3") == 0 && !query_is_known(query, pattern))
		f.query = 0;
	return f;
}

struct aws_action
aws_rest_find(struct str service, struct str method, struct str path, struct str query,
    const char **ret_name, struct str *ret_first)
{
	struct aws_action ret = {.effects = EFFECT_opaque}, one;
	unsigned best = 0;

	*ret_name = NULL;
	*ret_first = STR("");
	if (path.n > 1 && path.p[path.n - 1] == '/' && !str_eqz(service, "s3"))
		path.n--;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fit f = {0};
		unsigned score;

		if (str_eqz(service, rows[i].service) && str_eqz(method, rows[i].method))
			f = row_fits(&rows[i], path, query);
		score = f.query * 64 + f.path;
		if (f.path == 0 || f.query == 0 || score < best)
			continue;
		one = aws_action_find(service, str_z(rows[i].action));
		if (score > best)
			ret = one;
		ret.effects |= one.effects;
		ret.later |= one.later;
		best = score;
		*ret_name = rows[i].action;
		*ret_first = f.first;
	}
	return ret;
}
