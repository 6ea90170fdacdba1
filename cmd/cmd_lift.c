/*
 * What `freeze`, `exception` and `breakglass` share. Runs as the person who types it: the statement
 * is built here from what the broker shows, and signed with the person's own key. What you see is
 * what you sign.
 */
#include "cmd/cmd_lift.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_sign.h"
#include "cmd/cmd_via.h"
#include "common/clock.h"
#include "common/jcs.h"
#include "common/log.h"
#include "common/sig.h"
#include "common/xalloc.h"
#include "policy/statement.h"

#include "common/banned.h"

/* --- times --------------------------------------------------------------------------- */

int
lift_time(const char *text, int64_t *ret_us, struct err *err)
{
	if (strcmp(text, "now") == 0) {
		*ret_us = clock_wall_us();
		return 0;
	}
	return clock_parse(str_z(text), ret_us, err);
}

int
lift_duration(const char *text, int64_t *ret_s, struct err *err)
{
	static const struct {
		char unit;
		int64_t seconds;
	} units[] = {{'s', 1}, {'m', 60}, {'h', 3600}};
	struct str s = str_z(text);
	uint64_t n;

	for (size_t i = 0; s.n > 1 && i < ARRAY_LEN(units); i++)
		if (s.p[s.n - 1] == units[i].unit &&
		    str_to_u64(str_mem(s.p, s.n - 1), 1000000, &n)) {
			*ret_s = (int64_t)n * units[i].seconds;
			return 0;
		}
	return err_set(
	    err, ERR_CONFIG, "a time must be a number and one of s m h (\"30m\"), is \"%s\"", text);
}

/* --- asking ------------------------------------------------------------------------ */

static void
put_z(struct jcs *j, const char *key, const char *z)
{
	if (z != NULL)
		jcs_str_lossy(j, key, str_z(z));
}

/* "delete,bulk" and "delete bulk" are the same. */
static char *
effects_spaced(const char *text)
{
	char *z = xstrdup(text);

	for (char *c = z; *c != '\0'; c++)
		if (*c == ',')
			*c = ' ';
	return z;
}

struct times {
	int64_t from_us, to_us, seconds;
};

static int
times_read(enum lift_kind kind, const struct lift_args *a, struct times *t, struct err *err)
{
	int64_t s = 0;
	int rc = 0;

	if (a->duration != NULL)
		rc = lift_duration(a->duration, &s, err);
	if (rc != 0 || kind == LIFT_KIND_FREEZE)
		return rc;
	if (kind == LIFT_KIND_BREAKGLASS) {
		t->seconds = s;
		return 0;
	}
	if (a->to != NULL && a->duration != NULL)
		return err_set(
		    err, ERR_CONFIG, "the window ends --to a time or lasts --for a time, not both");
	if (a->to == NULL && a->duration == NULL)
		return err_set(
		    err, ERR_CONFIG, "say when the window ends: --to TIME or --for TIME");
	rc = lift_time(a->from != NULL ? a->from : "now", &t->from_us, err);
	if (rc == 0 && a->to != NULL)
		rc = lift_time(a->to, &t->to_us, err);
	else if (rc == 0)
		t->to_us = t->from_us + s * 1000000;
	return rc;
}

int
lift_ask(enum lift_kind kind, const struct lift_args *a, char **ret_id, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf args = BUF(16384);
	AUTO_FREE char *effects = effects_spaced(a->effects);
	struct times t = {0};
	uint64_t uses = 0;
	struct jcs j;
	int rc = times_read(kind, a, &t, err);

	if (rc != 0)
		return rc;
	if (a->uses != NULL && !str_to_u64(str_z(a->uses), LIFT_USES_MAX, &uses))
		return err_set(err, ERR_CONFIG, "uses must be from 1 to %d, is \"%s\"",
		    LIFT_USES_MAX, a->uses);
	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "effects", str_z(effects));
	put_z(&j, "env", a->env);
	jcs_int(&j, "from_us", t.from_us);
	jcs_z(&j, "kind", lift_kind_name(kind));
	put_z(&j, "reason", a->reason);
	put_z(&j, "rule", a->rule);
	put_z(&j, "run", a->run);
	jcs_int(&j, "seconds", t.seconds);
	put_z(&j, "target", a->target);
	put_z(&j, "ticket", a->ticket);
	jcs_int(&j, "to_us", t.to_us);
	jcs_int(&j, "uses", (int64_t)uses);
	jcs_close(&j);
	rc = control_call(a->state, "lift-request", buf_str(&args), &doc, err);
	if (rc == 0)
		*ret_id = control_text(json_get(json_root(doc), "object"), "id");
	return rc;
}

/* --- showing ------------------------------------------------------------------------ */

static void
line(const struct json *o, const char *label, const char *key)
{
	AUTO_FREE char *z = control_text(o, key);

	if (z[0] != '\0')
		(void)printf("  %-9s %s\n", label, z);
}

static void
print_signed(const struct json *o)
{
	const struct json *list = json_get(o, "signed");

	for (size_t i = 0; i < json_count(list); i++) {
		const struct json *s = json_at(list, i);
		AUTO_FREE char *person = control_text(s, "person"), *role = control_text(s, "role"),
			       *what = control_text(s, "decision"), *at = control_text(s, "at"),
			       *note = control_text(s, "note");

		(void)printf("  %-9s %s as %s, %s%s%s\n", what, person, role, at,
		    note[0] != '\0' ? ": " : "", note);
	}
}

/* Has somebody signed that it is to be lifted? */
static bool
lifts(const struct json *o)
{
	const struct json *list = json_get(o, "signed");

	for (size_t i = 0; i < json_count(list); i++)
		if (str_eqz(json_str(json_get(json_at(list, i), "decision")), "lift"))
			return true;
	return false;
}

void
lift_print(const struct json *o)
{
	AUTO_FREE char *id = control_text(o, "id"), *kind = control_text(o, "kind"),
		       *state = control_text(o, "state"), *effects = control_list(o, "effects"),
		       *missing = control_list(o, "missing");
	const struct json *uses = json_get(o, "uses");

	(void)printf("%s %s: %s\n", kind[0] != '\0' ? kind : "it", id, state);
	line(o, "rule", "rule");
	line(o, "target", "target");
	line(o, "env", "env");
	line(o, "run", "run");
	if (effects[0] != '\0')
		(void)printf("  %-9s %s\n", "effects", effects);
	line(o, "from", "from");
	line(o, "to", "to");
	if (json_get(o, "seconds") != NULL)
		(void)printf("  %-9s %" PRId64 " s\n", "for", json_int(json_get(o, "seconds")));
	if (uses != NULL)
		(void)printf("  %-9s %" PRId64 " of %" PRId64 "\n", "used",
		    json_int(json_get(o, "used")), json_int(uses));
	line(o, "ticket", "ticket");
	line(o, "reason", "reason");
	line(o, "ended", "why");
	if (missing[0] != '\0')
		(void)printf("  %-9s %s\n", "missing", missing);
	if (strcmp(kind, "freeze") == 0 && strcmp(state, "in force") == 0 && lifts(o))
		(void)printf(
		    "  %-9s the signature of one more person, and it is lifted\n", "missing");
	line(o, "sign by", "sign_by");
	line(o, "asked by", "by");
	print_signed(o);
}

int
lift_list(enum lift_kind kind, const struct lift_args *a, struct err *err)
{
	static const char *const lists[] = {[LIFT_KIND_FREEZE] = "freezes",
	    [LIFT_KIND_EXCEPTION] = "exceptions",
	    [LIFT_KIND_BREAKGLASS] = "breakglass"};
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf b = BUF((size_t)4 << 20);
	const struct json *list;
	struct jcs j;
	int rc = control_call(a->state, "status", STR("{}"), &doc, err);

	if (rc != 0)
		return rc;
	list = json_get(json_root(doc), lists[kind]);
	if (a->json) {
		jcs_init(&j, &b);
		rc = jcs_value(&j, NULL, list, err);
		if (rc == 0)
			(void)printf("%.*s\n", STR_ARG(buf_str(&b)));
		return rc;
	}
	if (json_count(list) == 0)
		(void)printf("none\n");
	for (size_t i = 0; i < json_count(list); i++)
		lift_print(json_at(list, i));
	return 0;
}

/* --- signing ------------------------------------------------------------------------ */

static int
fetch(const char *id, const char *decision, const struct lift_args *a, struct json_doc **ret,
    struct err *err)
{
	AUTO_BUF struct buf args = BUF(4096);
	struct jcs j;

	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_z(&j, "decision", decision);
	jcs_str_lossy(&j, "id", str_z(id));
	jcs_str_lossy(&j, "person", str_z(a->as));
	jcs_close(&j);
	return control_call(a->state, "lift-show", buf_str(&args), ret, err);
}

static struct lift
of_json(enum lift_kind kind, const struct json *r)
{
	const struct json *o = json_get(r, "object");

	return (struct lift){.kind = kind,
	    .id = json_str(json_get(o, "id")),
	    .broker = json_str(json_get(r, "broker")),
	    .policy = json_str(json_get(r, "policy")),
	    .log_head = json_str(json_get(r, "log_head")),
	    .rule = json_str(json_get(o, "rule")),
	    .target = json_str(json_get(o, "target")),
	    .env = json_str(json_get(o, "env")),
	    .run = json_str(json_get(o, "run")),
	    .effects = (uint32_t)json_int(json_get(r, "effect_bits")),
	    .from_us = json_int(json_get(r, "from_us")),
	    .to_us = json_int(json_get(r, "to_us")),
	    .seconds = json_int(json_get(o, "seconds")),
	    .uses = json_int(json_get(o, "uses")),
	    .ticket = json_str(json_get(o, "ticket")),
	    .reason = json_str(json_get(o, "reason")),
	    .sign_by_us = json_int(json_get(r, "sign_by_us"))};
}

static int
send(const char *id, const struct lift_signer *s, enum lift_kind kind, struct str signature,
    const struct lift_args *a, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf args = BUF(16384);
	struct jcs j;
	int rc;

	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_z(&j, "decision", lift_decision_name(kind, s->decision));
	jcs_str_lossy(&j, "id", str_z(id));
	jcs_str_lossy(&j, "note", s->note);
	jcs_str_lossy(&j, "person", s->person);
	jcs_str_lossy(&j, "role", s->role);
	jcs_str_lossy(&j, "signature", signature);
	jcs_close(&j);
	rc = control_sign(a->state, "lift-sign", buf_str(&args), &doc, err);
	if (rc == 0) {
		(void)printf("\n");
		lift_print(json_get(json_root(doc), "object"));
	}
	return rc;
}

int
lift_sign(enum lift_kind kind, enum lift_decision d, const char *id, const struct lift_args *a,
    struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf bytes = BUF(STATEMENT_MAX), signature = BUF(SIG_SSHSIG_MAX);
	AUTO_FREE char *key = a->key != NULL ? xstrdup(a->key) : sign_key_default();
	const char *decision = lift_decision_name(kind, d);
	const struct json *roles, *r;
	struct lift_signer s = {
	    .decision = d, .person = str_z(a->as), .note = str_z(a->note), .role = str_z(a->role)};
	struct lift l;
	int rc = fetch(id, decision, a, &doc, err);

	if (rc != 0)
		return rc;
	r = json_root(doc);
	roles = json_get(r, "roles");
	/* The broker has the last word on who may. */
	if (s.role.n == 0)
		s.role = json_count(roles) != 0 ? json_str(json_at(roles, 0)) : STR("any");
	l = of_json(kind, r);
	if (!str_eqz(json_str(json_get(json_get(r, "object"), "kind")), lift_kind_name(kind)))
		return err_set(err, ERR_INVALID, "%s is no %s", id, lift_kind_name(kind));
	rc = lift_bytes(&l, &s, &bytes, err);
	if (rc != 0)
		return rc;
	lift_print(json_get(r, "object"));
	(void)printf("\nthe statement that is signed:\n%.*s", STR_ARG(buf_str(&bytes)));
	rc = sign_ask(decision, a->as, a->yes, err);
	if (rc == 0)
		rc = sign_bytes(key, buf_str(&bytes), &signature, err);
	return rc == 0 ? send(id, &s, kind, buf_str(&signature), a, err) : rc;
}
