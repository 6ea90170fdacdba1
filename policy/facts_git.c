/*
 * The start of a push to facts: its commands and options, as pkt-lines (git/git
 * gitprotocol-common, gitprotocol-pack). Runs in cofferdam-parser alone, on bytes that the agent
 * chose. Read as strictly as the server does or more; what stands behind is the pack, which the
 * commands name by its objects' ids.
 */
#include "policy/facts.h"

#include "common/jcs.h"
#include "policy/facts_git_pack.h"

#include "common/hash.h"

#include "common/banned.h"

struct lines {
	struct str rest;
	size_t at;
};

struct caps {
	bool push_options, report, sideband;
	size_t id; /* hex digits of an object id */
};

static int
bad(struct err *err, const char *what)
{
	return err_set(err, ERR_SYNTAX, "push: %s", what);
}

/* One line without its '\n': 1; a flush: 0. */
static int
next_line(struct lines *l, struct str *ret, struct err *err)
{
	size_t n = 0;

	if (l->rest.n < 4)
		return bad(err, "its commands do not end");
	for (size_t i = 0; i < 4; i++) {
		int d = enc_hex_digit(l->rest.p[i]);

		if (d < 0)
			return bad(err, "a line without a length");
		n = n << 4 | (size_t)d;
	}
	if (n != 0 && n < 5)
		return bad(err, "a line of no content");
	if (n > l->rest.n)
		return l->at + n > FACTS_GIT_MAX
			   ? err_set(err, ERR_TOO_COMPLEX, "push: its commands are over %zu bytes",
				 FACTS_GIT_MAX)
			   : bad(err, "a line is cut off");
	*ret = str_mem(l->rest.p + 4, n == 0 ? 0 : n - 4);
	n = n == 0 ? 4 : n;
	l->rest = str_mem(l->rest.p + n, l->rest.n - n);
	l->at += n;
	if (n == 4)
		return 0;
	if (ret->p[ret->n - 1] == '\n')
		ret->n--;
	return 1;
}

/* --- capabilities ------------------------------------------------------------------------ */

static int
read_caps(struct str s, struct caps *caps, struct err *err)
{
	static const char *const known[] = {"report-status", "report-status-v2", "delete-refs",
	    "side-band-64k", "quiet", "atomic", "ofs-delta", "push-options"};
	bool more = s.n != 0;

	while (more) {
		struct str one;
		bool good = false;

		more = str_cut(&s, ' ', &one);
		if (!more)
			one = s;
		for (size_t i = 0; i < ARRAY_LEN(known); i++)
			good = good || str_eqz(one, known[i]);
		caps->report = caps->report || str_has_prefix(one, "report-status");
		caps->sideband = caps->sideband || str_eqz(one, "side-band-64k");
		caps->push_options = caps->push_options || str_eqz(one, "push-options");
		if (str_eqz(one, "object-format=sha256"))
			caps->id = 64;
		else if (!good && one.n != 0 && !str_eqz(one, "object-format=sha1") &&
			 !str_has_prefix(one, "agent=") && !str_has_prefix(one, "session-id="))
			return bad(err, "it asks for a capability that is not known");
	}
	return 0;
}

/* --- commands ---------------------------------------------------------------------------- */

static bool
take_id(struct str *s, size_t n, struct str *ret)
{
	if (s->n < n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (enc_hex_digit(s->p[i]) < 0 || (s->p[i] >= 'A' && s->p[i] <= 'F'))
			return false;
	*ret = str_mem(s->p, n);
	*s = str_mem(s->p + n, s->n - n);
	return true;
}

static bool
take_space(struct str *s)
{
	if (s->n == 0 || s->p[0] != ' ')
		return false;
	*s = str_mem(s->p + 1, s->n - 1);
	return true;
}

static bool
is_text(struct str s)
{
	return s.n != 0 && str_is_utf8(s) && memchr(s.p, '\0', s.n) == NULL &&
	       memchr(s.p, '\n', s.n) == NULL;
}

/* OLD NEW REF, the first with NUL and capabilities. */
static int
read_command(struct str line, bool first, struct caps *caps, struct jcs *j, struct err *err)
{
	struct str s, old, new, tail = line;
	int rc;

	if (!str_cut(&tail, '\0', &s)) {
		s = line;
	} else if (!first) {
		return bad(err, "a NUL in a command");
	} else {
		rc = read_caps(tail, caps, err);
		if (rc != 0)
			return rc;
	}
	if (str_has_prefix(s, "push-cert"))
		return bad(
		    err, "a signed push, which the broker does not judge: push without --signed");
	if (!take_id(&s, caps->id, &old) || !take_space(&s) || !take_id(&s, caps->id, &new) ||
	    !take_space(&s) || !is_text(s))
		return bad(err, "a command is malformed");
	jcs_open(j, NULL);
	jcs_str(j, "new", new);
	jcs_str(j, "old", old);
	jcs_str(j, "ref", s);
	jcs_close(j);
	return 0;
}

static int
read_commands(struct lines *l, struct caps *caps, struct jcs *j, size_t *ret_n, struct err *err)
{
	struct str line;
	size_t n = 0;
	int rc;

	while ((rc = next_line(l, &line, err)) == 1) {
		if (n == 0 && str_has_prefix(line, "shallow "))
			continue; /* which commits the client has whole: nothing of the server's */
		if (n++ == FACTS_GIT_COMMANDS_MAX)
			return err_set(err, ERR_TOO_COMPLEX, "push: more than %d commands",
			    FACTS_GIT_COMMANDS_MAX);
		rc = read_command(line, n == 1, caps, j, err);
		if (rc != 0)
			return rc;
	}
	*ret_n = n;
	return rc;
}

static int
read_options(struct lines *l, struct jcs *j, struct err *err)
{
	struct str line;
	int rc;

	while ((rc = next_line(l, &line, err)) == 1) {
		if (!is_text(line))
			return bad(err, "an option is malformed");
		jcs_str(j, NULL, line);
	}
	return rc;
}

/* Where all of it came: else its commits cannot be told. */
static void
put_pack(const struct lines *l, size_t id, struct jcs *j)
{
	struct git_pack p;

	if (!facts_git_pack(l->rest, id, &p))
		return;
	jcs_open(j, "pack");
	jcs_int(j, "commits", p.commits);
	jcs_bool(j, "exact", p.exact);
	jcs_close(j);
}

int
facts_git(struct str bytes, struct buf *ret_json, struct err *err)
{
	struct lines l = {.rest = bytes};
	struct caps caps = {.id = 40};
	AUTO_BUF struct buf out = BUF(FACTS_JSON_MAX), options = BUF(FACTS_JSON_MAX);
	struct jcs j, o;
	size_t n = 0;
	int rc;

	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	jcs_open(&j, "git");
	jcs_array(&j, "commands");
	rc = read_commands(&l, &caps, &j, &n, err);
	jcs_array_end(&j);
	jcs_init(&o, &options);
	jcs_array(&o, NULL);
	if (rc == 0 && n != 0 && caps.push_options)
		rc = read_options(&l, &o, err);
	jcs_array_end(&o);
	if (rc != 0)
		return rc;
	if (l.rest.n >= 4 ? !str_has_prefix(l.rest, "PACK") : l.rest.n != 0)
		return bad(err, "no pack stands behind its commands");
	jcs_int(&j, "end", (int64_t)l.at);
	jcs_raw(&j, "options", buf_str(&options));
	put_pack(&l, caps.id / 2, &j);
	jcs_bool(&j, "report", caps.report);
	jcs_bool(&j, "sideband", caps.sideband);
	jcs_close(&j);
	jcs_close(&j);
	if (buf_over(&options) || buf_over(&out))
		return err_set(err, ERR_TOO_COMPLEX, "push: its commands are too long to be told");
	buf_put_str(ret_json, buf_str(&out));
	return 0;
}
