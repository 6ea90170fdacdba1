/*
 * The policy in words, for the model of a run (process: core). Made by asking the one verdict
 * function about each effect on each target, so it cannot say other than what is judged; it tells
 * only of what the run may reach. Nothing reads it back.
 */
#include "broker/core_words.h"

#include "broker/core_lift.h"
#include "broker/core_status.h"
#include "broker/core_steer.h"
#include "common/hash.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define TARGETS_TOLD 60 /* more are counted */
#define EFFECTS_TOLD \
	(EFFECT_SET_DATA | EFFECT_SET_CHANGE | EFFECT_SET_DESTRUCTIVE | EFFECT_exec | EFFECT_priv)

/* Effects of one target that the policy answers in the same words. */
struct group {
	enum verdict verdict;
	char *words;
	uint32_t effects;
};
struct groups {
	struct group v[EFFECT_COUNT];
	size_t n;
};

static void
rules_put(struct buf *b, const struct decision *d)
{
	char t[CLOCK_TEXT_SIZE];

	for (size_t i = 0; i < d->nrules; i++)
		buf_printf(b, "%s%s %.*s", i != 0 ? ", " : "",
		    i < d->noverlays ? "emergency freeze" : "rule", STR_ARG(d->rules[i]));
	if (d->calendar.n != 0)
		buf_printf(b, ", calendar %.*s", STR_ARG(d->calendar));
	if (d->until_us != 0) {
		clock_format_s(d->until_us, t);
		buf_printf(b, ", until %s", t);
	}
}

static char *
answer_words(const struct decision *d)
{
	AUTO_BUF struct buf b = BUF(2048);

	if (d->verdict == VERDICT_NEEDS_APPROVAL && d->unsatisfiable) {
		buf_put_z(&b, "needs an approval that nobody can give now");
	} else if (d->verdict == VERDICT_NEEDS_APPROVAL) {
		buf_put_z(&b, "needs approval by ");
		policy_slots_put(&b, d->slots, d->nslots, ", ");
	} else {
		buf_put_z(&b, d->verdict == VERDICT_ALLOW ? "allowed" : "refused");
	}
	if (d->verdict != VERDICT_ALLOW && d->nrules != 0) {
		buf_put_z(&b, " (");
		rules_put(&b, d);
		buf_put_c(&b, ')');
	}
	if (d->verdict != VERDICT_DENY && d->max_rows >= 0)
		buf_printf(&b, ", at most %lld rows", (long long)d->max_rows);
	return buf_dup_z(&b);
}

static void
group_add(struct groups *g, const struct decision *d)
{
	char *words = answer_words(d);

	for (size_t i = 0; i < g->n; i++)
		if (strcmp(g->v[i].words, words) == 0) {
			g->v[i].effects |= d->effects;
			free(words);
			return;
		}
	g->v[g->n++] = (struct group){d->verdict, words, d->effects};
}

static void
groups_fill(const struct core_run *run, const char *target, struct groups *g)
{
	struct core *c = run->core;
	struct policy_input in = policy_input_for(c->policy, str_z(target));
	struct core_beside *beside;
	struct decision d;

	in.agent = str_z(run->agent);
	in.run = str_z(run->id);
	in.owner = str_z(run->owner);
	core_steer_words(run, &in);
	in.statements = 1;
	in.at = core_now(c);
	policy_input_uncounted(c->policy, &in);
	beside = core_lift_beside(run, str_z(target), NULL, in.at);
	core_lift_beside_input(beside, &in);
	for (unsigned bit = 0; bit < EFFECT_COUNT; bit++) {
		in.effects = 1u << bit;
		if ((in.effects & EFFECTS_TOLD) == 0)
			continue;
		policy_judge(c->policy, &in, NULL, 0, &d);
		if ((in.effects & ~run->most) != 0)
			d = (struct decision){.verdict = VERDICT_DENY};
		d.effects = in.effects;
		group_add(g, &d);
	}
	core_lift_beside_free(beside);
}

static void
target_put(const struct core_run *run, const struct core_target *t, struct buf *out)
{
	const struct policy_target *p = policy_target(run->core->policy, str_z(t->id));
	static const enum verdict order[] = {VERDICT_ALLOW, VERDICT_NEEDS_APPROVAL, VERDICT_DENY};
	struct groups g = {0};

	if (p == NULL)
		return;
	buf_printf(out, "- %s: %s at %s%s port %u", t->id, t->kind, p->wildcard ? "*." : "",
	    t->host, (unsigned)t->port);
	if (t->database[0] != '\0')
		buf_printf(out, ", database %s", t->database);
	if (p->env.n != 0)
		buf_printf(out, ", env %.*s", STR_ARG(p->env));
	if (p->files.n != 0)
		buf_put_z(out, ", files: GET of a path reads, of a directory lists, of one with "
			       "?q=WORDS searches");
	buf_put_c(out, '\n');
	groups_fill(run, t->id, &g);
	for (size_t k = 0; k < ARRAY_LEN(order); k++)
		for (size_t i = 0; i < g.n; i++)
			if (g.v[i].verdict == order[k]) {
				buf_put_z(out, "    ");
				effect_put(out, g.v[i].effects);
				buf_printf(out, ": %s\n", g.v[i].words);
			}
	for (size_t i = 0; i < g.n; i++)
		free(g.v[i].words);
}

static bool
is_told(const struct core_run *run, const struct core_target *t)
{
	const struct policy_target *p = policy_target(run->core->policy, str_z(t->id));

	return t->id[0] != '\0' && t->state != CORE_TARGET_GONE && p != NULL &&
	       p->model == TARGET_MODEL_NONE;
}

static void
frozen_line(void *arg, struct str line)
{
	buf_printf(arg, "- %.*s\n", STR_ARG(line));
}

static void
words_put(const struct core_run *run, struct buf *out)
{
	AUTO_BUF struct buf frozen = BUF(CORE_WORDS_MAX / 4);
	size_t n = 0;

	for (size_t i = 0; i < run->ntargets; i++) {
		if (!is_told(run, &run->targets[i]))
			continue;
		if (n++ < TARGETS_TOLD)
			target_put(run, &run->targets[i], out);
	}
	if (n == 0)
		buf_put_z(out, "There is no target for this run.\n");
	if (n > TARGETS_TOLD)
		buf_printf(out, "- and %zu more targets\n", n - TARGETS_TOLD);
	core_status_frozen(run->core, core_now(run->core), frozen_line, &frozen);
	if (frozen.n != 0)
		buf_printf(out, "In force now:\n%.*s", STR_ARG(buf_str(&frozen)));
}

void
core_words_put(const struct core_run *run, struct buf *out)
{
	AUTO_BUF struct buf b = BUF(CORE_WORDS_MAX - 64);

	if (run->core->policy == NULL)
		return;
	words_put(run, &b);
	buf_put_str(out, buf_str(&b));
	if (buf_over(&b))
		buf_put_z(out, "\n... (too many to list)\n");
}

void
core_words_changed(struct core_run *run, struct buf *out)
{
	AUTO_BUF struct buf b = BUF(CORE_WORDS_MAX);
	struct hash h;

	core_words_put(run, &b);
	h = hash_sha256(buf_str(&b));
	if (hash_eq(&h, &run->words))
		return;
	run->words = h;
	buf_put_str(out, buf_str(&b));
}

/* --- what was refused ------------------------------------------------------------ */

void
core_told_add(struct core_run *run, struct str target, const struct core_action *a)
{
	AUTO_BUF struct buf b = BUF(4096);
	struct buf *told = &run->told;

	if (told->max == 0)
		buf_init(told, CORE_TOLD_MAX);
	buf_printf(&b, "%.*s%s%s", STR_ARG(target), target.n != 0 ? ": " : "",
	    a->message != NULL ? a->message : "refused");
	if (a->d.why.n != 0)
		buf_printf(&b, " (%.*s)", STR_ARG(a->d.why));
	if (a->hint != NULL && a->hint[0] != '\0')
		buf_printf(&b, "; %s", a->hint);
	buf_put_c(&b, '\n');
	/* The same again is not said again. */
	if (told->n != 0 && memmem(told->p, told->n, b.p, b.n) != NULL)
		return;
	if (told->n + b.n <= told->max)
		buf_put_str(told, buf_str(&b));
	else
		run->untold++;
}

void
core_told_take(struct core_run *run, struct buf *out)
{
	buf_put_str(out, buf_str(&run->told));
	if (run->untold != 0)
		buf_printf(out, "and %zu more\n", run->untold);
	run->told.n = 0;
	run->untold = 0;
}

void
core_told_free(struct core_run *run)
{
	buf_free(&run->told);
}
