/* What a run is given to reach: targets, the proxy's and the loop's listener, variables, leaves. */
#include "tests/unit/core_plan_help.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include "broker/core_live.h"
#include "common/banned.h"

/* --- plans ----------------------------------------------------------------------- */

static void
each_kind_of_target_listens_in_its_way(void **state)
{
	struct world *w = *state;
	struct plan p;
	char value[CORE_PLACEHOLDER_SIZE];

	opens(w, NULL, 1);
	p = planned(w);
	assert_int_equal(entry(&p, "db", "postgres")->listen, 1);
	assert_int_equal(entry(&p, "api", "http")->listen, 1);
	assert_int_equal(entry(&p, "api", "http")->port, 443);
	assert_int_equal(entry(&p, "wild", "http")->listen, 0);
	assert_state(entry(&p, "wild", "http")->host, "*.ok.test");
	assert_state(entry(&p, "wild", "http")->address, "");
	assert_int_equal(entry(&p, "llm", "http")->listen, 0);
	assert_int_equal(entry(&p, "", "proxy")->listen, 1);
	assert_state(entry(&p, "", "proxy")->host, "proxy.cofferdam.internal");
	assert_int_equal(entry(&p, "", "proxy")->port, 3128);
	assert_int_equal(entry(&p, "", "loop")->listen, 2);
	assert_int_equal(p.nenv, 1);
	assert_state(p.name[0], "API_TOKEN");
	core_cred_placeholder(core_run_find(w->c, p.run), STR("api-key"), value);
	assert_state(p.value[0], value);
}

static void
a_wrapped_agents_models_listen_in_the_sandbox(void **state)
{
	struct world *w = *state;
	struct plan p;
	char value[CORE_PLACEHOLDER_SIZE];

	opens(w, "db", 4);
	p = planned(w);
	assert_int_equal(entry(&p, "llm", "http")->listen, 1);
	assert_int_equal(entry(&p, "llm", "http")->port, 443);
	assert_non_null(entry(&p, "", "proxy"));
	assert_int_equal(p.nmodels, 1);
	core_cred_placeholder(core_run_find(w->c, p.run), STR("llm-key"), value);
	assert_state(p.model[0][0], "llm");
	assert_state(p.model[0][1], "anthropic");
	assert_state(p.model[0][2], "https://model.test");
	assert_state(p.model[0][3], value);
	opens(w, "llm", 0);
	p = planned(w);
	assert_int_equal(entry(&p, "llm", "http")->listen, 1);
	opens(w, "db", 0);
	p = planned(w);
	assert_null(entry(&p, "llm", "http"));
	assert_int_equal(p.nmodels, 0);
	opens(w, "llm", 1);
	assert_refused(w, ERR_UNSUPPORTED, "the sandbox beside a loop never");
}

static void
without_a_loop_there_is_no_model_and_without_http_no_proxy(void **state)
{
	struct world *w = *state;
	struct plan p;

	opens(w, NULL, 0);
	p = planned(w);
	assert_null(entry(&p, "llm", "http"));
	assert_null(entry(&p, "", "loop"));
	assert_non_null(entry(&p, "", "proxy"));
	opens(w, "db", 0);
	p = planned(w);
	assert_int_equal(p.n, 1);
	opens(w, "db", 1); /* a model alone makes no proxy */
	p = planned(w);
	assert_int_equal(p.n, 3);
	assert_null(entry(&p, "", "proxy"));
	opens(w, "llm", 1);
	assert_refused(w, ERR_UNSUPPORTED, "the loop reaches it without being asked");
}

static void
a_loop_needs_a_model_in_the_policy(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *text = http_policy(w, NULL, 3);
	static const char is[] = "\"model\":\"anthropic\",\"wrapped\":true,";
	char *model = strstr(text, is);

	memset(model, ' ', sizeof(is) - 1);
	core_boot_policy_use(w->c, world_parse(text));
	opens(w, NULL, 1);
	assert_refused(w, ERR_NOT_FOUND, "no model target");
	opens(w, NULL, 0);
	(void)planned(w);
}

/* One name, one address: as long as the ports differ. */
static void
targets_of_one_host_share_an_address_unless_their_ports_are_the_same(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *text = http_policy(w, NULL, 3), *with = NULL;
	char *at = strstr(text, "\"plain\":");
	struct plan p;

	*at = '\0';
	with = xasprintf("%s\"pg2\":{\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"api.test\","
			 "\"port\":5432,\"database\":\"x\",\"user\":\"u\",\"credential\":\"c\"},"
			 "\"pg3\":{\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"api.test\","
			 "\"port\":5432,\"database\":\"y\",\"user\":\"u\",\"credential\":\"c\"},"
			 "\"plain\":%s",
	    text, at + 8);
	core_boot_policy_use(w->c, world_parse(with));
	opens(w, NULL, 0);
	p = planned(w);
	assert_true(
	    str_eq(entry(&p, "api", "http")->address, entry(&p, "pg2", "postgres")->address));
	assert_false(
	    str_eq(entry(&p, "pg2", "postgres")->address, entry(&p, "pg3", "postgres")->address));
	assert_false(str_eq(entry(&p, "api", "http")->address, entry(&p, "", "proxy")->address));
	assert_false(
	    str_eq(entry(&p, "api", "http")->address, entry(&p, "infra", "http")->address));
}

/* --- listeners ------------------------------------------------------------------- */

static int
tcp_listener(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static int
unix_listener(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX}; /* autobind */
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static int
listens(struct world *w, uint32_t index, int fd)
{
	struct err err;

	return core_run_listen(w->run, index, fd, &err);
}

static void
each_listener_is_of_its_family_and_where_there_is_none_none_is_taken(void **state)
{
	struct world *w = *state;
	size_t loop = w->run->ntargets - 1, llm = loop - 1, proxy = loop - 2;

	assert_int_equal(listens(w, (uint32_t)proxy, unix_listener()), ERR_INVALID);
	assert_int_equal(listens(w, (uint32_t)loop, tcp_listener()), ERR_INVALID);
	assert_int_equal(listens(w, (uint32_t)llm, tcp_listener()), ERR_INVALID);
	assert_int_equal(listens(w, (uint32_t)proxy, tcp_listener()), 0);
	assert_int_equal(listens(w, (uint32_t)loop, unix_listener()), 0);
	assert_int_equal(listens(w, (uint32_t)loop, unix_listener()), ERR_EXISTS);
}

static void
front_is_told_what_each_listener_speaks(void **state)
{
	static const struct {
		const char *id, *kind;
		uint8_t proto;
	} want[] = {{"db", "postgres", 1}, {"plain", "http", 2}, {"api", "http", 3},
	    {"", "proxy", 4}, {"", "loop", 5}};
	struct world *w = *state;

	for (size_t i = 0; i < w->run->ntargets; i++) {
		struct core_target *t = &w->run->targets[i];
		struct rd r;
		uint8_t proto;

		if (t->listen == CORE_LISTEN_NONE)
			continue;
		assert_int_equal(
		    listens(w, (uint32_t)i,
			t->listen == CORE_LISTEN_UNIX ? unix_listener() : tcp_listener()),
		    0);
		t->listener = 0;
		core_run_serve(w->run);
		settle(w);
		r = heard(&w->front, MSG_F_LISTEN);
		(void)rd_u32(&r);
		proto = rd_u8(&r);
		for (size_t k = 0; k < ARRAY_LEN(want); k++)
			if (strcmp(t->id, want[k].id) == 0 && strcmp(t->kind, want[k].kind) == 0)
				assert_int_equal(proto, want[k].proto);
		assert_state(rd_lstr(&r), w->run->id);
		assert_state(rd_lstr(&r), t->id);
		assert_state(rd_lstr(&r), t->host);
		assert_int_equal(rd_u32(&r), t->port);
		assert_true(rd_end(&r));
	}
}

/* --- after a restart -------------------------------------------------------------- */

static void
a_run_comes_back_from_the_log_with_all_its_listeners(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf live = BUF(8192);
	AUTO_BUF struct buf body = BUF(4096);
	AUTO(secret) struct secret *key = NULL;
	const struct core_run *run;
	char api[CORE_PLACE_SIZE], wild[CORE_PLACE_SIZE];
	uint8_t root[32] = {0};
	struct err err;

	assert_int_equal(core_run_key(w->c, "r-old", true, &key, &err), 0);
	core_plan_place(policy_target(w->c->policy, STR("api")), api);
	core_plan_place(policy_target(w->c->policy, STR("wild")), wild);
	buf_printf(&body,
	    "{\"data\":{\"agent\":\"a\",\"owner\":\"olivia\",\"login\":\"unix:"
	    "olivia\",\"targets\":["
	    "{\"address\":\"127.77.0.1\",\"host\":\"api.test\",\"kind\":\"http\","
	    "\"listen\":1,\"place\":\"%s\",\"port\":443,\"scheme\":\"https\",\"target\":\"api\"},"
	    "{\"address\":\"\",\"host\":\"*.ok.test\",\"kind\":\"http\",\"listen\":0,"
	    "\"place\":\"%s\",\"port\":443,\"scheme\":\"https\",\"target\":\"wild\"},",
	    api, wild);
	buf_put_z(&body, "{\"address\":\"127.77.0.2\",\"host\":\"proxy.cofferdam.internal\","
			 "\"kind\":\"proxy\",\"listen\":1,\"port\":3128,\"target\":\"\"},"
			 "{\"address\":\"\",\"host\":\"\",\"kind\":\"loop\",\"listen\":2,\"port\":"
			 "0,\"target\":\"\"}]},"
			 "\"run\":\"r-old\",\"seq\":3,\"time\":\"2026-01-01T00:00:00.000000Z\","
			 "\"type\":\"run.start\"}");
	buf_lstr(&live, buf_str(&body));
	buf_put(&live, root, 32);
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	say(&w->writer, MSG_W_LIVE, &live);
	world_live(w);
	run = core_run_find(w->c, STR("r-old"));
	assert_non_null(run);
	assert_int_equal(run->ntargets, 4);
	assert_string_equal(run->targets[0].scheme, "https");
	assert_int_equal(run->targets[1].listen, CORE_LISTEN_NONE);
	assert_string_equal(run->targets[2].kind, "proxy");
	assert_int_equal(run->targets[3].listen, CORE_LISTEN_UNIX);
}

/* --- leaves ---------------------------------------------------------------------- */

static bool
leaf_for(struct world *w, uint32_t listener, const char *host)
{
	AUTO_BUF struct buf b = BUF(4096);
	unsigned char *der = NULL;
	EVP_PKEY *k = EVP_EC_gen("P-256");
	int n = i2d_PUBKEY(k, &der);
	struct rd r;

	buf_u32(&b, listener);
	buf_lz(&b, host);
	buf_lstr(&b, str_mem(der, (size_t)n));
	OPENSSL_free(der);
	EVP_PKEY_free(k);
	say(&w->front, MSG_F_LEAF_ASK, &b);
	settle(w);
	r = heard(&w->front, MSG_F_LEAF);
	assert_int_equal(rd_u32(&r), listener);
	assert_state(rd_lstr(&r), host);
	return rd_lstr(&r).n != 0;
}

static void
a_leaf_is_for_names_that_the_listener_may_have(void **state)
{
	struct world *w = *state;

	opens(w, NULL, 0); /* makes the CA */
	assert_true(leaf_for(w, L_API, "api.test"));
	assert_false(leaf_for(w, L_API, "infra.test"));
	assert_false(leaf_for(w, L_API, "API.test"));
	assert_false(leaf_for(w, L_PLAIN, "127.0.0.1"));
	assert_true(leaf_for(w, L_PROXY, "api.test"));
	assert_true(leaf_for(w, L_PROXY, "infra.test"));
	assert_true(leaf_for(w, L_PROXY, "x.ok.test"));
	assert_false(leaf_for(w, L_PROXY, "ok.test"));
	assert_false(leaf_for(w, L_PROXY, "a.b.ok.test"));
	assert_false(leaf_for(w, L_PROXY, "*.ok.test"));
	assert_false(leaf_for(w, L_PROXY, ".ok.test"));
	assert_false(leaf_for(w, L_PROXY, "model.test"));
	assert_false(leaf_for(w, L_PROXY, "127.0.0.1"));
	assert_false(leaf_for(w, L_PROXY, "proxy.cofferdam.internal"));
	assert_false(leaf_for(w, L_LOOP, "model.test"));
	assert_false(leaf_for(w, 99, "api.test"));
	assert_true(leaf_for(w, 1, "127.0.0.1")); /* the PostgreSQL target's */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    http_test(each_kind_of_target_listens_in_its_way),
	    http_test(without_a_loop_there_is_no_model_and_without_http_no_proxy),
	    http_test(a_wrapped_agents_models_listen_in_the_sandbox),
	    http_test(a_loop_needs_a_model_in_the_policy),
	    http_test(targets_of_one_host_share_an_address_unless_their_ports_are_the_same),
	    http_test(each_listener_is_of_its_family_and_where_there_is_none_none_is_taken),
	    http_test(front_is_told_what_each_listener_speaks),
	    http_test(a_run_comes_back_from_the_log_with_all_its_listeners),
	    http_test(a_leaf_is_for_names_that_the_listener_may_have),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
