/*
 * What of a record may leave. Runs in the courier and in the command line. The record is the
 * broker's, but words in it are an agent's or a person's: only members that stand in the table
 * below leave, cut and printable; what an agent chose stands apart, as claimed. Signatures, inputs,
 * sealed content and everything that a later version may add stay here.
 */
#include "audit/export.h"

#include <assert.h>
#include <string.h>

#include "audit/outcome.h"

#include "common/banned.h"

#define WORDS_MAX 256
#define PART_MAX 64 /* of one name between dots */

/* In the order of their names; docs/format-log.md 7. */
static const struct {
	const char *name;
	enum export_class class;
} members[] = {
    {"action", EXPORT_PUBLIC},
    {"action_seq", EXPORT_PUBLIC},
    {"added", EXPORT_PUBLIC},
    {"agent", EXPORT_CLAIM},
    {"answer_bytes", EXPORT_PUBLIC},
    {"approve_by", EXPORT_PUBLIC},
    {"at", EXPORT_PUBLIC},
    {"attempts", EXPORT_PUBLIC},
    {"body_bytes", EXPORT_PUBLIC},
    {"body_sha256", EXPORT_PUBLIC},
    {"by", EXPORT_PUBLIC},
    {"by_us", EXPORT_PUBLIC},
    {"bytes", EXPORT_PUBLIC},
    {"clock", EXPORT_PUBLIC},
    {"condition", EXPORT_PUBLIC},
    {"copy.bytes", EXPORT_PUBLIC},
    {"copy.sha256", EXPORT_PUBLIC},
    {"decision", EXPORT_PUBLIC},
    {"decision.approval", EXPORT_PUBLIC},
    {"decision.at", EXPORT_PUBLIC},
    {"decision.attempt", EXPORT_PUBLIC},
    {"decision.calendar", EXPORT_PUBLIC},
    {"decision.clock", EXPORT_PUBLIC},
    {"decision.clock_known", EXPORT_PUBLIC},
    {"decision.engine", EXPORT_PUBLIC},
    {"decision.lifted", EXPORT_PUBLIC},
    {"decision.max_rows", EXPORT_PUBLIC},
    {"decision.policy", EXPORT_PUBLIC},
    {"decision.reason", EXPORT_PUBLIC},
    {"decision.rules", EXPORT_PUBLIC},
    {"decision.slots", EXPORT_PUBLIC},
    {"decision.until", EXPORT_PUBLIC},
    {"decision.verdict", EXPORT_PUBLIC},
    {"digest", EXPORT_PUBLIC},
    {"dispatch.credential", EXPORT_PUBLIC},
    {"dispatch.max_rows", EXPORT_PUBLIC},
    {"dispatch.sent", EXPORT_PUBLIC},
    {"duration_us", EXPORT_PUBLIC},
    {"effects", EXPORT_PUBLIC},
    {"ended", EXPORT_PUBLIC},
    {"env", EXPORT_PUBLIC},
    {"evidence", EXPORT_PUBLIC},
    {"exchange", EXPORT_PUBLIC},
    {"field", EXPORT_PUBLIC},
    {"file", EXPORT_PUBLIC},
    {"fingerprint", EXPORT_PUBLIC},
    {"first", EXPORT_PUBLIC},
    {"from", EXPORT_PUBLIC},
    {"gone", EXPORT_PUBLIC},
    {"http_status", EXPORT_PUBLIC},
    {"id", EXPORT_PUBLIC},
    {"key", EXPORT_PUBLIC},
    {"kind", EXPORT_PUBLIC},
    {"last", EXPORT_PUBLIC},
    {"level", EXPORT_PUBLIC},
    {"login", EXPORT_PUBLIC},
    {"max_rows", EXPORT_PUBLIC},
    {"not_before", EXPORT_PUBLIC},
    {"note", EXPORT_WORDS},
    {"origin", EXPORT_PUBLIC},
    {"outcome_seq", EXPORT_PUBLIC},
    {"owner", EXPORT_PUBLIC},
    {"path", EXPORT_TEXT},
    {"peer", EXPORT_PUBLIC},
    {"person", EXPORT_PUBLIC},
    {"policy", EXPORT_PUBLIC},
    {"proven", EXPORT_PUBLIC},
    {"reason", EXPORT_WORDS},
    {"recovered", EXPORT_PUBLIC},
    {"reads", EXPORT_PUBLIC},
    {"reflected_credential", EXPORT_PUBLIC},
    {"request.cancels", EXPORT_PUBLIC},
    {"request.digest", EXPORT_PUBLIC},
    {"request.effects", EXPORT_PUBLIC},
    {"request.http.authority", EXPORT_PUBLIC},
    {"request.http.body_bytes", EXPORT_PUBLIC},
    {"request.http.path", EXPORT_TEXT},
    {"request.http.scheme", EXPORT_PUBLIC},
    {"request.http.status", EXPORT_PUBLIC},
    {"request.http.title", EXPORT_PUBLIC},
    {"request.http.upgrade", EXPORT_PUBLIC},
    {"request.http.via", EXPORT_PUBLIC},
    {"request.input.agent", EXPORT_CLAIM},
    {"request.input.env", EXPORT_PUBLIC},
    {"request.input.owner", EXPORT_PUBLIC},
    {"request.input.relations", EXPORT_TEXT},
    {"request.input.statements", EXPORT_PUBLIC},
    {"request.kind", EXPORT_PUBLIC},
    {"request.operation", EXPORT_PUBLIC},
    {"request.protocol", EXPORT_PUBLIC},
    {"request.target", EXPORT_PUBLIC},
    {"request.txn_effects", EXPORT_PUBLIC},
    {"role", EXPORT_PUBLIC},
    {"root", EXPORT_PUBLIC},
    {"rows", EXPORT_PUBLIC},
    {"rule", EXPORT_PUBLIC},
    {"run", EXPORT_PUBLIC},
    {"runs", EXPORT_PUBLIC},
    {"seconds", EXPORT_PUBLIC},
    {"serial", EXPORT_PUBLIC},
    {"sha256", EXPORT_PUBLIC},
    {"sign_by", EXPORT_PUBLIC},
    {"signer", EXPORT_PUBLIC},
    {"size", EXPORT_PUBLIC},
    {"slots", EXPORT_PUBLIC},
    {"software", EXPORT_PUBLIC},
    {"sqlstate", EXPORT_PUBLIC},
    {"statement", EXPORT_PUBLIC},
    {"status", EXPORT_PUBLIC},
    {"subject", EXPORT_PUBLIC},
    {"tag", EXPORT_PUBLIC},
    {"target", EXPORT_PUBLIC},
    {"theirs", EXPORT_PUBLIC},
    {"ticket", EXPORT_WORDS},
    {"to", EXPORT_PUBLIC},
    {"unsigned", EXPORT_PUBLIC},
    {"until", EXPORT_PUBLIC},
    {"use_by", EXPORT_PUBLIC},
    {"use_within", EXPORT_PUBLIC},
    {"used", EXPORT_PUBLIC},
    {"uses", EXPORT_PUBLIC},
    {"vkey", EXPORT_PUBLIC},
    {"why", EXPORT_WORDS},
    {"within", EXPORT_PUBLIC},
    {"witness", EXPORT_PUBLIC},
};

/* --- words --------------------------------------------------------------------------- */

/* False: bytes that a terminal, a chat or a log viewer would act on. */
static bool
is_plain(const char *p, size_t n)
{
	uint32_t c = (unsigned char)p[0];

	if (n == 1)
		return c >= ' ' && c < 0x7f;
	c &= n == 2 ? 0x1f : n == 3 ? 0x0f : 0x07;
	for (size_t i = 1; i < n; i++)
		c = c << 6 | ((unsigned char)p[i] & 0x3f);
	return c >= 0xa0 && !(c >= 0x200b && c <= 0x200f) && !(c >= 0x2028 && c <= 0x202e) &&
	       !(c >= 0x2060 && c <= 0x206f) && c != 0x61c && c != 0xfeff && c != 0xad &&
	       !(c >= 0xfff0 && c <= 0xfffb) && !(c >= 0xe0000 && c <= 0xe0fff);
}

void
export_words(struct buf *out, struct str s, size_t max)
{
	size_t n, had = out->n;
	bool whole;

	for (size_t i = 0; i < s.n; i += n) {
		unsigned char c = (unsigned char)s.p[i];

		n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
		if (out->n - had + n > max) {
			buf_put_z(out, "...");
			return;
		}
		whole = i + n <= s.n && str_is_utf8(str_mem(s.p + i, n));
		if (whole && is_plain(s.p + i, n))
			buf_put(out, s.p + i, n);
		else
			buf_put_c(out, '?');
		n = whole ? n : 1;
	}
}

void
export_text(struct jcs *j, const char *key, struct str s)
{
	AUTO_BUF struct buf b = BUF(WORDS_MAX + 8);

	export_words(&b, s, WORDS_MAX);
	jcs_str(j, key, buf_str(&b));
}

/* --- members ------------------------------------------------------------------------- */

const struct canon_node *
export_at(const struct canon_node *data, const char *name)
{
	char part[PART_MAX];
	struct str rest = str_z(name), s;

	while (data != NULL && rest.n != 0) {
		if (!str_cut(&rest, '.', &s)) {
			s = rest;
			rest.n = 0;
		}
		assert(s.n < sizeof(part));
		memcpy(part, s.p, s.n);
		part[s.n] = '\0';
		data = data->type == CANON_OBJECT ? canon_member(data, part) : NULL;
	}
	return data;
}

static bool
is_scalar(const struct canon_node *v)
{
	return v->type == CANON_STRING || v->type == CANON_INT || v->type == CANON_BOOL;
}

/* A list leaves if its elements do: of objects it is not for outside. */
static bool
may_leave(const struct canon_node *v)
{
	if (v == NULL || v->type == CANON_OBJECT)
		return false;
	return is_scalar(v) || v->count == 0 || is_scalar(canon_first(v));
}

/* Names that begin alike stand together: what they begin with is looked for once. */
struct group {
	const char *name;
	size_t n;
	const struct canon_node *at;
};

static const struct canon_node *
member_at(const struct canon_node *data, const char *name, struct group *g)
{
	const char *dot = strchr(name, '.');
	size_t n = dot != NULL ? (size_t)(dot - name) : 0;
	char part[PART_MAX];

	if (dot == NULL)
		return canon_member(data, name);
	if (n != g->n || memcmp(name, g->name, n) != 0) {
		assert(n < sizeof(part));
		memcpy(part, name, n);
		part[n] = '\0';
		*g = (struct group){name, n, canon_member(data, part)};
	}
	if (g->at == NULL || g->at->type != CANON_OBJECT)
		return NULL;
	return export_at(g->at, dot + 1);
}

void
export_each(const struct export *e, export_fn *fn, void *arg)
{
	struct group g = {0};

	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		const struct canon_node *v;

		if (members[i].class == EXPORT_TEXT && !e->o->text)
			continue;
		v = member_at(e->data, members[i].name, &g);
		if (may_leave(v))
			fn(arg, members[i].name, members[i].class, v);
	}
}

void
export_value(struct jcs *j, const char *key, const struct canon_node *v)
{
	const struct canon_node *at;

	switch (v->type) {
	case CANON_STRING: export_text(j, key, v->text); return;
	case CANON_INT: jcs_int(j, key, canon_int(v)); return;
	case CANON_BOOL: jcs_bool(j, key, canon_true(v)); return;
	case CANON_OBJECT: return;
	case CANON_ARRAY: break;
	}
	jcs_array(j, key);
	at = canon_first(v);
	for (size_t i = 0; i < v->count && i < EXPORT_LIST_MAX; i++) {
		if (is_scalar(at))
			export_value(j, NULL, at);
		if (i + 1 < v->count)
			at = canon_behind(at);
	}
	jcs_array_end(j);
}

void
export_id(const struct export *e, struct buf *out)
{
	buf_printf(out, "%.*s#%llu", STR_ARG(e->o->origin), (unsigned long long)e->r->seq);
}

unsigned
export_severity(const struct export *e)
{
	static const struct {
		const char *type;
		unsigned severity;
	} types[] = {{"run.alarm", 4}, {"breakglass.begin", 4}, {"policy.unload", 4},
	    {"log.full", 5}, {"log.conflict", 4}, {"log.recovered", 3}, {"policy.refused", 3},
	    {"clock.step", 3}, {"approval.rejected", 3}, {"freeze.rejected", 3},
	    {"exception.rejected", 3}, {"breakglass.rejected", 3}, {"approval.mismatch", 3},
	    {"freeze.begin", 2}, {"breakglass.request", 2}, {"breakglass.review", 3},
	    {"approval.deny", 2}};
	struct str verdict = canon_text(export_at(e->data, "decision.verdict")),
		   status = canon_text(export_at(e->data, "status"));

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_eqz(e->r->type, types[i].type))
			return types[i].severity;
	if (str_eqz(e->r->type, "outcome"))
		return outcome_in_doubt(e->r->data) ? 4 : str_eqz(status, "ok") ? 1 : 2;
	return str_eqz(verdict, "deny") ? 3 : str_eqz(verdict, "needs_approval") ? 2 : 1;
}
