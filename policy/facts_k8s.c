/*
 * Bodies of Kubernetes requests to facts: objects, patches, DeleteOptions. Runs in cofferdam-parser
 * alone, on bytes that the agent chose. Only JSON is read; whatever else the server would take is
 * refused, since YAML and protobuf have readers that differ.
 */
#include "policy/facts.h"

#include "common/jcs.h"

#include "common/banned.h"

#define KIND_MAX ((size_t)128)

struct found {
	bool dry, finalizers, patch, priv, has_replicas;
	int64_t replicas;
};

/* --- anywhere in it ---------------------------------------------------------------------- */

static bool
is_listed(const char *const *list, size_t n, struct str s)
{
	for (size_t i = 0; i < n; i++)
		if (str_eqz(s, list[i]))
			return true;
	return false;
}

/* What a container has of its host by this member. */
static bool
gives_host(struct str key, const struct json *v)
{
	static const char *const flags[] = {"privileged", "hostPID", "hostIPC", "hostNetwork"};

	if (str_eqz(key, "hostPath"))
		return json_type(v) != JSON_NULL;
	return is_listed(flags, ARRAY_LEN(flags), key) &&
	       !(json_type(v) == JSON_NULL || (json_type(v) == JSON_BOOL && !json_bool(v)));
}

/* Nesting is bounded by the reader of JSON. */
static void
walk(const struct json *v, struct found *f)
{
	bool object = json_type(v) == JSON_OBJECT;

	if (!object && json_type(v) != JSON_ARRAY)
		return;
	for (size_t i = 0; i < json_count(v); i++) {
		if (object) {
			struct str key = json_key(v, i);

			f->priv = f->priv || gives_host(key, json_at(v, i));
			f->patch = f->patch || str_eqz(key, "$patch");
			f->finalizers =
			    f->finalizers || str_eqz(key, "$deleteFromPrimitiveList/finalizers");
		}
		walk(json_at(v, i), f);
	}
}

/* --- at their places --------------------------------------------------------------------- */

static void
replicas_set(const struct json *v, struct found *f)
{
	int64_t n = json_type(v) == JSON_INT ? json_int(v) : 0;

	if (v == NULL || json_type(v) == JSON_NULL)
		return; /* the default, which is 1 */
	f->replicas = !f->has_replicas || n < f->replicas ? n : f->replicas;
	f->has_replicas = true;
}

/* Without those that are there already, an object may go that waits for somebody. */
static void
finalizers_set(const struct json *v, bool replaces, struct found *f)
{
	if (v == NULL)
		return;
	f->finalizers =
	    f->finalizers || replaces || json_type(v) != JSON_ARRAY || json_count(v) == 0;
}

static void
read_metadata(const struct json *v, bool replaces, struct found *f)
{
	if (json_type(v) == JSON_OBJECT)
		finalizers_set(json_get(v, "finalizers"), replaces, f);
}

static void
read_object(const struct json *v, bool merge, struct found *f)
{
	if (json_type(v) != JSON_OBJECT)
		return;
	read_metadata(json_get(v, "metadata"), merge, f);
	if (json_type(json_get(v, "spec")) == JSON_OBJECT)
		replicas_set(json_get(json_get(v, "spec"), "replicas"), f);
}

/* --- JSON Patch (RFC 6902) --------------------------------------------------------------- */

static struct str
last_of(struct str path)
{
	struct str s = path, head;

	while (str_cut(&s, '/', &head))
		;
	return s;
}

/* False: no operation of that RFC. */
static bool
read_operation(const struct json *o, struct found *f)
{
	struct str op = json_str(json_get(o, "op")), path = json_str(json_get(o, "path"));
	const struct json *v = json_get(o, "value");
	static const char *const known[] = {"add", "copy", "move", "remove", "replace", "test"};

	if (json_type(o) != JSON_OBJECT || !is_listed(known, ARRAY_LEN(known), op) ||
	    json_type(json_get(o, "path")) != JSON_STRING)
		return false;
	if (str_eqz(op, "test"))
		return true;
	if (path.n == 0)
		read_object(v, true, f);
	else if (str_eqz(path, "/spec") && json_type(v) == JSON_OBJECT)
		replicas_set(json_get(v, "replicas"), f);
	else if (str_eqz(path, "/metadata"))
		f->finalizers = true;
	else if (str_eqz(path, "/spec/replicas") && !str_eqz(op, "remove"))
		replicas_set(v != NULL ? v : o, f); /* of copy and move: from somewhere */
	if (str_has_prefix(path, "/metadata/finalizers") && !str_eqz(op, "add"))
		f->finalizers = true;
	f->finalizers =
	    f->finalizers || (str_eqz(op, "add") && str_eqz(path, "/metadata/finalizers"));
	if (v != NULL && gives_host(last_of(path), v))
		f->priv = true;
	return true;
}

static int
read_patch(const struct json *v, struct found *f, struct err *err)
{
	for (size_t i = 0; i < json_count(v); i++)
		if (!read_operation(json_at(v, i), f))
			return err_set(err, ERR_SYNTAX, "operation %zu is none of JSON Patch", i);
	return 0;
}

/* ["All"], and nothing besides. */
static bool
is_all(const struct json *v)
{
	return json_type(v) == JSON_ARRAY && json_count(v) == 1 &&
	       str_eqz(json_str(json_at(v, 0)), "All");
}

int
facts_k8s(struct str content_type, struct str body, struct buf *ret_json, struct err *err)
{
	bool merge = memmem(content_type.n != 0 ? content_type.p : "", content_type.n,
			 "merge-patch+json", 16) != NULL &&
		     !str_has_prefix(content_type, "application/strategic");
	AUTO(json) struct json_doc *doc = NULL;
	struct found f = {.replicas = 0};
	const struct json *root;
	struct str kind;
	struct jcs j;
	int rc;

	if (body.n > FACTS_K8S_MAX)
		return err_set(err, ERR_TOO_COMPLEX, "over %zu bytes", FACTS_K8S_MAX);
	rc = json_parse_numbers(body, "body", &doc, err);
	if (rc != 0)
		return rc;
	root = json_root(doc);
	if (json_type(root) != JSON_OBJECT && json_type(root) != JSON_ARRAY)
		return err_set(err, ERR_SYNTAX, "neither an object nor a patch");
	walk(root, &f);
	if (json_type(root) == JSON_ARRAY)
		rc = read_patch(root, &f, err);
	else
		read_object(root, merge, &f);
	if (rc != 0)
		return rc;
	kind = json_str(json_get(root, "kind"));
	f.dry = (kind.n == 0 || str_eqz(kind, "DeleteOptions")) && is_all(json_get(root, "dryRun"));
	jcs_init(&j, ret_json);
	jcs_open(&j, NULL);
	jcs_open(&j, "k8s");
	jcs_bool(&j, "dry", f.dry);
	jcs_bool(&j, "finalizers", f.finalizers);
	if (kind.n != 0)
		jcs_str(&j, "kind", kind.n < KIND_MAX ? kind : STR("?"));
	jcs_bool(&j, "patch", f.patch);
	jcs_bool(&j, "priv", f.priv);
	if (f.has_replicas)
		jcs_int(&j, "replicas", f.replicas);
	jcs_close(&j);
	jcs_close(&j);
	return 0;
}
