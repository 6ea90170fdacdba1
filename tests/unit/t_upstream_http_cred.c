/*
 * HTTP exchanges of upstream: where a name may lead, and the credential, which goes out in one
 * place and comes back in none, compressed answers included.
 */
#include "tests/unit/upstream_http_help.h"

#include <zlib.h>

#include "common/banned.h"

static struct rig rig;

static int
set_up(void **state)
{
	rig_open(&rig, "/nonexistent");
	*state = &rig;
	return 0;
}

static int
tear_down(void **state)
{
	rig_close(*state);
	return 0;
}

static void
say_ok(struct rig_peer *p)
{
	while (peer_head(p))
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

/* --- addresses ------------------------------------------------------------------- */

static void
a_name_leads_to_public_addresses_or_named_networks(void **state)
{
	struct rig *r = *state;
	static const struct {
		const char *host, *net, *why; /* why NULL: it goes out */
	} rows[] = {
	    {"plain.test", NULL, "127.0.0.1"},
	    {"plain.test", "127.0.0.0/8", NULL},
	    {"plain.test", "127.0.0.2/32", "loopback"},
	    {"mixed.test", "127.0.0.1/32", NULL},
	    {"mixed.test", NULL, "networks"},
	    {"meta.test", "10.0.0.0/8", "169.254.169.254"},
	    {"localhost", NULL, "loopback"},
	    {"localhost", "127.0.0.1/32", NULL},
	    {"127.0.0.1", NULL, NULL},
	    {"plain.test", "127.0.0.0", "length"},
	};

	rig_serve(r, NULL, say_ok);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct upstream_lease l = rig_lease(r);

		l.host = str_z(rows[i].host);
		l.address = STR("");
		if (rows[i].net != NULL)
			l.networks[l.nnetworks++] = str_z(rows[i].net);
		rig_ask(r, &l);
		assert_done(r, rows[i].why == NULL ? 1 : 5);
		if (rows[i].why != NULL)
			assert_has(r->done.why, rows[i].why);
	}
	assert_int_equal(atomic_load(&r->seen->requests), 4);
}

/* --- the credential -------------------------------------------------------------- */

static void
say_back(struct rig_peer *p)
{
	while (peer_head(p)) {
		char *line = strstr(p->head, "X-Key: ") != NULL ? strstr(p->head, "X-Key: ")
			     : strstr(p->head, "Auth") != NULL	? strstr(p->head, "Auth")
								: p->head;
		char text[2048];
		size_t n = strcspn(line, "\r\n");

		(void)snprintf(text, sizeof(text),
		    "HTTP/1.1 200 OK\r\nX-Saw: %.*s\r\nContent-Length: %zu\r\n\r\n%.*s", (int)n,
		    line, n, (int)n, line);
		/* In two pieces, so that the secret is cut. */
		peer_put(p, text, strlen(text) - 5);
		(void)usleep(20000);
		peer_write(p, text + strlen(text) - 5);
	}
}

static void
a_credential_goes_out_and_never_comes_back(void **state)
{
	struct rig *r = *state;
	static const struct {
		enum lease_credential kind;
		const char *field, *sent, *back;
	} rows[] = {
	    {LEASE_BEARER, "", "Authorization: Bearer " RIG_SECRET "\r\n",
		"Authorization: Bearer cfph_abcdefghijkl"},
	    {LEASE_BASIC, "", "Authorization: Basic YWw6czNjcjN0LTAxMjM0NTY3ODk=\r\n",
		"Authorization: Basic cfph_abcdefghijklmnopqrstuv="},
	    {LEASE_HEADER, "X-Key", "X-Key: " RIG_SECRET "\r\n", "X-Key: cfph_abcdefghijkl"},
	    {LEASE_QUERY, "key", "GET /a?b=c&key=" RIG_SECRET " HTTP/1.1\r\n",
		"GET /a?b=c&key=cfph_abcdefghijkl HTTP/1.1"},
	};

	rig_serve(r, NULL, say_back);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct upstream_lease l = rig_lease(r);
		AUTO_FREE char *field = xasprintf("X-Saw: %s\n", rows[i].back);
		struct hash h;

		rig_forget(r);
		rig_bearer(&l);
		l.credential = rows[i].kind;
		l.field = str_z(rows[i].field);
		l.user = STR("al");
		l.target = STR("/a?b=c");
		rig_ask(r, &l);
		assert_done(r, 1);
		assert_has(rig_seen(r), rows[i].sent);
		assert_true(str_eqz(buf_str(&r->body), rows[i].back));
		assert_true(memmem(r->fields.p, r->fields.n, field, strlen(field)) != NULL);
		assert_int_equal(r->done.replaced, 2);
		h = hash_sha256(str_z(rows[i].back));
		assert_memory_equal(r->done.sha.b, h.b, HASH_LEN);
		h = http_lease_hash(l.method, l.target, l.fields, l.nfields);
		assert_memory_equal(h.b, r->done.head.b, HASH_LEN);
	}
}

static void
rig_other(struct upstream_lease *l, const char *secret, const char *user, const char *placeholder)
{
	l->others[l->nothers++] =
	    (struct lease_other){str_z(secret), str_z(user), str_z(placeholder)};
}

/* The server has them from elsewhere; here it is asked to say them back. */
static void
other_credentials_of_the_run_do_not_come_back(void **state)
{
	struct rig *r = *state;
	static const struct {
		bool own;
		uint32_t replaced;
		const char *back;
	} rows[] = {
	    {false, 4, "GET /a?x=cfph_other**&y=cfph_basic***&z=" RIG_SECRET " HTTP/1.1"},
	    {true, 8,
		"GET /a?x=cfph_other**&y=cfph_basic***&z=cfph_abcdefghijkl&k=cfph_abcdefghijkl "
		"HTTP/1.1"},
	};
	struct upstream_lease l;

	rig_serve(r, NULL, say_back);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO_FREE char *field = xasprintf("X-Saw: %s\n", rows[i].back);

		rig_lease_to(r, &l);
		rig_bearer(&l);
		l.credential = rows[i].own ? LEASE_QUERY : LEASE_OPEN;
		l.field = STR("k");
		l.target = STR("/a?x=other-secret&y=the-basic-one&z=" RIG_SECRET);
		rig_other(&l, "other-secret", "", "cfph_other");
		rig_other(&l, "the-basic-one", "al", "cfph_basic");
		rig_ask(r, &l);
		assert_done(r, 1);
		assert_true(str_eqz(buf_str(&r->body), rows[i].back));
		assert_true(memmem(r->fields.p, r->fields.n, field, strlen(field)) != NULL);
		assert_int_equal(r->done.replaced, rows[i].replaced);
	}
	assert_null(strstr(rig_seen(r), "cfph_"));
	/* The base64 of a user and a secret together. */
	rig_lease_to(r, &l);
	l.target = STR("/YWw6dGhlLWJhc2ljLW9uZQ==");
	rig_other(&l, "the-basic-one", "al", "cfph_basic");
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_true(str_eqz(buf_str(&r->body), "GET /cfph_basic************== HTTP/1.1"));
	/* Empty ones would be found everywhere. */
	rig_other(&l, "", "", "cfph_none");
	rig_ask(r, &l);
	assert_done(r, 5);
}

static void
a_credential_that_could_mean_two_things_is_not_sent(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_ok);
	rig_lease_to(r, &l);
	rig_bearer(&l);
	l.secret = STR("a\r\nX: y");
	rig_ask(r, &l);
	assert_done(r, 5);
	assert_null(strstr(r->done.why, "X: y"));
	rig_lease_to(r, &l);
	rig_bearer(&l);
	rig_field(&l, "authorization", "Bearer other");
	rig_ask(r, &l);
	assert_done(r, 5);
	rig_lease_to(r, &l);
	rig_bearer(&l);
	l.credential = LEASE_QUERY;
	l.field = STR("key");
	l.target = STR("/?a=b&k%65y=1");
	rig_ask(r, &l);
	assert_done(r, 5);
	l.target = STR("/?a=b&keys=1");
	rig_ask(r, &l);
	assert_done(r, 1);
	rig_lease_to(r, &l);
	rig_bearer(&l);
	l.credential = LEASE_HEADER;
	l.field = STR("Host");
	rig_ask(r, &l);
	assert_done(r, 5);
	assert_int_equal(atomic_load(&r->seen->requests), 1);
}

static void
without_tls_a_credential_goes_to_loopback_alone(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_ok);
	rig_lease_to(r, &l);
	rig_bearer(&l);
	l.address = STR("192.0.2.1");
	rig_ask(r, &l);
	assert_done(r, 5);
	assert_has(r->done.why, "without TLS");
	/* Of a mixed answer only loopback, though the network permits both. */
	l.host = STR("mixed.test");
	l.address = STR("");
	l.networks[0] = STR("0.0.0.0/0");
	l.nnetworks = 1;
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_has(r->done.peer, "127.0.0.1:");
}

#ifndef MODE_SANITIZED
/* How often it stands in writable memory; the stack is left out, where the test has it itself. */
static unsigned
found_in_memory(const char *secret)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	char line[512];
	unsigned hits = 0;

	assert_true(maps != NULL && mem >= 0);
	while (fgets(line, sizeof(line), maps) != NULL) {
		unsigned long from, to;
		char *copy, *p;
		ssize_t n;

		if (sscanf(line, "%lx-%lx rw", &from, &to) != 2 || strstr(line, " rw") == NULL ||
		    strstr(line, "[stack]") != NULL || strstr(line, "(deleted)") != NULL)
			continue;
		copy = mmap(
		    NULL, to - from, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		n = pread(mem, copy, to - from, (off_t)from);
		for (p = copy; n > 0 && (p = memmem(p, (size_t)(copy + n - p), secret,
					     strlen(secret))) != NULL;
		     p++)
			hits++;
		(void)munmap(copy, to - from);
	}
	(void)fclose(maps);
	(void)close(mem);
	return hits;
}

static void
nothing_of_a_credential_stays_in_memory(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;
	char secret[33];
	AUTO_BUF struct buf hex = BUF(32);
	uint8_t random[16];

	rand_bytes(random, sizeof(random));
	enc_hex(&hex, str_mem(random, sizeof(random)));
	memcpy(secret, hex.p, 32);
	secret[32] = '\0';
	assert_true(found_in_memory(secret) != 0); /* hex has it: the search finds */
	buf_free(&hex);
	rig_serve(r, NULL, say_back);
	rig_lease_to(r, &l);
	rig_bearer(&l);
	l.secret = str_mem(secret, 32);
	for (int kind = LEASE_BEARER; kind <= LEASE_QUERY; kind++) {
		l.credential = (enum lease_credential)kind;
		l.field = STR("X-Key");
		l.nothers = 0;
		if (kind == LEASE_HEADER)
			rig_other(&l, secret, "", "cfph_");
		rig_ask(r, &l);
		assert_done(r, 1);
		assert_int_equal(r->done.replaced, 2);
	}
	rig_pass(r, 50);
	/* The connection is still open. */
	assert_int_equal(found_in_memory(secret), 0);
}
#endif

/* --- compressed answers ---------------------------------------------------------- */

#define PACKED_MAX ((size_t)1 << 20)

static size_t
pack(void *out, const void *in, size_t n, int bits)
{
	z_stream z = {.next_in = (Bytef *)(uintptr_t)in, .avail_in = (uInt)n, .next_out = out};

	z.avail_out = PACKED_MAX;
	if (deflateInit2(&z, 9, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
	    deflate(&z, Z_FINISH) != Z_STREAM_END)
		_exit(1);
	(void)deflateEnd(&z);
	return PACKED_MAX - z.avail_out;
}

#define TOLD "your key is " RIG_SECRET "!"

static void
say_packed(struct rig_peer *p)
{
	static char out[PACKED_MAX], zeros[32 << 20];

	while (peer_head(p)) {
		const char *coding = strstr(p->head, "/deflate") != NULL ? "deflate"
				     : strstr(p->head, "/br") != NULL	 ? "br"
				     : strstr(p->head, "/two") != NULL	 ? "gzip, gzip"
									 : "X-GZip";
		bool bomb = strstr(p->head, "/bomb") != NULL;
		size_t n = bomb ? pack(out, zeros, sizeof(zeros), 31)
				: pack(out, TOLD, sizeof(TOLD) - 1, *coding == 'd' ? 15 : 31);
		char head[300];

		if (strstr(p->head, "/cut") != NULL)
			n -= 9;
		if (strstr(p->head, "/bad") != NULL)
			out[n / 2] ^= 0x55;
		if (strstr(p->head, "/members") != NULL)
			n += pack(out + n, " Again.", 7, 31);
		if (strstr(p->head, "/none") != NULL)
			n = 0;
		(void)snprintf(head, sizeof(head),
		    "HTTP/1.1 %s\r\nContent-Encoding: %s\r\nETag: \"x\"\r\nX-A: 1\r\n%s"
		    "Content-Length: %zu\r\n\r\n",
		    strstr(p->head, "/part") != NULL ? "206 Partial Content" : "200 OK", coding,
		    strstr(p->head, "/again") != NULL ? "Content-Encoding: identity\r\n" : "", n);
		peer_write(p, head);
		for (size_t i = 0; strncmp(p->head, "HEAD", 4) != 0 && i < n; i += 7)
			peer_put(p, out + i, n - i < 7 ? n - i : 7);
	}
}

static void
a_compressed_answer_is_read_and_goes_on_plain(void **state)
{
	struct rig *r = *state;
	static const struct {
		const char *target, *body;
	} rows[] = {
	    {"/gzip", "your key is cfph_abcdefghijkl!"},
	    {"/deflate", "your key is cfph_abcdefghijkl!"},
	    {"/members", "your key is cfph_abcdefghijkl! Again."},
	    {"/none", ""},
	};
	static const char br[] = "Content-Encoding: br\n";
	struct upstream_lease l;

	rig_serve(r, NULL, say_packed);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		rig_lease_to(r, &l);
		rig_bearer(&l);
		l.target = str_z(rows[i].target);
		rig_ask(r, &l);
		assert_done(r, 1);
		assert_true(str_eqz(buf_str(&r->body), rows[i].body));
		assert_true(str_eqz(buf_str(&r->fields), "X-A: 1\n"));
		assert_int_equal(r->done.replaced, strlen(rows[i].body) != 0);
		assert_int_equal(r->done.bytes, strlen(rows[i].body));
	}
	/* Read for another's credential too; without any it is left alone, and so is what has no
	 * content. */
	l.credential = LEASE_OPEN;
	rig_other(&l, RIG_SECRET, "", RIG_MARK);
	l.target = STR("/gzip");
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_true(str_eqz(buf_str(&r->body), rows[0].body));
	l.target = STR("/br");
	rig_ask(r, &l);
	assert_done(r, 2);
	l.nothers = 0;
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_true(memmem(r->fields.p, r->fields.n, br, sizeof(br) - 1) != NULL);
	rig_bearer(&l);
	l.method = STR("HEAD");
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_true(memmem(r->fields.p, r->fields.n, br, sizeof(br) - 1) != NULL);
}

static void
what_cannot_be_read_for_the_credential_is_refused(void **state)
{
	struct rig *r = *state;
	static const struct {
		const char *target;
		unsigned end; /* 3: it shows too late */
	} rows[] = {
	    {"/br", 2},
	    {"/two", 2},
	    {"/part", 2},
	    {"/again", 2},
	    {"/cut", 3},
	    {"/bad", 3},
	    {"/bomb", 3},
	};
	struct upstream_lease l;

	rig_serve(r, NULL, say_packed);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		rig_lease_to(r, &l);
		rig_bearer(&l);
		l.target = str_z(rows[i].target);
		rig_ask(r, &l);
		if (r->done.status != rows[i].end)
			fail_msg("%s: ended %u, %s", rows[i].target, r->done.status, r->done.why);
		assert_true(r->whole != 1);
		assert_true(r->done.why[0] != '\0');
		buf_put_c(&r->body, '\0');
		assert_null(strstr((const char *)r->body.p, RIG_SECRET));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	    T(a_name_leads_to_public_addresses_or_named_networks),
	    T(a_credential_goes_out_and_never_comes_back),
	    T(other_credentials_of_the_run_do_not_come_back),
	    T(a_credential_that_could_mean_two_things_is_not_sent),
	    T(without_tls_a_credential_goes_to_loopback_alone),
#ifndef MODE_SANITIZED
	    T(nothing_of_a_credential_stays_in_memory),
#endif
	    T(a_compressed_answer_is_read_and_goes_on_plain),
	    T(what_cannot_be_read_for_the_credential_is_refused),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
