/*
 * `cofferdam policy`: dispatch, and what its subcommands share. Runs as the person who
 * reviews or builds a policy; a policy file under review is hostile text, and reaches no
 * parser but the strict reader here and the confined parser child.
 */
#include "cmd/cmd_policy.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "cmd/cmd_file.h"
#include "common/xalloc.h"
#include "policy/policy_source.h"

#include "common/banned.h"

static const struct cmd subcommands[] = {
    {"check", policy_check_main, "check FILE", "read and check a policy"},
    {"build", policy_build_main, "build FILE [-o DIR | --state DIR]",
	"write the bundle that the broker loads"},
    {"sign", policy_sign_main, "sign BUNDLE --as PERSON [--state DIR | --before BUNDLE]",
	"sign that a bundle may follow the active one"},
    {"activate", policy_activate_main, "activate BUNDLE [--state DIR] [--signature P=FILE]...",
	"let a bundle that its owners signed become active"},
    {"test", policy_test_main, "test POLICY [CASES]...",
	"run the cases of a policy, and case files by it"},
    {"explain", policy_explain_main,
	"explain FILE --target T (--sql TEXT | --method M --path P [--header H]... [--body "
	"FILE|-]) "
	"[--at TIME] [--owner PERSON] [--agent NAME]",
	"judge one statement or request and say why"},
    {"calendar", policy_calendar_main, "calendar FILE [NAME] [--from TIME] [--to TIME]",
	"print windows as instants"},
    {"prove", policy_prove_main, "prove FILE [THEOREM]...",
	"prove what the policy says must hold, or show an action that refutes it"},
    {"diff", policy_diff_main, "diff OLD NEW", "what a change of a policy lets pass"},
    {"import-ics", policy_import_main, "import-ics FILE", "windows from a calendar file"},
};

static int
usage(void)
{
	(void)fprintf(stderr, "usage: cofferdam policy SUBCOMMAND\n");
	for (size_t i = 0; i < ARRAY_LEN(subcommands); i++)
		(void)fprintf(stderr, "  %-46s %s\n", subcommands[i].usage, subcommands[i].summary);
	return CMD_USAGE;
}

int
cmd_policy(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < ARRAY_LEN(subcommands); i++)
		if (strcmp(argv[1], subcommands[i].name) == 0)
			return subcommands[i].run(argc - 1, argv + 1);
	if (argc > 1)
		(void)fprintf(stderr, "cofferdam: policy: unknown subcommand \"%s\"\n", argv[1]);
	return usage();
}

/* A policy under review must not be able to repaint its reviewer's terminal. */
void
policy_print(FILE *f, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if ((c >= 0x20 && c < 0x7f) || c == '\n')
			(void)fputc(c, f);
		else
			(void)fprintf(f, "\\x%02x", c);
	}
}

int
policy_fail(const struct err *err)
{
	(void)fprintf(stderr, "cofferdam: ");
	policy_print(stderr, str_z(err->msg));
	(void)fprintf(stderr, "\n");
	return err->code == ERR_CONFIG || err->code == ERR_SYSTEM ? CMD_USAGE : CMD_FAILED;
}

int
policy_undecided(const struct err *err)
{
	(void)policy_fail(err);
	return CMD_USAGE;
}

void
policy_print_json(const struct buf *out)
{
	(void)fwrite(out->p, 1, out->n, stdout);
	(void)printf("\n");
}

void
policy_file_free(struct policy_file *f)
{
	policy_free(f->policy);
	policy_docs_free(&f->docs);
	free(f->parts);
	buf_free(&f->warnings);
	free(f->dir);
}

static bool
is_bundle(struct str text)
{
	AUTO(json) struct json_doc *doc = NULL;

	return json_parse(text, "bundle", &doc, NULL) == 0 &&
	       str_eqz(policy_member_str(json_root(doc), "schema"), "cofferdam-bundle/1");
}

static void
parts_put(struct policy_file *f)
{
	f->parts = xcalloc(f->docs.n + 1, sizeof(*f->parts));
	for (; f->nparts < f->docs.n; f->nparts++)
		f->parts[f->nparts] =
		    (struct policy_part){f->docs.v[f->nparts], json_root(f->docs.v[f->nparts])};
}

/* A case file's policy is judged, never built: no CA file is read. */
static int
open_cases(struct str text, const char *path, struct policy_file *ret, struct err *err)
{
	const struct policy_source src = {.name = path, .opaque_keys = true};
	struct json_doc *doc = NULL;
	int rc = json_parse(text, path, &doc, err);

	if (rc != 0)
		return rc;
	ret->docs.v = xcalloc(1, sizeof(struct json_doc *));
	ret->docs.v[ret->docs.n++] = doc;
	parts_put(ret);
	ret->parts[0].v = json_get(json_root(doc), "policy");
	if (ret->parts[0].v == NULL)
		return err_set(err, ERR_CONFIG, "%s has no \"policy\"", path);
	return policy_parse_value(doc, ret->parts[0].v, &src, &ret->policy, &ret->warnings, err);
}

int
policy_file_open(const char *path, unsigned how, struct policy_file *ret, struct err *err)
{
	AUTO_BUF struct buf text = BUF(JSON_SIZE_MAX);
	AUTO_FREE char *copy = xstrdup(path);
	struct policy_source src = {.name = path, .no_ca = (how & POLICY_FILE_CA) == 0};
	int rc;

	*ret = (struct policy_file){.warnings = BUF((size_t)1 << 20)};
	ret->dir = xstrdup(dirname(copy));
	if (strcmp(path, "-") == 0)
		return err_set(err, ERR_CONFIG,
		    "a policy is not read from standard input, since it may include files that lie "
		    "beside it: "
		    "give the name of its file");
	rc = file_read(AT_FDCWD, path, &text, err);
	if (rc != 0)
		return rc;
	if ((how & POLICY_FILE_CASES) != 0)
		return open_cases(buf_str(&text), path, ret, err);
	if ((how & POLICY_FILE_BUNDLE) != 0 && is_bundle(buf_str(&text))) {
		ret->bundle = true;
		return policy_load(buf_str(&text), &ret->policy, err);
	}
	src.dir = ret->dir;
	rc = policy_parse_docs(buf_str(&text), &src, &ret->docs, &ret->policy, &ret->warnings, err);
	parts_put(ret);
	return rc;
}

int
policy_time_parse(const char *text, int64_t *ret_us, struct err *err)
{
	bool day = strlen(text) == strlen("2026-12-24");
	AUTO_FREE char *full = xasprintf(day ? "%sT00:00:00Z" : "%s", text);
	struct err why;

	if (clock_parse(str_z(full), ret_us, &why) == 0)
		return 0;
	return err_set(err, ERR_INVALID,
	    "must be an instant as 2026-12-24T12:00:05Z (UTC), or a day as 2026-12-24, is "
	    "\"%s\"%s%s%s",
	    text, day ? " (" : "", day ? why.msg : "", day ? ")" : "");
}

struct str
policy_member_str(const struct json *obj, const char *key)
{
	const struct json *v = obj != NULL ? json_get(obj, key) : NULL;

	return v != NULL ? json_str(v) : STR("");
}

void
policy_sql_free(struct policy_sql *s)
{
	cmd_facts_free(&s->facts);
	json_free(s->doc);
}

int
policy_sql_input(const struct policy *p, struct cmd_parser *parser, struct str target,
    struct str sql, struct policy_sql *ret, struct err *err)
{
	const struct json *rel;
	int rc;

	*ret = (struct policy_sql){.input = policy_input_for(p, target)};
	policy_input_uncounted(p, &ret->input);
	rc = cmd_parser_facts(parser, sql, &ret->facts, err);
	if (rc != 0)
		return rc;
	ret->input.effects = ret->facts.view.effects;
	ret->input.statements = ret->facts.view.statements;
	ret->unapprovable = effects_sql_unapprovable(&ret->facts.view);
	if (!ret->facts.parsed)
		return 0;
	rc = json_parse(buf_str(&ret->facts.json), "facts", &ret->doc, err);
	if (rc != 0)
		return rc;
	rel = json_get(json_root(ret->doc), "rel");
	for (size_t i = 0; rel != NULL && i < json_count(rel) && i < FACTS_RELATIONS_MAX; i++)
		ret->relations[ret->input.nrelations++] = json_str(json_at(rel, i));
	ret->input.relations = ret->relations;
	return 0;
}

bool
policy_sql_judge(
    const struct policy *p, const char *unapprovable, struct policy_input *in, struct decision *d)
{
	policy_eval(p, in, NULL, 0, d);
	if (d->verdict != VERDICT_NEEDS_APPROVAL || unapprovable == NULL)
		return false;
	in->effects |= EFFECT_opaque;
	policy_eval(p, in, NULL, 0, d);
	d->verdict = VERDICT_DENY; /* no policy permits opaque */
	return true;
}
