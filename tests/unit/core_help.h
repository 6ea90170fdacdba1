/*
 * A core with fake peers at the other ends of its wires: front, upstream and agent speak only
 * when a test says so; the writer acknowledges and the parser classifies by themselves,
 * unless held. What core said is kept, to be looked at.
 */
#ifndef TESTS_UNIT_CORE_HELP_H
#define TESTS_UNIT_CORE_HELP_H

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "broker/core_act.h"
#include "broker/core_approve.h"
#include "broker/core_boot.h"
#include "broker/core_cred.h"
#include "broker/core_login.h"
#include "broker/core_peer.h"
#include "broker/core_pg.h"
#include "broker/core_plan.h"
#include "broker/core_run.h"
#include "broker/core_sign.h"
#include "common/log.h"
#include "common/pgwire.h"
#include "common/xalloc.h"
#include "policy/facts.h"

#define SAID_MAX 512

struct said { /* one message of core */
	uint16_t type;
	struct buf body;
	int fd; /* that came with it; -1 */
};
struct end { /* the test's end of a wire */
	int fd;
	enum ipc_role role;
	size_t n, read;
	struct said said[SAID_MAX];
};
struct record {
	char type[32];
	char *data;
	struct buf frame; /* the sealed blob that came with it */
	uint8_t flags;
	uint64_t ticket;
};
struct person {
	uint8_t pub[32], sec[64];
	char line[128];
};

struct world {
	struct loop *loop;
	struct core *c;
	struct end front, upstream, writer, parser, agent, cli;
	struct core_run *run;
	char dir[64];
	int dirfd;
	bool hold_writer, hold_parser;
	size_t nrecords;
	struct record records[2048];
	uint64_t seq;
	struct person olivia, dana, omar;
	struct hash sent;   /* of the last lease that leased() read */
	const char *copied; /* COPY data that the next server_done() tells of */
	char *policy_text;
	const char *parent, *effect, *budget; /* of the next run that opens; NULL: none */
};

/* --- the ends -------------------------------------------------------------------- */

static inline int
end_open(struct end *e, enum ipc_role role)
{
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	e->fd = sv[0];
	e->role = role;
	return sv[1];
}

static inline void
end_close(struct end *e)
{
	if (e->fd > 0)
		(void)close(e->fd);
	for (size_t i = 0; i < e->n; i++) {
		buf_free(&e->said[i].body);
		if (e->said[i].fd >= 0)
			(void)close(e->said[i].fd);
	}
	*e = (struct end){0};
}

static inline void
say(struct end *e, uint16_t type, const struct buf *body)
{
	struct err err;

	if (ipc_sync_send(e->fd, e->role, IPC_ROLE_CORE, type, body, NULL, 0, &err) != 0)
		fail_msg("say %s: %s", ipc_msg_name(type), err.msg);
}

/* The next unread message of this type; fails when there is none. */
static inline struct rd
heard(struct end *e, uint16_t type)
{
	for (; e->read < e->n; e->read++)
		if (e->said[e->read].type == type)
			return rd_init(buf_str(&e->said[e->read++].body));
	fail_msg("core did not say %s", ipc_msg_name(type));
	return rd_init(STR(""));
}

static inline bool
silent(const struct end *e, uint16_t type)
{
	for (size_t i = e->read; i < e->n; i++)
		if (e->said[i].type == type)
			return false;
	return true;
}

/* --- writer and parser ----------------------------------------------------------- */

static inline void
ack(struct world *w, const struct record *r)
{
	AUTO_BUF struct buf b = BUF(256);
	uint8_t root[32] = {7};

	buf_u64(&b, r->ticket);
	buf_u64(&b, w->seq);
	buf_u64(&b, ++w->seq);
	buf_put(&b, root, 32);
	buf_put(&b, root, 32);
	say(&w->writer, MSG_W_ACK, &b);
}

static inline void
writer_hears(struct world *w, struct rd r)
{
	struct record *rec = &w->records[w->nrecords++];

	rec->ticket = rd_u64(&r);
	rec->flags = rd_u8(&r);
	{
		struct str type = rd_lstr(&r);

		(void)snprintf(rec->type, sizeof(rec->type), "%.*s", STR_ARG(type));
	}
	(void)rd_lstr(&r);
	(void)rd_lstr(&r);
	rec->data = str_dup(rd_lstr(&r));
	buf_init(&rec->frame, IPC_BODY_MAX);
	if (rd_u32(&r) != 0)
		buf_put_str(&rec->frame, rd_lstr(&r));
	if (!w->hold_writer)
		ack(w, rec);
}

static inline int
parser_reads(uint8_t dialect, struct str text, int fd, struct buf *json, struct err *err)
{
	AUTO_BUF struct buf content = BUF((size_t)16 << 20);
	char chunk[16384];
	ssize_t n;

	for (off_t at = 0; fd >= 0 && (n = pread(fd, chunk, sizeof(chunk), at)) > 0; at += n)
		buf_put(&content, chunk, (size_t)n);
	if (dialect == 1)
		return facts_sql(text, json, err);
	if (dialect == 3)
		return facts_form(text, buf_str(&content), json, err);
	return fd >= 0 ? facts_graphql_body(text, buf_str(&content), json, err)
		       : facts_graphql_query(text, json, err);
}

static inline void
parser_hears(struct world *w, struct rd r, int fd)
{
	AUTO_BUF struct buf json = BUF(FACTS_JSON_MAX);
	AUTO_BUF struct buf b = BUF(1 << 17);
	struct err err = {0};
	uint64_t id = rd_u64(&r);
	uint8_t dialect = rd_u8(&r);
	int rc = parser_reads(dialect, rd_lstr(&r), fd, &json, &err);

	buf_u64(&b, id);
	buf_u8(&b, rc == 0 ? 0 : rc == ERR_TOO_COMPLEX ? 2 : 1);
	buf_lstr(&b, rc == 0 ? buf_str(&json) : str_z(err.msg));
	say(&w->parser, MSG_X_FACTS, &b);
}

static inline bool
end_drain(struct world *w, struct end *e)
{
	struct pollfd p = {.fd = e->fd, .events = POLLIN};
	int fds[IPC_FDS_MAX];
	size_t nfds = 0;
	struct err err;
	struct said *s;

	if (e->fd <= 0 || poll(&p, 1, 0) <= 0 || (p.revents & POLLIN) == 0)
		return false;
	if (e->n == SAID_MAX)
		fail_msg("core said too much");
	s = &e->said[e->n];
	buf_init(&s->body, IPC_BODY_MAX);
	if (ipc_sync_recv(
		e->fd, e->role, IPC_ROLE_CORE, 1000, &s->type, &s->body, fds, &nfds, &err) != 0) {
		buf_free(&s->body);
		(void)close(e->fd);
		e->fd = -1; /* core ended this wire */
		return false;
	}
	s->fd = nfds != 0 ? fds[0] : -1;
	e->n++;
	if (s->type == MSG_W_APPEND)
		writer_hears(w, rd_init(buf_str(&s->body)));
	if ((s->type == MSG_X_ASK || s->type == MSG_X_BODY) && !w->hold_parser)
		parser_hears(w, rd_init(buf_str(&s->body)), s->fd);
	return true;
}

static inline void
stop_loop(void *arg)
{
	loop_stop(arg, 0);
}

static inline void
turn(struct world *w, uint64_t ms)
{
	(void)loop_timer_add(w->loop, ms, stop_loop, w->loop);
	(void)loop_run(w->loop);
}

/* Until nobody has anything to say any more. */
static inline void
settle(struct world *w)
{
	struct end *all[] = {&w->front, &w->upstream, &w->writer, &w->parser, &w->agent, &w->cli};
	int quiet = 0;

	while (quiet < 3) {
		bool any = false;

		turn(w, 1);
		for (size_t i = 0; i < ARRAY_LEN(all); i++)
			while (end_drain(w, all[i]))
				any = true;
		quiet = any ? 0 : quiet + 1;
	}
}

/* --- people ---------------------------------------------------------------------- */

static inline void
put_sstr(struct buf *b, struct str s)
{
	buf_u32(b, (uint32_t)s.n);
	buf_put_str(b, s);
}

static inline void
key_blob(struct buf *b, const struct person *p)
{
	put_sstr(b, STR("ssh-ed25519"));
	put_sstr(b, str_mem(p->pub, 32));
}

static inline void
person_make(struct person *p)
{
	AUTO_BUF struct buf blob = BUF(256);
	AUTO_BUF struct buf line = BUF(256);

	assert_int_equal(crypto_sign_keypair(p->pub, p->sec), 0);
	key_blob(&blob, p);
	buf_put_z(&line, "ssh-ed25519 ");
	enc_base64(&line, buf_str(&blob));
	(void)snprintf(p->line, sizeof(p->line), "%.*s", STR_ARG(buf_str(&line)));
}

/* SSHSIG as ssh-keygen makes it (PROTOCOL.sshsig). */
static inline void
person_sign(const struct person *p, const char *ns, struct str msg, struct buf *armor)
{
	AUTO_BUF struct buf tbs = BUF(1024);
	AUTO_BUF struct buf blob = BUF(1024);
	AUTO_BUF struct buf key = BUF(256);
	AUTO_BUF struct buf sig = BUF(256);
	AUTO_BUF struct buf b64 = BUF(4096);
	uint8_t h[64], s[64];

	hash_sha512(msg, h);
	buf_put_z(&tbs, "SSHSIG");
	put_sstr(&tbs, str_z(ns));
	put_sstr(&tbs, STR(""));
	put_sstr(&tbs, STR("sha512"));
	put_sstr(&tbs, str_mem(h, 64));
	(void)crypto_sign_detached(s, NULL, tbs.p, tbs.n, p->sec);
	key_blob(&key, p);
	put_sstr(&sig, STR("ssh-ed25519"));
	put_sstr(&sig, str_mem(s, 64));
	buf_put_z(&blob, "SSHSIG");
	buf_u32(&blob, 1);
	put_sstr(&blob, buf_str(&key));
	put_sstr(&blob, str_z(ns));
	put_sstr(&blob, STR(""));
	put_sstr(&blob, STR("sha512"));
	put_sstr(&blob, buf_str(&sig));
	enc_base64(&b64, buf_str(&blob));
	buf_put_z(armor, "-----BEGIN SSH SIGNATURE-----\n");
	for (size_t i = 0; i < b64.n; i += 70)
		buf_printf(armor, "%.*s\n", (int)(b64.n - i < 70 ? b64.n - i : 70),
		    (const char *)b64.p + i);
	buf_put_z(armor, "-----END SSH SIGNATURE-----\n");
}

/* --- the world ------------------------------------------------------------------- */

/* `rules` is the JSON array's content; NULL: reads free, destruction needs a dba and an oncall. */
static inline char *
world_policy(const struct world *w, const char *rules, int serial)
{
	static const char standard[] =
	    "{\"id\":\"read-anywhere\",\"permit\":{\"effects\":{\"only\":[\"@data\"]}}},"
	    "{\"id\":\"work\",\"permit\":{\"env\":\"prod\",\"effects\":{\"only\":[\"@data\",\"@"
	    "change\",\"@destructive\"]}}},"
	    "{\"id\":\"no-escape\",\"forbid\":{\"effects\":{\"any\":[\"@escape\"]}},\"override\":"
	    "\"never\"},"
	    "{\"id\":\"no-drop\",\"forbid\":{\"effects\":{\"any\":[\"drop\"]}},\"override\":"
	    "\"never\"},"
	    "{\"id\":\"two-people\",\"require\":{\"env\":\"prod\",\"effects\":{\"any\":[\"@"
	    "destructive\"]}},"
	    "\"approve\":[{\"role\":\"dba\",\"count\":1},{\"role\":\"oncall\",\"count\":1}],"
	    "\"within\":\"30m\",\"use_within\":\"5m\",\"limits\":{\"max_rows\":5}}";

	return xasprintf(
	    "{\"schema\":\"cofferdam-policy/"
	    "1\",\"policy\":\"t\",\"serial\":%d,\"clock\":\"trusted\","
	    "\"targets\":{\"db\":{\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"127.0.0.1\","
	    "\"port\":5432,"
	    "\"database\":\"app\",\"user\":\"agent\",\"credential\":\"cred\",\"tls\":\"off\"}},"
	    "\"people\":{\"olivia\":{\"roles\":[\"oncall\"],\"login\":[\"unix:olivia\"],\"keys\":["
	    "\"%s\"]},"
	    "\"dana\":{\"roles\":[\"dba\"],\"login\":[\"unix:dana\"],\"keys\":[\"%s\"]},"
	    "\"omar\":{\"roles\":[\"oncall\"],\"login\":[\"unix:omar\"],\"keys\":[\"%s\"]}},"
	    "\"calendars\":{},\"rules\":[%s]}",
	    serial, w->olivia.line, w->dana.line, w->omar.line, rules != NULL ? rules : standard);
}

static inline struct policy *
world_parse(const char *text)
{
	AUTO(policy) struct policy *source = NULL;
	AUTO_BUF struct buf bundle = BUF((size_t)4 << 20);
	struct policy *p = NULL;
	struct err err;

	if (policy_parse(str_z(text), "t.json", NULL, NULL, &source, NULL, &err) != 0 ||
	    policy_bundle(source, &bundle, &err) != 0 ||
	    policy_load(buf_str(&bundle), &p, &err) != 0)
		fail_msg("policy: %s", err.msg);
	return p;
}

static inline void
world_wire(struct world *w, struct end *e, enum ipc_role role, const char *run)
{
	struct err err;

	end_close(e);
	if (core_boot_wire(w->c, role, str_z(run), end_open(e, role), &err) != 0)
		fail_msg("wire: %s", err.msg);
}

/* The writer tells that nothing is live. */
static inline void
world_live(struct world *w)
{
	AUTO_BUF struct buf b = BUF(512);

	buf_u64(&b, w->seq);
	buf_lz(&b, "");
	buf_lz(&b, "test+00000000+AAAA\n");
	say(&w->writer, MSG_W_LIVE_END, &b);
	settle(w);
}

static inline void
world_vault(struct world *w)
{
	struct secret *key = secret_new(VAULT_KEY_LEN);
	struct vault_bind b = {.name = STR("cred"),
	    .kind = STR("postgresql-password"),
	    .scheme = STR("postgresql"),
	    .host = STR("127.0.0.1"),
	    .user = STR("agent"),
	    .port = 5432};
	struct err err;

	core_cred_key(w->c, key);
	w->c->vault = vault_new();
	if (vault_put(w->c->vault, &b, secret_copy(STR("hunter2-hunter2")), &err) != 0)
		fail_msg("vault: %s", err.msg);
}

static inline void
world_run(struct world *w)
{
	struct err err;

	if (core_run_new(w->c, NULL, &w->run, &err) != 0)
		fail_msg("run: %s", err.msg);
	w->run->agent = xstrdup("tester");
	w->run->owner = xstrdup("olivia");
	w->run->login = xstrdup("unix:olivia");
	core_run_target_add(w->run, &(struct core_target){.id = (char *)(uintptr_t) "db",
					.kind = (char *)(uintptr_t) "postgres",
					.host = (char *)(uintptr_t) "127.0.0.1",
					.address = (char *)(uintptr_t) "127.77.0.1",
					.database = (char *)(uintptr_t) "app",
					.user = (char *)(uintptr_t) "agent",
					.port = 5432,
					.listen = CORE_LISTEN_TCP});
	w->run->all = true;
	core_plan_place(policy_target(w->c->policy, STR("db")), w->run->targets[0].place);
	w->run->targets[0].listener = 1;
	w->c->last_listener = 1;
	w->run->state = CORE_RUN_LIVE;
	w->run->parser_asked = true;
	world_wire(w, &w->parser, IPC_ROLE_PARSER, w->run->id);
}

static inline struct world *
world_new(void)
{
	struct world *w = xcalloc(1, sizeof(*w));
	AUTO_FREE char *passwd =
	    xasprintf("olivia:x:%u:0::/:/bin/sh\ndana:x:61001:0::/:\n", (unsigned)getuid());

	assert_true(sodium_init() >= 0);
	log_init("test", LOG_ERROR_);
	person_make(&w->olivia);
	person_make(&w->dana);
	person_make(&w->omar);
	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/t_core.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	w->dirfd = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w->loop = loop_new();
	w->c = core_new(w->loop);
	free(w->c->origin);
	w->c->origin = xstrdup("test.example/log");
	w->c->blobkeys_fd = dup(w->dirfd);
	w->c->logins = core_logins_parse(str_z(passwd));
	w->c->policy_blob_key = secret_new(BLOB_KEY_LEN);
	w->c->serving = true;
	world_vault(w);
	world_wire(w, &w->front, IPC_ROLE_FRONT, "");
	world_wire(w, &w->upstream, IPC_ROLE_UPSTREAM, "");
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	world_live(w);
	w->policy_text = world_policy(w, NULL, 1);
	core_boot_policy_use(w->c, world_parse(w->policy_text));
	world_run(w);
	return w;
}

static inline void
dir_empty(int fd)
{
	DIR *d = fdopendir(dup(fd));
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL)
		if (e->d_name[0] != '.')
			(void)unlinkat(fd, e->d_name, 0);
	if (d != NULL)
		(void)closedir(d);
}

static inline void
world_free(struct world *w)
{
	core_free(w->c);
	loop_free(w->loop);
	end_close(&w->front);
	end_close(&w->upstream);
	end_close(&w->writer);
	end_close(&w->parser);
	end_close(&w->agent);
	end_close(&w->cli);
	for (size_t i = 0; i < w->nrecords; i++) {
		free(w->records[i].data);
		buf_free(&w->records[i].frame);
	}
	dir_empty(w->dirfd);
	(void)close(w->dirfd);
	(void)rmdir(w->dir);
	free(w->policy_text);
	free(w);
}

/* --- what a test looks at -------------------------------------------------------- */

static inline size_t
count(const struct world *w, const char *type)
{
	size_t n = 0;

	for (size_t i = 0; i < w->nrecords; i++)
		n += strcmp(w->records[i].type, type) == 0;
	return n;
}

/* Data of the last record of a type, parsed; the caller frees. */
static inline struct json_doc *
last(const struct world *w, const char *type)
{
	struct json_doc *d = NULL;
	struct err err;

	for (size_t i = w->nrecords; i-- > 0;)
		if (strcmp(w->records[i].type, type) == 0) {
			if (json_parse(str_z(w->records[i].data), type, &d, &err) != 0)
				fail_msg("%s", err.msg);
			return d;
		}
	fail_msg("no record %s", type);
	return NULL;
}

static inline const struct json *
at(const struct json_doc *d, const char *a, const char *b)
{
	return json_get(json_get(json_root(d), a), b);
}

static inline void
assert_verdict(const struct world *w, const char *verdict)
{
	AUTO(json) struct json_doc *d = last(w, "action");
	struct str got = json_str(at(d, "decision", "verdict"));

	if (!str_eqz(got, verdict))
		fail_msg("verdict is %.*s, wanted %s: %.*s", STR_ARG(got), verdict,
		    STR_ARG(json_str(at(d, "decision", "reason"))));
}

/* --- a client -------------------------------------------------------------------- */

static inline void
client_open(struct world *w, uint64_t conn, const char *database)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_u64(&b, conn);
	buf_u32(&b, 1);
	buf_u32(&b, PGWIRE_V3);
	buf_u32(&b, 2);
	buf_lz(&b, "user");
	buf_lz(&b, "whoever");
	buf_lz(&b, "database");
	buf_lz(&b, database);
	say(&w->front, MSG_PG_OPEN, &b);
	settle(w);
}

static inline void
server_opened(struct world *w, uint64_t conn, bool ok)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_u64(&b, conn);
	buf_u8(&b, ok ? 1 : 0);
	buf_lz(&b, ok ? "" : "28P01");
	buf_lz(&b, ok ? "" : "no");
	buf_lz(&b, "127.0.0.1:5432");
	buf_lz(&b, "");
	buf_u32(&b, 0);
	say(&w->upstream, MSG_U_OPENED, &b);
	settle(w);
}

static inline void
client_ready(struct world *w, uint64_t conn)
{
	client_open(w, conn, "app");
	(void)heard(&w->upstream, MSG_U_OPEN);
	server_opened(w, conn, true);
	(void)heard(&w->front, MSG_PG_OPENED);
}

static inline void
client_sends(struct world *w, uint64_t conn, uint64_t act, uint8_t kind, const struct buf *msgs)
{
	AUTO_BUF struct buf b = BUF(1200000);

	buf_u64(&b, conn);
	buf_u64(&b, act);
	buf_u8(&b, kind);
	buf_lstr(&b, buf_str(msgs));
	say(&w->front, MSG_PG_ACT, &b);
	settle(w);
}

static inline void
client_query(struct world *w, uint64_t conn, uint64_t act, const char *sql)
{
	AUTO_BUF struct buf m = BUF(1 << 20);

	pgwire_put_query(&m, str_z(sql));
	client_sends(w, conn, act, CORE_ACT_QUERY, &m);
}

static inline void
server_done(struct world *w, uint64_t conn, uint64_t act, uint8_t status, char txn, uint64_t rows)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_u64(&b, conn);
	buf_u64(&b, act);
	buf_u8(&b, status);
	buf_u8(&b, (uint8_t)txn);
	buf_u64(&b, rows);
	buf_u64(&b, 10);
	buf_lz(&b, "TAG");
	buf_lz(&b, "");
	buf_lz(&b, "");
	buf_put(&b, w->sent.b, HASH_LEN);
	buf_u8(&b, w->copied != NULL);
	buf_u64(&b, w->copied != NULL ? strlen(w->copied) : 0);
	{
		struct hash data = hash_sha256(str_z(w->copied));

		buf_put(&b, data.b, HASH_LEN);
	}
	w->copied = NULL;
	say(&w->upstream, MSG_U_DONE, &b);
	settle(w);
}

/* What upstream was given. */
struct lease {
	uint64_t conn, act, max_rows;
	uint8_t kind, wrap, hold_all, copy_in;
	struct str msgs, token, sqlstate;
};
static inline struct lease
leased(struct world *w)
{
	struct rd r = heard(&w->upstream, MSG_U_SEND);
	struct lease l = {0};

	l.conn = rd_u64(&r);
	l.act = rd_u64(&r);
	l.kind = rd_u8(&r);
	l.msgs = rd_lstr(&r);
	w->sent = hash_sha256(l.msgs);
	l.wrap = rd_u8(&r);
	l.max_rows = rd_u64(&r);
	l.hold_all = rd_u8(&r);
	l.token = rd_lstr(&r);
	l.sqlstate = rd_lstr(&r);
	for (int i = 0; i < 3; i++)
		(void)rd_lstr(&r);
	l.copy_in = rd_u8(&r);
	return l;
}

/* What the client was refused with; the caller looks at it at once. */
struct refusal {
	uint64_t conn, act;
	uint8_t how;
	struct str sqlstate, message, detail, hint;
};
static inline struct refusal
refused(struct world *w)
{
	struct rd r = heard(&w->front, MSG_PG_REFUSED);
	struct refusal x = {0};

	x.conn = rd_u64(&r);
	x.act = rd_u64(&r);
	x.how = rd_u8(&r);
	x.sqlstate = rd_lstr(&r);
	x.message = rd_lstr(&r);
	x.detail = rd_lstr(&r);
	x.hint = rd_lstr(&r);
	return x;
}

static inline bool
has(struct str s, const char *part)
{
	return s.n != 0 && memmem(s.p, s.n, part, strlen(part)) != NULL;
}

#define assert_state(s, z)                                                               \
	do {                                                                             \
		struct str got_ = (s);                                                   \
		if (!str_eqz(got_, z))                                                   \
			fail_msg("%s is \"%.*s\", wanted \"%s\"", #s, STR_ARG(got_), z); \
	} while (0)

static inline int
world_setup(void **state)
{
	*state = world_new();
	return 0;
}

static inline int
world_teardown(void **state)
{
	world_free(*state);
	return 0;
}
#define world_test(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

#endif
