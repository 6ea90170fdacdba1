/*
 * What a sandbox says of itself, as JSON: its level, made of what the back end built and what pid 1
 * measured, its state now, its programs. Runs in the supervisor. The level is written once, when
 * pid 1 is ready and nothing foreign has run yet.
 */
#include "agent/sandbox/super_state.h"

#include <time.h>

#include "common/jcs.h"

#include "common/banned.h"

static const struct {
	enum sandbox_layer layer;
	const char *name;
} layers[] = {
    {SANDBOX_LAYER_LIMITS, "no-limits"},
    {SANDBOX_LAYER_LANDLOCK, "no-landlock"},
    {SANDBOX_LAYER_FREEZER, "no-freezer"},
    {SANDBOX_LAYER_NOTIFY, "no-notify"},
};

/* "full", or each layer that it lacks: "no-limits,no-freezer". Another back end's wall is not ours,
 * so its level begins with its name. */
static void
level_name(const char *backend, unsigned lacks, struct buf *out)
{
	if (strcmp(backend, "native") != 0)
		buf_put_z(out, backend);
	for (size_t i = 0; i < ARRAY_LEN(layers); i++)
		if ((lacks & layers[i].layer) != 0) {
			if (out->n != 0)
				buf_put_c(out, ',');
			buf_put_z(out, layers[i].name);
		}
	if (out->n == 0)
		buf_put_z(out, "full");
}

static void
limits_put(const struct sandbox_limits *l, struct buf *out)
{
	buf_printf(out,
	    "{\"cpu_percent\":%u,\"linger_s\":%u,\"memory_mib\":%u,\"open_files\":%u,"
	    "\"output_mib\":%u,\"pids\":%u,\"wall_s\":%u,\"workspace_mib\":%u}",
	    l->cpu_percent, l->linger_s, l->memory_mib, l->open_files, l->output_mib, l->pids,
	    l->wall_s, l->workspace_mib);
}

static const char *
workspace_kind(const struct super_spec *s)
{
	return s->workspace == NULL ? "private" : s->overlay ? "overlay" : "directory";
}

static void
text_put(struct buf *out, const char *z)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_str_lossy(&j, NULL, str_z(z));
}

void
super_level_make(struct super *s, struct buf *out)
{
	AUTO_BUF struct buf name = BUF(128);

	level_name(s->box.backend->name, s->box.lacks, &name);
	buf_printf(out, "{\"back_end\":\"%s\",\"level\":\"%.*s\",", s->box.backend->name,
	    STR_ARG(buf_str(&name)));
	if (s->box.level.n != 0) {
		buf_put_str(out, buf_str(&s->box.level));
		buf_put_c(out, ',');
	}
	if (s->facts[0] != '\0') {
		buf_put_z(out, s->facts);
		buf_put_c(out, ',');
	}
	buf_printf(out,
	    "\"notify\":%s,\"freezer\":%s,\"limits\":", s->box.notify >= 0 ? "true" : "false",
	    (s->box.lacks & SANDBOX_LAYER_FREEZER) == 0 ? "true" : "false");
	limits_put(&s->spec.limits, out);
	buf_printf(out, ",\"workspace\":\"%s\"", workspace_kind(&s->spec));
	if (s->spec.name != NULL) {
		buf_put_z(out, ",\"name\":");
		text_put(out, s->spec.name);
	}
	buf_put_c(out, '}');
}

static void
usage_put(struct super *s, struct jcs *j)
{
	struct backend_usage u = {0};

	if (s->box.backend->usage != NULL)
		s->box.backend->usage(&s->box, &u);
	jcs_open(j, "usage");
	jcs_int(j, "cpu_us", (int64_t)u.cpu_us);
	jcs_int(j, "disk_bytes", (int64_t)u.disk_bytes);
	jcs_bool(j, "disk_full", u.disk_full);
	jcs_int(j, "disk_max_bytes", (int64_t)u.disk_max_bytes);
	jcs_int(j, "memory_bytes", (int64_t)u.memory_bytes);
	jcs_int(j, "memory_peak_bytes", (int64_t)u.memory_peak_bytes);
	jcs_int(j, "oom_kills", (int64_t)u.oom_kills);
	jcs_int(j, "pids", (int64_t)u.pids);
	jcs_close(j);
}

static void
lists_put(struct super *s, struct jcs *j)
{
	jcs_array(j, "targets");
	for (size_t i = 0; i < s->spec.ntargets; i++) {
		const struct spec_target *t = &s->spec.targets[i];

		jcs_open(j, NULL);
		jcs_z(j, "address", t->address);
		jcs_str_lossy(j, "host", str_z(t->host));
		jcs_int(j, "port", t->port);
		jcs_close(j);
	}
	jcs_array_end(j);
}

static void
refused_put(struct super *s, struct jcs *j)
{
	AUTO_BUF struct buf rows = BUF(65536);

	super_notify_turn(s);
	if (s->refused != NULL)
		filter_counts_json(s->refused, false, &rows);
	jcs_raw(j, "refused", rows.n != 0 ? buf_str(&rows) : STR("[]"));
}

/* Its clock stands still until then. */
static void
paused_put(const struct super *s, struct jcs *j)
{
	time_t at = (time_t)(s->paused_wall_ms / 1000);
	char text[32];
	struct tm tm;

	(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &tm));
	jcs_z(j, "paused_since", text);
	jcs_z(j, "paused_time", "stands still until resume, for a day at most");
}

void
super_inspect(struct super *s, struct buf *out)
{
	AUTO_BUF struct buf limits = BUF(1024);
	int64_t left = s->deadline - super_clock(s);
	struct jcs j;

	limits_put(&s->spec.limits, &limits);
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "backend", s->box.backend->name);
	jcs_int(&j, "callers", (int64_t)super_conns_count(s));
	jcs_int(&j, "created_ms", s->created_ms);
	jcs_int(&j, "deadline_ms", super_wall_ms() + left);
	jcs_array(&j, "labels");
	for (size_t i = 0; s->spec.labels[i] != NULL; i++)
		jcs_str_lossy(&j, NULL, str_z(s->spec.labels[i]));
	jcs_array_end(&j);
	jcs_int(&j, "left_ms", left);
	jcs_raw(&j, "level", str_z(s->level));
	jcs_raw(&j, "limits", buf_str(&limits));
	jcs_int(&j, "linger_s", s->spec.limits.linger_s);
	jcs_str_lossy(&j, "name", str_z(super_spare_waits(s) ? super_spare_name(s) : s->spec.name));
	if (s->state == SUPER_PAUSED)
		paused_put(s, &j);
	jcs_int(&j, "procs", (int64_t)super_execs_alive(s));
	refused_put(s, &j);
	jcs_z(&j, "state",
	    super_spare_waits(s)       ? "spare"
	    : s->state == SUPER_PAUSED ? "paused"
				       : "running");
	lists_put(s, &j);
	usage_put(s, &j);
	jcs_z(&j, "workspace", s->spec.workspace != NULL ? s->spec.workspace : "");
	jcs_close(&j);
}

/* Oldest first: the list has them the other way round. */
static struct super_exec *
before(struct super *s, const struct super_exec *x)
{
	struct super_exec *p = s->execs;

	while (p != NULL && p->next != x)
		p = p->next;
	return p;
}

void
super_procs(struct super *s, struct buf *out)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_array(&j, NULL);
	for (struct super_exec *x = before(s, NULL); x != NULL; x = before(s, x)) {
		if (x->state == SUPER_ASKED || (x->flags & INSIDE_HELPER) != 0)
			continue;
		jcs_open(&j, NULL);
		jcs_raw(&j, "argv", str_z(x->argv));
		if (x->state == SUPER_ENDED)
			jcs_z(&j, "cause", sandbox_cause_name(x->cause));
		if (x->left)
			jcs_bool(&j, "left", true);
		jcs_int(&j, "output", (int64_t)x->total);
		jcs_int(&j, "proc", x->proc);
		jcs_bool(&j, "spawned", x->spawned);
		jcs_int(&j, "started_ms", x->started_ms);
		jcs_z(&j, "state", x->state == SUPER_ENDED ? "ended" : "running");
		if (x->state == SUPER_ENDED)
			jcs_int(&j, "value", x->value);
		jcs_close(&j);
	}
	jcs_array_end(&j);
}
