/*
 * The objects within an event of OCSF. Runs in the command line. Each keeps to what the schema
 * requires of it: a name or an id in each entity, an operation in each api.
 */
#include "audit/export_ocsf.h"

#include "common/banned.h"

struct str
ocsf_text(const struct export *e, const char *a, const char *b)
{
	struct str s = canon_text(export_at(e->data, a));

	return s.n != 0 || b == NULL ? s : canon_text(export_at(e->data, b));
}

static struct str
owner_of(const struct export *e)
{
	struct str s = ocsf_text(e, "owner", "request.input.owner");

	return s.n != 0 ? s : ocsf_text(e, "person", "by");
}

/* The person the run belongs to, or who did it; the run; the agent as it calls itself. */
void
ocsf_actor(struct ocsf *p)
{
	struct str owner = owner_of(p->e);
	struct str agent = ocsf_text(p->e, "request.input.agent", "agent");

	jcs_open(&p->j, "actor");
	export_text(&p->j, "app_name", agent.n != 0 ? agent : STR("cofferdam"));
	if (p->e->r->run.n != 0) {
		jcs_open(&p->j, "session");
		jcs_str(&p->j, "uid", p->e->r->run);
		jcs_close(&p->j);
	}
	if (owner.n != 0) {
		jcs_open(&p->j, "user");
		export_text(&p->j, "name", owner);
		jcs_close(&p->j);
	}
	jcs_close(&p->j);
}

static void
put_named(struct ocsf *p, const char *key, const char *member, struct str value)
{
	jcs_open(&p->j, key);
	export_text(&p->j, member, value);
	jcs_close(&p->j);
}

void
ocsf_ai_agent(struct ocsf *p)
{
	struct str agent = ocsf_text(p->e, "request.input.agent", "agent");

	if (p->e->r->run.n == 0 || agent.n == 0 || p->k.class == OCSF_BASE)
		return;
	jcs_open(&p->j, "ai_agent");
	jcs_str(&p->j, "instance_uid", p->e->r->run);
	export_text(&p->j, "name", agent);
	jcs_close(&p->j);
}

void
ocsf_api(struct ocsf *p)
{
	struct str op = ocsf_text(p->e, "request.operation", "method"),
		   service = ocsf_text(p->e, "request.http.authority", "request.target");

	if (p->k.class != OCSF_API)
		return;
	jcs_open(&p->j, "api");
	export_text(&p->j, "operation", op.n != 0 ? op : p->e->r->type);
	if (service.n != 0)
		put_named(p, "service", "name", service);
	jcs_close(&p->j);
}

void
ocsf_entity(struct ocsf *p)
{
	struct str id = ocsf_text(p->e, "id", "policy");

	if (id.n == 0)
		id = ocsf_text(p->e, "action", "subject");
	if (id.n == 0)
		id = p->e->r->type;
	jcs_open(&p->j, "entity");
	jcs_z(&p->j, "type", p->k.other);
	jcs_int(&p->j, "type_id", str_has_prefix(p->e->r->type, "policy.") ? 5 : OCSF_OTHER);
	export_text(&p->j, "uid", id);
	jcs_close(&p->j);
}

void
ocsf_http_request(struct ocsf *p)
{
	const struct export *e = p->e;
	struct str path = canon_text(export_at(e->data, "request.http.path"));

	if (p->k.class != OCSF_API || export_at(e->data, "request.http") == NULL)
		return;
	jcs_open(&p->j, "http_request");
	export_text(&p->j, "http_method", ocsf_text(e, "request.operation", NULL));
	if (e->o->text && path.n != 0) {
		jcs_open(&p->j, "url");
		export_text(&p->j, "hostname", ocsf_text(e, "request.http.authority", NULL));
		export_text(&p->j, "path", path);
		export_text(&p->j, "scheme", ocsf_text(e, "request.http.scheme", NULL));
		jcs_close(&p->j);
	}
	jcs_close(&p->j);
}

void
ocsf_metadata(struct ocsf *p)
{
	const struct record *r = p->e->r;
	struct str about = ocsf_text(p->e, "action", "id");
	AUTO_BUF struct buf id = BUF(EXPORT_ID_MAX);

	export_id(p->e, &id);
	jcs_open(&p->j, "metadata");
	if (about.n != 0)
		export_text(&p->j, "correlation_uid", about);
	jcs_str(&p->j, "event_code", r->type);
	jcs_str(&p->j, "log_name", p->e->o->origin);
	jcs_z(&p->j, "log_provider", "cofferdam");
	jcs_str(&p->j, "original_time", r->time);
	jcs_open(&p->j, "product");
	jcs_z(&p->j, "name", "Cofferdam");
	jcs_z(&p->j, "vendor_name", "Cofferdam");
	jcs_close(&p->j);
	jcs_array(&p->j, "profiles");
	if (p->k.class != OCSF_BASE)
		jcs_z(&p->j, NULL, "ai_operation");
	jcs_z(&p->j, NULL, "security_control");
	jcs_array_end(&p->j);
	jcs_int(&p->j, "sequence", (int64_t)r->seq);
	jcs_str(&p->j, "uid", buf_str(&id));
	jcs_z(&p->j, "version", OCSF_VERSION);
	jcs_close(&p->j);
}

/* The rule that decided and the digest of the policy it stands in. */
void
ocsf_policy(struct ocsf *p)
{
	const struct canon_node *rules = export_at(p->e->data, "decision.rules");
	struct str digest = ocsf_text(p->e, "decision.policy", NULL);
	struct str rule = canon_count(rules) != 0 ? canon_text(canon_first(rules)) : STR("");

	if (digest.n == 0)
		return;
	jcs_open(&p->j, "policy");
	if (rule.n != 0)
		export_text(&p->j, "name", rule);
	export_text(&p->j, "uid", digest);
	jcs_close(&p->j);
}

/* Which targets the run was given. */
void
ocsf_privileges(struct ocsf *p)
{
	const struct canon_node *list = export_at(p->e->data, "targets"), *at = canon_first(list);
	size_t n = canon_count(list);

	jcs_array(&p->j, "privileges");
	for (size_t i = 0; i < n && i < EXPORT_LIST_MAX; i++) {
		struct str name = canon_text(export_at(at, "target")),
			   kind = canon_text(export_at(at, "kind"));

		export_text(&p->j, NULL, name.n != 0 ? name : kind);
		if (i + 1 < n)
			at = canon_behind(at);
	}
	jcs_array_end(&p->j);
}

/* SHA-256(0x00 || BODY), the leaf of the log's tree. */
void
ocsf_hash(struct ocsf *p)
{
	jcs_open(&p->j, "raw_data_hash");
	jcs_int(&p->j, "algorithm_id", 3);
	jcs_int(&p->j, "encoding_id", 1);
	jcs_int(&p->j, "serialization_id", 2);
	jcs_hex(&p->j, "value", p->e->leaf->b, HASH_LEN);
	jcs_close(&p->j);
}
