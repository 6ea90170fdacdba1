/*
 * The bytes a person signs. Core builds them from its own pending record and checks the
 * signature over them; the command line builds the same bytes from what core showed. One
 * line per field, fixed order, LF, printable ASCII: nobody ever parses them.
 */
#include "policy/statement.h"

#include "common/clock.h"
#include "common/err.h"
#include "common/hash.h"

#include "common/banned.h"

static int
line_put(const char *what, const struct statement_line *l, struct buf *out, struct err *err)
{
	if (l->value.n == 0)
		return err_set(err, ERR_INVALID, "%s statement: %s is empty", what, l->name);
	if (l->value.n > l->max)
		return err_set(err, ERR_INVALID, "%s statement: %s has %zu bytes, limit %zu", what,
		    l->name, l->value.n, l->max);
	buf_put_z(out, l->name);
	buf_put_z(out, ": ");
	enc_percent(out, l->value);
	buf_put_c(out, '\n');
	return 0;
}

int
statement_lines(
    const char *what, const struct statement_line *l, size_t n, struct buf *out, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		int rc = line_put(what, &l[i], out, err);

		if (rc != 0)
			return rc;
	}
	return 0;
}

static void
limits_put(const struct statement *s, struct buf *out)
{
	char from[CLOCK_TEXT_SIZE], by[CLOCK_TEXT_SIZE];

	clock_format_s(s->not_before_us, from);
	clock_format_s(s->approve_by_us, by);
	if (s->max_rows >= 0)
		buf_printf(out, "max-rows: %lld\n", (long long)s->max_rows);
	else
		buf_put_z(out, "max-rows: none\n");
	buf_put_z(out, "preview: ");
	enc_percent(out, s->preview.n != 0 ? s->preview : STR("none"));
	buf_put_c(out, '\n');
	buf_printf(out, "not-before: %s\napprove-by: %s\nuse-within: %lld\nuses: 1\n", from, by,
	    (long long)s->use_within_s);
}

/*
 * In full up to the limit, else by digest under another name, so that no text can be
 * mistaken for a digest. Never truncated.
 */
static void
show_put(struct str show, struct buf *out)
{
	char hex[HASH_HEX_SIZE];
	struct hash h;

	if (show.n <= STATEMENT_SHOW_MAX) {
		buf_put_z(out, "show: ");
		enc_percent(out, show);
		buf_put_c(out, '\n');
		return;
	}
	h = hash_sha256(show);
	hash_hex(&h, hex);
	buf_printf(out, "show-sha256: %s %zu\n", hex, show.n);
}

int
statement_bytes(const struct statement *s, struct buf *out, struct err *err)
{
	const struct statement_line lines[] = {
	    {"decision", s->decision, STATEMENT_FIELD_MAX},
	    {"broker", s->broker, STATEMENT_FIELD_MAX},
	    {"request", s->request, STATEMENT_FIELD_MAX},
	    {"action", s->action, STATEMENT_FIELD_MAX},
	    {"policy", s->policy, STATEMENT_FIELD_MAX},
	    {"log-head", s->log_head, STATEMENT_FIELD_MAX},
	    {"agent", s->agent, STATEMENT_FIELD_MAX},
	    {"run", s->run, STATEMENT_FIELD_MAX},
	    {"run-owner", s->owner, STATEMENT_FIELD_MAX},
	    {"target", s->target, STATEMENT_FIELD_MAX},
	    {"effects", s->effects, STATEMENT_LIST_MAX},
	    {"rule", s->rule, STATEMENT_LIST_MAX},
	    {"role", s->role, STATEMENT_FIELD_MAX},
	    {"approver", s->approver, STATEMENT_FIELD_MAX},
	    {"note", s->note.n != 0 ? s->note : STR("none"), STATEMENT_NOTE_MAX},
	};
	AUTO_BUF struct buf b = BUF(STATEMENT_MAX);
	int rc;

	if (!str_eqz(s->decision, "approve") && !str_eqz(s->decision, "deny") &&
	    !str_eqz(s->decision, "revoke"))
		return err_set(err, ERR_INVALID,
		    "approval statement: decision must be approve, deny or revoke, is \"%.*s\"",
		    STR_ARG(s->decision));
	if (s->show.n == 0)
		return err_set(err, ERR_INVALID, "approval statement: show is empty");
	if (s->preview.n > STATEMENT_FIELD_MAX)
		return err_set(err, ERR_INVALID,
		    "approval statement: preview has %zu bytes, limit %d", s->preview.n,
		    STATEMENT_FIELD_MAX);
	if (s->use_within_s < 0 || s->approve_by_us < s->not_before_us)
		return err_set(err, ERR_INVALID, "approval statement: times are out of order");
	buf_put_z(&b, "cofferdam-approval v2\n");
	rc = statement_lines("approval", lines, ARRAY_LEN(lines), &b, err);
	if (rc != 0)
		return rc;
	limits_put(s, &b);
	show_put(s->show, &b);
	buf_put_z(&b, "end\n");
	if (buf_over(&b))
		return err_set(
		    err, ERR_TOO_LARGE, "approval statement is over %zu bytes", STATEMENT_MAX);
	buf_put_str(out, buf_str(&b));
	return 0;
}
