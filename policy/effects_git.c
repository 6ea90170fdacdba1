/*
 * Pushes and fetches to effects. Linked into core and the command line; pure. A list of commands
 * shows which refs change, not what is lost by it: an update is a loss until somebody has looked
 * into its objects. Must never take a ref for another than the server would.
 */
#include "policy/effects_git.h"

#include "policy/webform.h"

#include "common/banned.h"

#define BULK_REFS 5 /* more at once is a collection */
#define ID_MAX 64   /* hex digits: SHA-256 */

/* --- the request ------------------------------------------------------------------------- */

/* "/a/b.git/info/refs" less its end is the repository. */
static bool
split(struct str path, const char *end, struct str *ret)
{
	if (!str_has_suffix(path, end) || path.n <= strlen(end) + 1)
		return false;
	*ret = str_mem(path.p + 1, path.n - strlen(end) - 1);
	return true;
}

static bool
type_is(const struct http_request *r, const char *type)
{
	const struct http_field *f = http_field_find(r->fields, r->nfields, "Content-Type");

	return f != NULL && str_ieqz(f->value, type);
}

static bool
is_coded(const struct http_request *r)
{
	const struct http_field *f = http_field_find(r->fields, r->nfields, "Content-Encoding");

	return f != NULL && !str_ieqz(f->value, "identity");
}

static bool
has_body(const struct http_request *r)
{
	return r->body != HTTP_BODY_NONE && !(r->body == HTTP_BODY_LENGTH && r->length == 0);
}

static bool
in_list(const struct policy_list *l, struct str s)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_glob(l->v[i], s))
			return true;
	return false;
}

static void
repository(const struct policy_target *t, struct str repo, struct http_view *v)
{
	const struct policy_list *l = &t->lists[TARGET_LIST_REPOSITORIES];
	AUTO_BUF struct buf path = BUF(HTTP_TARGET_MAX + 1);

	RESOURCES_ADD(&v->resources, repo, STR(":*"));
	buf_put_c(&path, '/');
	buf_put_str(&path, repo);
	if (l->n != 0 && !in_list(l, buf_str(&path)))
		effects_http_doubt(v, EFFECT_opaque, "it is none of the target's repositories");
}

static void
discover(const struct http_request *r, struct http_view *v)
{
	if (r->has_query && (str_eqz(r->query, "service=git-upload-pack") ||
				str_eqz(r->query, "service=git-receive-pack")))
		v->effects = EFFECT_read;
	else
		effects_http_doubt(v, EFFECT_opaque, "it asks for no service of smart HTTP");
	if (has_body(r))
		effects_http_doubt(v, EFFECT_opaque, "a body where the method has none");
}

static void
receive(const struct http_request *r, struct http_view *v)
{
	v->effects = EFFECT_opaque; /* until its commands are judged */
	if (!type_is(r, "application/x-git-receive-pack-request"))
		effects_http_doubt(v, EFFECT_opaque, "a push of another Content-Type");
	else if (is_coded(r))
		effects_http_doubt(v, EFFECT_opaque, "a push in a content coding");
	else if (!has_body(r))
		effects_http_doubt(v, EFFECT_opaque, "a push without commands");
	else if (v->fault == NULL) {
		v->api = HTTP_API_GIT;
		v->body_wanted = v->start_wanted = v->anew = true;
	}
}

void
effects_git(const struct policy_target *t, const struct http_request *r, struct http_view *v)
{
	bool get = str_eqz(r->method, "GET"), post = str_eqz(r->method, "POST");
	struct str repo;

	v->effects = 0;
	if (get && split(r->path, "/info/refs", &repo)) {
		discover(r, v);
	} else if (post && split(r->path, "/git-upload-pack", &repo)) {
		v->effects = EFFECT_read;
		if (!type_is(r, "application/x-git-upload-pack-request"))
			effects_http_doubt(v, EFFECT_opaque, "a fetch of another Content-Type");
	} else if (post && split(r->path, "/git-receive-pack", &repo)) {
		receive(r, v);
	} else {
		effects_http_doubt(v, EFFECT_opaque, "it is no request of git over smart HTTP");
		return;
	}
	repository(t, repo, v);
}

/* --- one command ------------------------------------------------------------------------- */

/* git-check-ref-format(1). */
static bool
ref_is_good(struct str s)
{
	struct str rest = s, part;
	bool more = true;

	if (!str_is_utf8(s) || str_has_suffix(s, ".") || memmem(s.p, s.n, "..", 2) != NULL ||
	    memmem(s.p, s.n, "@{", 2) != NULL)
		return false;
	for (size_t i = 0; i < s.n; i++)
		if ((uint8_t)s.p[i] <= ' ' || s.p[i] == 0x7f || strchr("~^:?*[\\", s.p[i]) != NULL)
			return false;
	while (more) {
		more = str_cut(&rest, '/', &part);
		if (!more)
			part = rest;
		if (part.n == 0 || part.p[0] == '.' || str_has_suffix(part, ".lock"))
			return false;
	}
	return true;
}

/* 0: no object id; 1: zeros; 2: an object's. */
static int
id_kind(struct str s)
{
	bool zero = true;

	if (s.n != 40 && s.n != ID_MAX)
		return 0;
	for (size_t i = 0; i < s.n; i++) {
		if (!(s.p[i] >= '0' && s.p[i] <= '9') && !(s.p[i] >= 'a' && s.p[i] <= 'f'))
			return 0;
		zero = zero && s.p[i] == '0';
	}
	return zero ? 1 : 2;
}

/* Patterns name refs, with "REPOSITORY:" in front those of one. */
static bool
ref_listed(const struct policy_list *l, struct str repo, struct str ref)
{
	AUTO_BUF struct buf full = BUF(HTTP_TARGET_MAX + 65536);

	buf_put_str(&full, repo);
	buf_put_c(&full, ':');
	buf_put_str(&full, ref);
	for (size_t i = 0; i < l->n; i++) {
		bool named = memchr(l->v[i].p, ':', l->v[i].n) != NULL;

		if (str_glob(l->v[i], named ? buf_str(&full) : ref))
			return true;
	}
	return false;
}

/* What a repository's machines run, and who may say so. */
static bool
is_ci(struct str path)
{
	static const char *const names[] = {".github/workflows/*", ".github/actions/*",
	    ".gitea/workflows/*", ".forgejo/workflows/*", "*.gitlab-ci.yml", ".gitlab/ci/*",
	    ".circleci/*", ".buildkite/*", ".woodpecker/*", ".woodpecker.y*ml", ".drone.y*ml",
	    ".travis.yml", "appveyor.yml", ".appveyor.yml", "jenkinsfile", "*/jenkinsfile",
	    "azure-pipelines.y*ml", ".azure-pipelines/*", "bitbucket-pipelines.yml",
	    "cloudbuild.y*ml", "buildspec.y*ml", ".gitmodules", "codeowners", "*/codeowners"};
	AUTO_BUF struct buf low = BUF(65536);

	for (size_t i = 0; i < path.n; i++) {
		char c = path.p[i];

		buf_put_c(&low, c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c);
	}
	if (buf_over(&low))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_glob(str_z(names[i]), buf_str(&low)))
			return true;
	return false;
}

struct command {
	struct str old, new, ref;
};

static uint32_t
update_effects(const struct policy_target *t, const struct command *c, struct str repo,
    enum git_ancestor ancestor)
{
	bool tag = str_has_prefix(c->ref, "refs/tags/");

	if (id_kind(c->new) == 1)
		return ref_listed(&t->lists[TARGET_LIST_PROTECTED], repo, c->ref) ? EFFECT_drop
										  : EFFECT_delete;
	if (id_kind(c->old) == 1)
		return EFFECT_write;
	return !tag && ancestor == GIT_FORWARD ? EFFECT_write : EFFECT_overwrite;
}

static void
judge_command(const struct policy_target *t, const struct command *c, struct str repo,
    const struct git_seen *seen, struct http_view *v)
{
	static const struct git_seen nothing;
	const struct policy_list *refs = &t->lists[TARGET_LIST_REFS];
	const struct git_seen *s = seen != NULL ? seen : &nothing;
	int old = id_kind(c->old), new = id_kind(c->new);

	if (!ref_is_good(c->ref) || old == 0 || new == 0 || c->old.n != c->new.n ||
	    (old == 1 && new == 1)) {
		effects_http_doubt(v, EFFECT_invalid, "a command of the push is malformed");
		return;
	}
	v->effects |= update_effects(t, c, repo, s->ancestor);
	RESOURCES_ADD(&v->resources, repo, STR(":"), c->ref);
	if (!str_has_prefix(c->ref, "refs/heads/") && !str_has_prefix(c->ref, "refs/tags/"))
		effects_http_doubt(v, EFFECT_opaque, "a ref that is neither a branch nor a tag");
	else if (refs->n != 0 && !ref_listed(refs, repo, c->ref))
		effects_http_doubt(v, EFFECT_opaque, "a ref that is none of the target's");
	for (size_t i = 0; i < s->npaths; i++)
		if (is_ci(s->paths[i]))
			effects_http_doubt(
			    v, EFFECT_priv, "it changes what the repository's machines run");
	if (t->quarantine && new == 2 && !s->looked)
		effects_http_doubt(
		    v, EFFECT_opaque, "its objects were not looked into, as the target asks");
}

/* --- the list ---------------------------------------------------------------------------- */

static bool
read_command(const struct json *v, struct command *ret)
{
	*ret = (struct command){json_str(json_get(v, "old")), json_str(json_get(v, "new")),
	    json_str(json_get(v, "ref"))};
	return json_type(v) == JSON_OBJECT && json_count(v) == 3 && ret->ref.n != 0;
}

static bool
pack_valid(const struct json *p)
{
	return json_type(p) == JSON_OBJECT && json_count(p) == 2 &&
	       json_type(json_get(p, "commits")) == JSON_INT &&
	       json_type(json_get(p, "exact")) == JSON_BOOL;
}

static bool
facts_valid(const struct json *facts, const struct json *g)
{
	const struct json *pack = json_get(g, "pack"); /* may be absent */

	return json_type(facts) == JSON_OBJECT && json_count(facts) == 1 &&
	       json_count(g) == (pack != NULL ? 6 : 5) && (pack == NULL || pack_valid(pack)) &&
	       json_type(json_get(g, "commands")) == JSON_ARRAY &&
	       json_type(json_get(g, "end")) == JSON_INT &&
	       json_type(json_get(g, "options")) == JSON_ARRAY &&
	       json_type(json_get(g, "report")) == JSON_BOOL &&
	       json_type(json_get(g, "sideband")) == JSON_BOOL;
}

/* Two commands for one ref: which of them counts is the server's secret. */
static bool
comes_again(const struct json *commands, size_t i)
{
	struct str ref = json_str(json_get(json_at(commands, i), "ref"));

	for (size_t k = 0; k < i; k++)
		if (str_eq(ref, json_str(json_get(json_at(commands, k), "ref"))))
			return true;
	return false;
}

static void
judge_options(const struct policy_target *t, const struct json *options, struct http_view *v)
{
	for (size_t i = 0; i < json_count(options); i++)
		if (!in_list(&t->lists[TARGET_LIST_PUSH_OPTIONS], json_str(json_at(options, i))))
			effects_http_doubt(
			    v, EFFECT_opaque, "a push option that is none of the target's");
}

void
effects_git_push(const struct policy_target *t, const struct json *facts,
    const struct git_seen *seen, size_t nseen, struct http_view *v)
{
	const struct json *g = json_get(facts, "git"), *commands = json_get(g, "commands");
	struct resources was = v->resources;
	struct str repo = STR("");
	struct command c;

	v->effects &= ~(uint32_t)EFFECT_opaque;
	if (!facts_valid(facts, g)) {
		effects_http_doubt(
		    v, EFFECT_opaque, "what it asks for was not told in a form that is known");
		return;
	}
	if (was.n != 0)
		repo = str_mem(was.text + was.at[0], (size_t)was.len[0] - 2);
	if (json_count(commands) == 0)
		v->effects |= EFFECT_read; /* what git sends first, to see whether it may */
	else
		v->resources = (struct resources){.n = 0};
	for (size_t i = 0; i < json_count(commands); i++) {
		if (!read_command(json_at(commands, i), &c) || comes_again(commands, i))
			effects_http_doubt(v, EFFECT_invalid, "a command of the push is malformed");
		else
			judge_command(t, &c, repo, i < nseen ? &seen[i] : NULL, v);
	}
	if (json_count(commands) > BULK_REFS)
		v->effects |= EFFECT_bulk;
	judge_options(t, json_get(g, "options"), v);
	if (v->resources.over)
		effects_http_doubt(v, EFFECT_opaque, "it names more than can be judged at once");
}
