/*
 * Looks (see the header). Linked into core; pure. What is read here came from a server that may
 * lie: a word is taken in plain characters alone, so that it can stand in a statement, a field and
 * a JSON string as it is. Must never take a part of an answer for the whole.
 */
#include "policy/look.h"

#include "common/banned.h"

/* --- words ------------------------------------------------------------------------------- */

bool
look_etag_is_strong(struct str s)
{
	if (s.n < 2 || s.n > LOOK_WORD_MAX || s.p[0] != '"' || s.p[s.n - 1] != '"')
		return false;
	for (size_t i = 1; i < s.n - 1; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~' || s.p[i] == '"')
			return false;
	return true;
}

struct str
look_word(struct str words, const char *key)
{
	size_t n = strlen(key);
	bool more = true;

	while (more) {
		struct str one;

		more = str_cut(&words, ' ', &one);
		if (!more)
			one = words;
		if (str_has_prefix(one, key) && one.n > n && one.p[n] == '=')
			return str_mem(one.p + n + 1, one.n - n - 1);
	}
	return STR_NONE;
}

struct str
look_bound(struct str words)
{
	static const char *const keys[] = {"if-match=", "etag=", "preconditions=", "uid="};
	struct str rest = words, first;

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (str_has_prefix(words, keys[i]))
			return words;
	/* How many commits a push has depends on how it is packed. */
	if (!str_cut(&rest, ' ', &first))
		first = words;
	return str_eqz(first, "refs=as-said") ? first : STR_NONE;
}

/* --- Kubernetes -------------------------------------------------------------------------- */

static bool
is_plain(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    c != '-' && c != '.' && c != '_')
			return false;
	}
	return s.n != 0 && s.n <= LOOK_WORD_MAX;
}

int
look_k8s(struct str json, struct buf *ret_uid, struct buf *ret_version, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	const struct json *meta;
	struct str uid, version;
	int rc = json_parse_numbers(json, "object", &doc, err);

	if (rc != 0)
		return rc;
	meta = json_get(json_root(doc), "metadata");
	uid = json_str(json_get(meta, "uid"));
	version = json_str(json_get(meta, "resourceVersion"));
	if (!is_plain(uid) || !is_plain(version))
		return err_set(err, ERR_SYNTAX, "an object without uid or resourceVersion");
	buf_put_str(ret_uid, uid);
	buf_put_str(ret_version, version);
	return 0;
}

static void
put_preconditions(struct buf *out, struct str uid, struct str version)
{
	buf_printf(out, "\"preconditions\":{\"resourceVersion\":\"%.*s\",\"uid\":\"%.*s\"}",
	    STR_ARG(version), STR_ARG(uid));
}

int
look_k8s_bind(struct str body, struct str uid, struct str version, struct buf *out, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	const char *open;
	int rc;

	if (!is_plain(uid) || !is_plain(version))
		return err_set(err, ERR_SYNTAX, "a uid or resourceVersion that is none");
	if (body.n == 0) {
		buf_put_z(out, "{\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\",");
		put_preconditions(out, uid, version);
		buf_put_c(out, '}');
		return 0;
	}
	rc = json_parse_numbers(body, "body", &doc, err);
	if (rc != 0)
		return rc;
	if (json_type(json_root(doc)) != JSON_OBJECT)
		return err_set(err, ERR_SYNTAX, "a body that is no object");
	if (json_get(json_root(doc), "preconditions") != NULL)
		return err_set(err, ERR_EXISTS, "it has preconditions of its own");
	open = memchr(body.p, '{', body.n); /* nothing but white space is in front of it */
	buf_put(out, body.p, (size_t)(open + 1 - body.p));
	put_preconditions(out, uid, version);
	if (json_count(json_root(doc)) != 0)
		buf_put_c(out, ',');
	buf_put_str(out, str_mem(open + 1, body.n - (size_t)(open + 1 - body.p)));
	return 0;
}

/* --- git --------------------------------------------------------------------------------- */

static int
bad(struct err *err)
{
	return err_set(err, ERR_SYNTAX, "no list of refs");
}

static int
hex_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One line without its '\n': 1; a flush: 0. */
static int
next_line(struct str *rest, struct str *ret, struct err *err)
{
	size_t n = 0;

	if (rest->n < 4)
		return bad(err);
	for (size_t i = 0; i < 4; i++) {
		int d = hex_of(rest->p[i]);

		if (d < 0)
			return bad(err);
		n = n << 4 | (size_t)d;
	}
	if ((n != 0 && n < 5) || n > rest->n)
		return bad(err);
	*ret = str_mem(rest->p + 4, n == 0 ? 0 : n - 4);
	n = n == 0 ? 4 : n;
	*rest = str_mem(rest->p + n, rest->n - n);
	if (n == 4)
		return 0;
	if (ret->p[ret->n - 1] == '\n')
		ret->n--;
	return 1;
}

/* "ID REF", the first with NUL and capabilities. */
static bool
split_line(struct str line, struct str *id, struct str *ref)
{
	struct str tail = line, head;

	if (str_cut(&tail, '\0', &head))
		line = head;
	if (!str_cut(&line, ' ', id) || (id->n != 40 && id->n != 64) || line.n == 0)
		return false;
	for (size_t i = 0; i < id->n; i++)
		if (hex_of(id->p[i]) < 0)
			return false;
	*ref = line;
	return true;
}

static bool
is_zeros(struct str id)
{
	for (size_t i = 0; i < id.n; i++)
		if (id.p[i] != '0')
			return false;
	return id.n != 0;
}

struct listed {
	struct str old[LOOK_REFS_MAX]; /* of each command; empty: the server has no such ref */
};

static int
read_list(struct str list, const struct json *commands, struct listed *l, struct err *err)
{
	struct str line, id, ref;
	int rc = next_line(&list, &line, err);

	if (rc != 1 || !str_eqz(line, "# service=git-receive-pack") ||
	    next_line(&list, &line, err) != 0)
		return bad(err);
	while ((rc = next_line(&list, &line, err)) == 1) {
		if (!split_line(line, &id, &ref))
			return bad(err);
		for (size_t i = 0; i < json_count(commands); i++)
			if (str_eq(json_str(json_get(json_at(commands, i), "ref")), ref))
				l->old[i] = id;
	}
	return rc != 0 || list.n != 0 ? bad(err) : 0;
}

int
look_git(struct str list, const struct json *commands, struct str *ret_ref, struct err *err)
{
	struct listed l = {.old = {{NULL, 0}}};
	int rc;

	*ret_ref = STR_NONE;
	if (json_count(commands) > LOOK_REFS_MAX)
		return err_set(err, ERR_TOO_COMPLEX, "more than %d commands", LOOK_REFS_MAX);
	rc = read_list(list, commands, &l, err);
	for (size_t i = 0; rc == 0 && i < json_count(commands); i++) {
		const struct json *c = json_at(commands, i);
		struct str old = json_str(json_get(c, "old"));

		if (l.old[i].n == 0 ? is_zeros(old) : str_eq(l.old[i], old))
			continue;
		*ret_ref = json_str(json_get(c, "ref"));
		break;
	}
	return rc;
}
