/*
 * Actions that a case or a question has in a short form: a push's updates, an action of AWS, words
 * of Redis, a tool of MCP. Each is written as its protocol has it and read by the code that reads
 * it from a sandbox; nothing is judged from the short form itself.
 */
#include <string.h>

#include "broker/parser_ask.h"
#include "cmd/cmd_policy.h"
#include "common/hash.h"
#include "common/jcs.h"
#include "policy/effects_aws.h"
#include "policy/effects_redis.h"

#include "common/banned.h"

#define BYTES_MAX ((size_t)1 << 20)
#define COMMANDS_MAX 64
#define PATHS_MAX 1024

void
policy_kind_free(struct policy_kind *k)
{
	policy_http_free(&k->http);
}

static int
malformed(struct err *err, const char *what)
{
	return err_set(err, ERR_INVALID, "the input's %s", what);
}

/* --- git --------------------------------------------------------------------------------- */

struct push {
	struct git_seen seen[COMMANDS_MAX];
	struct str paths[PATHS_MAX];
	size_t n, npaths;
};

static void
put_line(struct buf *out, const struct buf *content)
{
	buf_printf(out, "%04zx", content->n + 4);
	buf_put_str(out, buf_str(content));
}

/* What whoever looked into the pack would say. */
static int
read_seen(const struct json *u, struct push *ret, struct err *err)
{
	const struct json *a = json_get(u, "ancestor"), *paths = json_get(u, "paths");
	struct git_seen *s = &ret->seen[ret->n];

	*s = (struct git_seen){.looked = paths != NULL, .npaths = json_count(paths)};
	if (json_type(a) == JSON_BOOL)
		s->ancestor = json_bool(a) ? GIT_FORWARD : GIT_FORCED;
	if (s->npaths > PATHS_MAX - ret->npaths)
		return malformed(err, "\"paths\" are too many");
	s->paths = &ret->paths[ret->npaths];
	for (size_t i = 0; i < s->npaths; i++)
		ret->paths[ret->npaths++] = json_str(json_at(paths, i));
	return 0;
}

static int
put_updates(
    const struct json *updates, bool options, struct push *ret, struct buf *out, struct err *err)
{
	if (json_type(updates) != JSON_ARRAY || json_count(updates) > COMMANDS_MAX)
		return malformed(err, "\"updates\" must be a list of up to 64");
	for (size_t i = 0; i < json_count(updates); i++) {
		const struct json *u = json_at(updates, i);
		AUTO_BUF struct buf line = BUF(65516);
		int rc = read_seen(u, ret, err);

		if (rc != 0)
			return rc;
		buf_printf(&line, "%.*s %.*s ", STR_ARG(policy_member_str(u, "old")),
		    STR_ARG(policy_member_str(u, "new")));
		buf_put_str(&line, policy_member_str(u, "ref"));
		if (i == 0) {
			buf_put_c(&line, '\0');
			buf_put_z(
			    &line, options ? " report-status push-options" : " report-status");
		}
		put_line(out, &line);
		ret->n++;
	}
	buf_put_z(out, "0000");
	return 0;
}

static void
put_options(const struct json *options, struct buf *out)
{
	for (size_t i = 0; i < json_count(options); i++) {
		AUTO_BUF struct buf line = BUF(65516);

		buf_put_str(&line, json_str(json_at(options, i)));
		put_line(out, &line);
	}
	if (json_count(options) != 0)
		buf_put_z(out, "0000");
}

static int
push_input(const struct policy *p, struct cmd_parser *parser, const struct json *in,
    struct policy_kind *ret, struct err *err)
{
	const struct json *options = json_get(in, "push_options");
	struct str repository = policy_member_str(in, "repository");
	static struct push push;
	AUTO_BUF struct buf body = BUF(BYTES_MAX);
	AUTO_BUF struct buf path = BUF(4096);
	struct policy_http_request q = {.target = policy_member_str(in, "target"),
	    .method = STR("POST"),
	    .content_type = STR("application/x-git-receive-pack-request"),
	    .has_body = true,
	    .seen = push.seen};
	int rc;

	push = (struct push){.n = 0};
	rc = put_updates(json_get(in, "updates"), json_count(options) != 0, &push, &body, err);
	if (rc != 0)
		return rc;
	put_options(options, &body);
	buf_put_z(&body, "PACK");
	buf_printf(&path, "/%.*s/git-receive-pack",
	    STR_ARG(repository.n != 0 ? repository : STR("repository.git")));
	q.path = buf_str(&path);
	q.body = buf_str(&body);
	q.nseen = push.n;
	rc = policy_http_input(p, parser, &q, &ret->http, err);
	ret->input = ret->http.input;
	return rc;
}

/* --- MCP --------------------------------------------------------------------------------- */

static int
tool_input(const struct policy *p, struct cmd_parser *parser, const struct json *in,
    struct policy_kind *ret, struct err *err)
{
	AUTO_BUF struct buf body = BUF(BYTES_MAX);
	struct policy_http_request q = {.target = policy_member_str(in, "target"),
	    .method = STR("POST"),
	    .path = STR("/mcp"),
	    .content_type = STR("application/json"),
	    .has_body = true};
	struct jcs j;
	int rc = 0;

	jcs_init(&j, &body);
	jcs_open(&j, NULL);
	jcs_int(&j, "id", 1);
	jcs_z(&j, "jsonrpc", "2.0");
	jcs_z(&j, "method", "tools/call");
	jcs_open(&j, "params");
	if (json_get(in, "arguments") != NULL)
		rc = jcs_value(&j, "arguments", json_get(in, "arguments"), err);
	jcs_str(&j, "name", policy_member_str(in, "tool"));
	jcs_close(&j);
	jcs_close(&j);
	q.body = buf_str(&body);
	if (rc == 0)
		rc = policy_http_input(p, parser, &q, &ret->http, err);
	ret->input = ret->http.input;
	return rc;
}

/* --- AWS, Redis -------------------------------------------------------------------------- */

static void
name_resources(struct policy_kind *k)
{
	k->input.relations = k->names;
	k->input.nrelations = resources_list(&k->resources, k->names);
}

static int
action_input(const struct json *in, struct policy_kind *ret)
{
	struct http_view v;

	effects_aws_action(policy_member_str(in, "action"), &v);
	ret->input.effects = v.effects;
	ret->resources = v.resources;
	name_resources(ret);
	return 0;
}

static int
put_command(const struct json *words, struct buf *out, struct err *err)
{
	if (json_type(words) != JSON_ARRAY || json_count(words) == 0)
		return malformed(err, "command must be a list of words");
	buf_printf(out, "*%zu\r\n", json_count(words));
	for (size_t i = 0; i < json_count(words); i++) {
		struct str w = json_str(json_at(words, i));

		buf_printf(out, "$%zu\r\n", w.n);
		buf_put_str(out, w);
		buf_put_z(out, "\r\n");
	}
	return 0;
}

static int
command_input(
    struct cmd_parser *parser, const struct json *in, struct policy_kind *ret, struct err *err)
{
	const struct json *one = json_get(in, "command"), *many = json_get(in, "commands");
	AUTO_ANSWER struct cmd_answer a = {.parsed = false};
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf bytes = BUF(BYTES_MAX);
	struct redis_view v = {.effects = EFFECT_invalid, .statements = 1};
	int rc = one != NULL ? put_command(one, &bytes, err) : 0;

	for (size_t i = 0; rc == 0 && one == NULL && i < json_count(many); i++)
		rc = put_command(json_at(many, i), &bytes, err);
	if (rc == 0 && bytes.n <= FACTS_REDIS_MAX)
		rc = cmd_parser_text(parser, PARSER_DIALECT_REDIS, buf_str(&bytes), &a, err);
	if (rc == 0 && a.parsed)
		rc = json_parse(buf_str(&a.text), "facts", &doc, err);
	if (rc != 0)
		return rc;
	if (a.parsed)
		effects_redis(json_root(doc), &v);
	ret->input.effects = v.effects;
	ret->input.statements = v.statements;
	ret->resources = v.resources;
	name_resources(ret);
	return 0;
}

/* --- the whole --------------------------------------------------------------------------- */

int
policy_kind_input(const struct policy *p, struct cmd_parser *parser, const struct json *in,
    struct policy_kind *ret, struct err *err)
{
	struct str id = policy_member_str(in, "target");
	const struct policy_target *t = policy_target(p, id);
	enum target_kind kind = t != NULL ? t->kind : 0;

	ret->input = policy_input_for(p, id);
	policy_input_uncounted(p, &ret->input);
	if (kind == TARGET_GIT && json_get(in, "updates") != NULL)
		return push_input(p, parser, in, ret, err);
	if (kind == TARGET_MCP && json_get(in, "tool") != NULL)
		return tool_input(p, parser, in, ret, err);
	if (kind == TARGET_AWS && json_get(in, "action") != NULL)
		return action_input(in, ret);
	if (kind == TARGET_REDIS &&
	    (json_get(in, "command") != NULL || json_get(in, "commands") != NULL))
		return command_input(parser, in, ret, err);
	return err_set(err, ERR_NOT_FOUND,
	    "target %.*s takes no such input: git takes updates, mcp tool, aws action, redis "
	    "command or commands",
	    STR_ARG(id));
}
