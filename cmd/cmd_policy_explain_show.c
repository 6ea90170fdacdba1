/*
 * What `cofferdam policy explain` found, for people and for programs. Only prints. For people the
 * answer stands first, then who can do something about it, then when it changes, then why.
 */
#include <string.h>

#include "cmd/cmd_policy_explain.h"

#include "common/banned.h"

#define COLUMN "           " /* under what stands behind a label */

static void
print_field(const char *label, struct str s)
{
	(void)printf("%-10s ", label);
	policy_print(stdout, s);
	(void)printf("\n");
}

static void
print_decision(const struct explanation *e)
{
	const struct decision *d = &e->decision;
	char until[CLOCK_TEXT_SIZE];

	print_field("says", str_z(d->text));
	(void)printf("verdict    %s\nrules     ", verdict_name(d->verdict));
	for (size_t i = 0; i < d->nrules; i++)
		(void)printf(" %.*s", STR_ARG(d->rules[i]));
	(void)printf("\n");
	if (d->nslots != 0) {
		(void)printf("slots     ");
		for (size_t i = 0; i < d->nslots; i++)
			(void)printf(" %.*s:%u", STR_ARG(d->slots[i].role), d->slots[i].count);
		(void)printf("\n");
	}
	for (size_t i = 0; i < d->nlifted; i++)
		print_field("lifted by", d->lifted[i]);
	if (d->max_rows >= 0)
		(void)printf("max rows   %lld\n", (long long)d->max_rows);
	if (d->calendar.n != 0) {
		clock_format_s(d->until_us, until);
		(void)printf("calendar   %.*s until %s\n", STR_ARG(d->calendar),
		    d->until_us != 0 ? until : "not known");
	}
	if (e->broker != NULL)
		(void)printf("broker     refuses it itself, as opaque (0A000): %s\n", e->broker);
}

/* Who could sign: names, since at night roles help nobody. */
static void
print_signers(const struct explanation *e)
{
	const struct decision *d = &e->decision;

	if (d->verdict != VERDICT_NEEDS_APPROVAL)
		return;
	for (size_t i = 0; i < d->nslots; i++) {
		const char *sep = "";

		(void)printf(
		    "%s%.*s: ", i == 0 ? "can sign   " : COLUMN, STR_ARG(d->slots[i].role));
		for (size_t k = 0; k < policy_person_count(e->p); k++) {
			const struct policy_person *q = policy_person_at(e->p, k);

			if (q->nkeys == 0 || !policy_person_has_role(q, d->slots[i].role) ||
			    str_eq(q->id, e->request.in.owner))
				continue;
			(void)printf("%s%.*s", sep, STR_ARG(q->id));
			sep = ", ";
		}
		(void)printf("%s\n", sep[0] == '\0' ? "nobody" : "");
	}
}

static void
print_input(const struct explanation *e)
{
	const struct policy_input *in = &e->request.in;
	AUTO_BUF struct buf names = BUF(256);
	AUTO_BUF struct buf calendars = BUF(65536);
	char at[CLOCK_TEXT_SIZE];

	(void)printf("target     %.*s (%.*s, %.*s)\n", STR_ARG(in->target), STR_ARG(in->kind),
	    STR_ARG(in->env));
	if (e->action != NULL)
		print_field(e->action, e->text);
	if (e->api != NULL)
		(void)printf("api        %s\n", e->api);
	if (e->facts.n != 0)
		print_field("facts", e->facts);
	effect_put(&names, in->effects);
	print_field("effects", buf_str(&names));
	if (e->fault != NULL)
		(void)printf("fault      %s\n", e->fault);
	if (in->owner.p != NULL)
		print_field("owner", in->owner);
	if (in->agent.p != NULL)
		print_field("agent", in->agent);
	clock_format_s(in->at.us, at);
	(void)printf("at         %s%s\n", at, in->at.known ? "" : " (clock not known)");
	policy_calendar_words(e->p, in->at, "\n" COLUMN, &calendars);
	if (calendars.n != 0)
		print_field("calendars", buf_str(&calendars));
}

void
explanation_print(const struct explanation *e)
{
	AUTO_BUF struct buf table = BUF((size_t)4 << 20);

	print_decision(e);
	print_signers(e);
	(void)printf("\n");
	print_input(e);
	(void)printf("\n");
	policy_explain(e->p, &e->request.in, &table);
	policy_print(stdout, buf_str(&table));
}

/* --- JSON ---------------------------------------------------------------------------- */

static void
jcs_decision(struct jcs *j, const struct decision *d)
{
	jcs_open(j, "decision");
	if (d->calendar.n != 0)
		jcs_str(j, "calendar", d->calendar);
	jcs_array(j, "lifted");
	for (size_t i = 0; i < d->nlifted; i++)
		jcs_str(j, NULL, d->lifted[i]);
	jcs_array_end(j);
	if (d->max_rows >= 0)
		jcs_int(j, "max_rows", d->max_rows);
	if (d->preview)
		jcs_z(j, "preview", "required");
	jcs_array(j, "rules");
	for (size_t i = 0; i < d->nrules; i++)
		jcs_str(j, NULL, d->rules[i]);
	jcs_array_end(j);
	policy_slots_jcs(j, "slots", d->slots, d->nslots);
	jcs_z(j, "text", d->text);
	jcs_bool(j, "unsatisfiable", d->unsatisfiable);
	if (d->until_us != 0)
		jcs_time(j, "until", d->until_us);
	jcs_int(j, "use_within", d->use_within_s);
	jcs_z(j, "verdict", verdict_name(d->verdict));
	if (d->verify)
		jcs_bool(j, "verify", true);
	jcs_int(j, "within", d->within_s);
	jcs_close(j);
}

void
explanation_print_json(const struct explanation *e)
{
	AUTO_BUF struct buf out = BUF((size_t)16 << 20);
	AUTO_BUF struct buf calendars = BUF(65536);
	struct jcs j;

	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	if (e->action != NULL)
		jcs_str_lossy(&j, "action", e->text);
	if (e->broker != NULL)
		jcs_z(&j, "broker_refuses", e->broker);
	policy_calendar_words(e->p, e->request.in.at, "\n", &calendars);
	jcs_array(&j, "calendars");
	for (struct str rest = buf_str(&calendars), line; rest.n != 0;) {
		if (!str_cut(&rest, '\n', &line)) {
			line = rest;
			rest.n = 0;
		}
		jcs_str(&j, NULL, line);
	}
	jcs_array_end(&j);
	jcs_decision(&j, &e->decision);
	if (e->facts.n != 0)
		jcs_str_lossy(&j, "facts", e->facts);
	if (e->fault != NULL)
		jcs_z(&j, "fault", e->fault);
	policy_request_jcs(&j, "request", &e->request);
	policy_explain_jcs(e->p, &e->request.in, &j, "rules");
	jcs_close(&j);
	policy_print_json(&out);
}
