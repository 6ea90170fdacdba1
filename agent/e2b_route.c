/*
 * From a request to its handler (process: a worker of cofferdam-sandboxd). The control plane wants
 * an API key, which the hub knows; the data plane an access token of the one sandbox that is meant.
 * A path that stands in no row is not served.
 */
#include "agent/e2b.h"

#include <time.h>

#include "common/xalloc.h"

#include "common/banned.h"

enum plane { CONTROL, CALL, STREAM, PLAIN, OPEN };

static const struct {
	const char *method, *path; /* '*' is one part, which is q->id */
	enum plane plane;
	e2b_fn *fn;
} rows[] = {
    {"POST", "/sandboxes", CONTROL, e2b_on_create},
    {"GET", "/sandboxes", CONTROL, e2b_on_list},
    {"GET", "/sandboxes/*", CONTROL, e2b_on_get},
    {"DELETE", "/sandboxes/*", CONTROL, e2b_on_delete},
    {"POST", "/sandboxes/*/timeout", CONTROL, e2b_on_timeout},
    {"POST", "/sandboxes/*/refreshes", CONTROL, e2b_on_refreshes},
    {"POST", "/sandboxes/*/pause", CONTROL, e2b_on_pause},
    {"POST", "/sandboxes/*/resume", CONTROL, e2b_on_connect},
    {"POST", "/sandboxes/*/connect", CONTROL, e2b_on_connect},
    {"PUT", "/sandboxes/*/network", CONTROL, e2b_on_network},
    {"GET", "/sandboxes/*/metrics", CONTROL, e2b_on_metrics},
    {"POST", "/process.Process/Start", STREAM, e2b_on_start},
    {"POST", "/process.Process/Connect", STREAM, e2b_on_attach},
    {"POST", "/process.Process/StreamInput", STREAM, e2b_on_stream_input},
    {"POST", "/process.Process/List", CALL, e2b_on_processes},
    {"POST", "/process.Process/SendInput", CALL, e2b_on_input},
    {"POST", "/process.Process/SendSignal", CALL, e2b_on_signal},
    {"POST", "/process.Process/CloseStdin", CALL, e2b_on_close_stdin},
    {"POST", "/process.Process/Update", CALL, e2b_on_update},
    {"POST", "/filesystem.Filesystem/Stat", CALL, e2b_on_stat},
    {"POST", "/filesystem.Filesystem/ListDir", CALL, e2b_on_list_dir},
    {"POST", "/filesystem.Filesystem/MakeDir", CALL, e2b_on_make_dir},
    {"POST", "/filesystem.Filesystem/Move", CALL, e2b_on_move},
    {"POST", "/filesystem.Filesystem/Remove", CALL, e2b_on_remove},
    {"POST", "/filesystem.Filesystem/WatchDir", STREAM, e2b_on_watch},
    {"GET", "/files", PLAIN, e2b_on_file_get},
    {"POST", "/files", PLAIN, e2b_on_file_post},
    {"GET", "/health", OPEN, e2b_on_health},
    {"POST", "/execute", PLAIN, e2b_on_execute},
    {"GET", "/contexts", PLAIN, e2b_on_contexts},
    {"POST", "/contexts", PLAIN, e2b_on_context_new},
    {"POST", "/contexts/*/restart", PLAIN, e2b_on_context_restart},
    {"DELETE", "/contexts/*", PLAIN, e2b_on_context_remove},
};

static struct str
part_take(struct str *rest)
{
	struct str part;

	if (!str_cut(rest, '/', &part)) {
		part = *rest;
		*rest = STR_NONE;
	}
	return part;
}

static bool
path_fits(const char *pattern, struct str path, struct str *ret_id)
{
	struct str want = str_z(pattern);

	while (want.n != 0 && path.n != 0) {
		struct str w = part_take(&want), p = part_take(&path);

		if (str_eqz(w, "*") && p.n != 0)
			*ret_id = p;
		else if (!str_eq(w, p))
			return false;
	}
	return want.n == 0 && path.n == 0;
}

/* --- whose request it is -------------------------------------------------------------------- */

/* E2b-Sandbox-Id, or a host of the form PORT-ID.DOMAIN. */
static struct str
sandbox_id(struct e2b_request *q)
{
	struct str id = serve_field_get(q->conn, "E2b-Sandbox-Id"), host = str_z(q->http->host),
		   port;
	uint64_t n;

	if (id.n != 0)
		return id;
	if (!str_cut(&host, '-', &port) || !str_to_u64(port, 65535, &n) ||
	    !str_cut(&host, '.', &id))
		return STR_NONE;
	return id;
}

/* What says that a sandbox is not there: SDKs make a TimeoutError of it. */
static void
gone(struct e2b_request *q, struct str id, const char *words)
{
	AUTO_BUF struct buf b = BUF(4096);
	struct jcs j;

	if (id.n > 64)
		id.n = 64;
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_int(&j, "code", 502);
	jcs_z(&j, "message", words);
	jcs_str_lossy(&j, "sandboxId", id);
	jcs_close(&j);
	e2b_answer_json(q, 502, &b);
}

/* A URL that was signed with the token; the text is PATH:OPERATION:USER. */
static int
signed_find(struct e2b_request *q, struct str id, struct err *err)
{
	AUTO_BUF struct buf text = BUF(8192), user = BUF(512), expires = BUF(32), sum = BUF(256);

	if (!e2b_query(q, "signature", &sum) || !str_has_prefix(buf_str(&sum), "v1_"))
		return err_set(
		    err, ERR_UNAUTHORISED, "the access token is missing, or not this sandbox's");
	(void)e2b_query(q, "path", &text);
	(void)e2b_query(q, "username", &user);
	(void)e2b_query(q, "signature_expiration", &expires);
	buf_put_z(&text, str_eqz(q->http->method, "GET") ? ":read:" : ":write:");
	buf_put_str(&text, buf_str(&user));
	buf_drop(&sum, 3);
	return e2b_hub_signed(
	    q->config, id, buf_str(&text), buf_str(&expires), buf_str(&sum), &q->entry, err);
}

static int
entry_find(struct e2b_request *q, struct str id, struct err *err)
{
	struct str token = serve_field_get(q->conn, "X-Access-Token");

	if (token.n == 0)
		token = serve_field_get(q->conn, "E2B-Traffic-Access-Token");
	if (token.n == 0 && str_eqz(q->http->path, "/files"))
		return signed_find(q, id, err);
	return e2b_hub_token(q->config, id, token, &q->entry, err);
}

/* A paused sandbox is not there for the data plane, unless traffic was said to wake it. */
static int
awake(struct e2b_request *q, struct err *err)
{
	AUTO_BUF struct buf b = BUF(E2B_JSON_MAX);
	AUTO(json) struct json_doc *d = NULL;
	int rc = keeper_state(q->keeper, &b, err);

	if (rc == 0)
		rc = json_parse(buf_str(&b), "state", &d, err);
	if (rc != 0 || !json_bool(json_get(json_root(d), "paused")))
		return rc;
	if (!q->entry.resumes)
		return err_set(err, ERR_NOT_FOUND, "The sandbox is paused: connect to it first");
	rc = keeper_resume(q->keeper, q->entry.timeout_s, err);
	return rc == ERR_STATE ? 0 : rc;
}

static bool
data_plane(struct e2b_request *q, enum plane plane)
{
	struct str id = sandbox_id(q);
	struct err e = {0};
	int rc = entry_find(q, id, &e);

	if (rc == 0 && ((rc = keeper_open(q->entry.id, &q->keeper, &e)) == 0))
		rc = awake(q, &e);
	if (rc == 0)
		return true;
	if (rc == ERR_NOT_FOUND)
		gone(q, id, e.msg);
	else if (plane == CALL || plane == STREAM)
		e2b_connect_fail(q, &e);
	else
		e2b_answer_error(q, &e);
	return false;
}

static void
serve_row(struct e2b_request *q, enum plane plane, e2b_fn *fn)
{
	q->key = serve_field_get(q->conn, "X-API-KEY");
	/* The server's own health is asked for without a sandbox. */
	if (plane == OPEN && sandbox_id(q).n == 0)
		e2b_answer_none(q);
	else if (plane == CONTROL || data_plane(q, plane))
		fn(q);
	keeper_close(q->keeper);
	e2b_entry_free(&q->entry);
}

void
e2b_serve(void *arg, struct serve_conn *c)
{
	static bool left;
	struct e2b_config *config = arg;
	struct e2b_request q = {.config = config, .conn = c, .http = serve_request(c)};
	struct str path = q.http->path;
	bool known = false;

	if (!left)
		e2b_hub_leave(config->own_hub);
	left = true;
	if (str_has_prefix(path, "/v2/"))
		path = str_mem(path.p + 3, path.n - 3);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!path_fits(rows[i].path, path, &q.id))
			continue;
		known = true;
		if (!str_eqz(q.http->method, rows[i].method))
			continue;
		serve_row(&q, rows[i].plane, rows[i].fn);
		return;
	}
	if (known)
		e2b_answer_fail(&q, 405, "this method is not served here");
	else if (str_has_prefix(path, "/filesystem.") || str_has_prefix(path, "/process."))
		e2b_connect_fail(
		    &q, &(struct err){.code = ERR_UNSUPPORTED,
			    .msg = "this call is not served here: docs/e2b.md lists what is"});
	else
		e2b_answer_fail(&q, 404, "not served here: docs/e2b.md lists what is");
}
