/*
 * Http targets of a policy: what their keys mean, what is refused, that a bundle holds them, which
 * target answers for a name. Each refusal stands as one change to a target that is good.
 */
#include "tests/unit/policy_help.h"

#include "common/xalloc.h"

#include "common/banned.h"

#define HASH_OF_A "5c5b3d5c8ec4cc4a2aef3e3a8d92c1e0a8a5b9c3a1f2a7a8f3bb7cbbdb80b2f5"

static char *
source(const char *targets)
{
	return xasprintf(
	    "{\"schema\":\"cofferdam-policy/1\",\"policy\":\"t\",\"serial\":1,"
	    "\"clock\":\"trusted\",\"targets\":{%s},\"rules\":[{\"id\":\"r\",\"permit\":"
	    "{\"effects\":{\"only\":[\"@data\"]}}}]}",
	    targets);
}

static int
parse(const char *targets, struct policy **ret, struct err *err)
{
	AUTO_FREE char *text = source(targets);

	return policy_parse(str_z(text), "p.json", NULL, NULL, ret, NULL, err);
}

static struct policy *
parsed(const char *targets)
{
	struct policy *p = NULL;
	struct err err = {0};

	if (parse(targets, &p, &err) != 0)
		fail_msg("%s: %s", targets, err.msg);
	return p;
}

/* NULL: accepted. */
static void
assert_targets(const char *targets, const char *why)
{
	AUTO(policy) struct policy *p = NULL;
	struct err err = {0};
	int rc = parse(targets, &p, &err);

	if (why == NULL && rc != 0)
		fail_msg("%s: %s", targets, err.msg);
	if (why != NULL && rc == 0)
		fail_msg("%s: accepted", targets);
	if (why != NULL && strstr(err.msg, why) == NULL)
		fail_msg("%s: \"%s\" does not say \"%s\"", targets, err.msg, why);
}

struct row {
	const char *keys, *why;
};

/* `keys` of one http target. */
static void
assert_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		AUTO_FREE char *t =
		    xasprintf("\"w\":{\"kind\":\"http\",\"env\":\"e\",%s}", rows[i].keys);

		assert_targets(t, rows[i].why);
	}
}

#define WEB "\"origin\":\"https://a.test\""
#define DOC "{a}"

static char *
whole_target(void)
{
	struct hash h = hash_sha256(STR(DOC));
	char hex[HASH_HEX_SIZE];

	hash_hex(&h, hex);
	return xasprintf(
	    "\"w\":{\"kind\":\"http\",\"env\":\"e\",\"origin\":\"https://a.test:8443\","
	    "\"credential\":\"c\",\"networks\":[\"fd00::/8\",\"10.0.0.0/8\"],"
	    "\"model\":\"openai\",\"cookies\":\"pass\",\"placeholder\":\"A_TOKEN\","
	    "\"max_body\":1048576,\"read_posts\":[\"/s\"],\"unsafe_gets\":\"/g\","
	    "\"graphql\":{\"paths\":[\"/q\"],\"effects\":{\"query.b\":[\"secret\"],"
	    "\"mutation.a\":[\"write\",\"drop\"]},\"persisted\":{\"%s\":\"" DOC "\"}}}",
	    hex);
}

static void
assert_whole(const struct policy_target *t)
{
	assert_true(t->tls && t->tls_verify && !t->wildcard && t->cookies);
	assert_true(str_eqz(t->host, "a.test") && t->port == 8443);
	assert_int_equal(t->model, TARGET_MODEL_OPENAI);
	assert_true(t->max_body == 1048576 && str_eqz(t->placeholder, "A_TOKEN"));
	assert_true(t->nnetworks == 2 && str_eqz(t->networks[0], "fd00::/8"));
	assert_true(t->nread_posts == 1 && str_eqz(t->read_posts[0], "/s"));
	assert_true(t->nunsafe_gets == 1 && str_eqz(t->unsafe_gets[0], "/g"));
	assert_true(t->ngraphql_paths == 1 && str_eqz(t->graphql_paths[0], "/q"));
	assert_int_equal(t->ngraphql_fields, 2);
	assert_true(str_eqz(t->graphql_fields[0].name, "mutation.a"));
	assert_int_equal(t->graphql_fields[0].effects, EFFECT_write | EFFECT_drop);
	assert_int_equal(t->graphql_fields[1].effects, EFFECT_secret);
	assert_true(t->npersisted == 1 && str_eqz(t->persisted[0].text, DOC));
}

static void
an_http_target_is_read_whole_and_its_bundle_holds_it(void **state UNUSED)
{
	AUTO_FREE char *text = whole_target();
	AUTO(policy) struct policy *p = parsed(text), *q = NULL;
	AUTO_BUF struct buf bundle = BUF(JSON_SIZE_MAX);
	struct err err = {0};

	assert_whole(policy_target(p, STR("w")));
	assert_int_equal(policy_bundle(p, &bundle, NULL), 0);
	if (policy_load(buf_str(&bundle), &q, &err) != 0)
		fail_msg("%s", err.msg);
	assert_whole(policy_target(q, STR("w")));
	assert_true(hash_eq(policy_digest(p), policy_digest(q)));
}

static void
what_is_not_said_is_not_in_the_bundle(void **state UNUSED)
{
	static const char want[] =
	    "\"w\":{\"env\":\"e\",\"kind\":\"http\",\"origin\":\"https://a.test\"}";
	AUTO(policy)
	struct policy *p =
	    parsed("\"w\":{\"kind\":\"http\",\"env\":\"e\"," WEB ",\"cookies\":\"refuse\"}");
	const struct policy_target *t = policy_target(p, STR("w"));
	AUTO_BUF struct buf bundle = BUF(JSON_SIZE_MAX);

	assert_true(t->tls && t->port == 443 && t->max_body == 0 && !t->cookies);
	assert_int_equal(policy_bundle(p, &bundle, NULL), 0);
	assert_non_null(memmem(bundle.p, bundle.n, want, sizeof(want) - 1));
}

static void
an_origin_is_a_host_as_requests_spell_it(void **state UNUSED)
{
	static const struct row rows[] = {
	    {"\"origin\":\"https://[2001:db8::1]\"", NULL},
	    {"\"origin\":\"https://[::1]:8443\"", NULL},
	    {"\"origin\":\"http://[::1]:8080\"", NULL},
	    {"\"origin\":\"https://10.0.0.1\"", NULL},
	    {"\"origin\":\"https://a-b.test\"", NULL},
	    {"\"origin\":\"https://2130706433\"", "origin's host"},
	    {"\"origin\":\"https://0177.0.0.1\"", "origin's host"},
	    {"\"origin\":\"https://127.1\"", "origin's host"},
	    {"\"origin\":\"https://[::01]\"", "origin's host"},
	    {"\"origin\":\"https://[10.0.0.1]\"", "origin's host"},
	    {"\"origin\":\"https://[::1\"", "origin's host"},
	    {"\"origin\":\"https://[::1]x\"", "origin's host"},
	    {"\"origin\":\"https://::1\"", "origin's"},
	    {"\"origin\":\"https://a.test.\"", "origin's host"},
	    {"\"origin\":\"https://a..test\"", "origin's host"},
	    {"\"origin\":\"https://a.test:\"", "origin's host"},
	    {"\"origin\":\"https://a.test:065\"", "origin's port"},
	    {"\"origin\":\"https://a_b.test\"", "origin's host"},
	    {"\"origin\":\"https://"
	     "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg.t"
	     "est\"",
		"origin's host"},
	    {WEB ",\"tls\":\"verify-full\"", "the origin says tls"},
	    {"\"host\":\"a.test\",\"port\":8443", NULL},
	    {"\"host\":\"127.0.0.1\",\"tls\":\"off\"", NULL},
	};

	assert_rows(rows, ARRAY_LEN(rows));
}

static void
a_wildcard_stands_for_one_label_and_carries_nothing(void **state UNUSED)
{
	static const struct row rows[] = {
	    {"\"origin\":\"https://*.ok.test\"", NULL},
	    {"\"origin\":\"https://*.ok.test:8443\"", NULL},
	    {"\"origin\":\"https://*.ok.test\",\"networks\":[\"10.0.0.0/8\"]", NULL},
	    {"\"origin\":\"https://*.test\"", "origin's host"},
	    {"\"origin\":\"https://*\"", "origin's host"},
	    {"\"origin\":\"https://*.\"", "origin's host"},
	    {"\"origin\":\"https://*.*.ok.test\"", "origin's host"},
	    {"\"origin\":\"https://a*.ok.test\"", "origin's host"},
	    {"\"origin\":\"https://a.*.test\"", "origin's host"},
	    {"\"origin\":\"https://*.0.0.1\"", "origin's host"},
	    {"\"origin\":\"https://*.10.0.0.1\"", "origin's host"},
	    {"\"origin\":\"http://*.ok.test\"", "loopback"},
	    {"\"origin\":\"https://*.ok.test\",\"credential\":\"c\"", "cannot have a credential"},
	    {"\"origin\":\"https://*.ok.test\",\"address\":\"10.0.0.1\"", "cannot have an address"},
	    {"\"origin\":\"https://*.ok.test\",\"model\":\"openai\"", "cannot be a model"},
	};

	assert_rows(rows, ARRAY_LEN(rows));
	assert_targets("\"r\":{\"kind\":\"git\",\"env\":\"e\",\"origin\":\"https://*.ok.test\"}",
	    "origin's host");
}

static void
networks_are_written_in_one_way(void **state UNUSED)
{
	static const struct row rows[] = {
	    {WEB ",\"networks\":[\"10.0.0.0/8\",\"fd00::/8\",\"127.0.0.1/32\",\"::1/128\"]", NULL},
	    {WEB ",\"networks\":\"192.168.0.0/16\"", NULL},
	    {WEB ",\"networks\":[\"10.0.0.1/8\"]", "a network must be"},
	    {WEB ",\"networks\":[\"10.0.0.0\"]", "a network must be"},
	    {WEB ",\"networks\":[\"10.0.0.0/33\"]", "a network must be"},
	    {WEB ",\"networks\":[\"10.0.0.0/08\"]", "a network must be"},
	    {WEB ",\"networks\":[\"0.0.0.0/0\"]", "a network must be"},
	    {WEB ",\"networks\":[\"8.0.0.0/7\"]", "a network must be"},
	    {WEB ",\"networks\":[\"10/8\"]", "a network must be"},
	    {WEB ",\"networks\":[\"FD00::/8\"]", "a network must be"},
	    {WEB ",\"networks\":[\"fd00:0::/8\"]", "a network must be"},
	    {WEB ",\"networks\":[\"fd00::/129\"]", "a network must be"},
	    {WEB ",\"networks\":[\"a.test/8\"]", "a network must be"},
	    {WEB ",\"networks\":[]", "a list must have"},
	    {WEB ",\"networks\":[\"10.0.0.0/8\"],\"address\":\"10.0.0.1\"",
		"either an address or networks"},
	    {WEB ",\"address\":\"10.0.0.1\"", NULL},
	    {"\"networks\":[\"10.0.0.0/8\"]", "has networks, but no host"},
	};

	assert_rows(rows, ARRAY_LEN(rows));
}

static void
a_proxy_on_the_way_is_said_in_full_and_alone(void **state UNUSED)
{
	static const struct row rows[] = {
	    {WEB ",\"via\":\"http://proxy.corp:3128\"", NULL},
	    {WEB ",\"via\":\"https://proxy.corp:3128\",\"via_credential\":\"p\"", NULL},
	    {WEB ",\"via\":\"http://127.0.0.1:3128\",\"via_credential\":\"p\"", NULL},
	    {WEB ",\"via\":\"http://localhost:3128\",\"via_credential\":\"p\"", NULL},
	    {WEB ",\"via\":\"http://[::1]:3128\",\"via_credential\":\"p\"", NULL},
	    {WEB ",\"via\":\"http://10.0.0.1:3128\"", NULL},
	    {"\"origin\":\"https://*.ok.test\",\"via\":\"http://p.test:1\"", NULL},
	    {WEB ",\"via\":\"http://proxy.corp\"", "via must be"},
	    {WEB ",\"via\":\"http://proxy.corp:\"", "via must be"},
	    {WEB ",\"via\":\"http://proxy.corp:0\"", "via must be"},
	    {WEB ",\"via\":\"http://proxy.corp:65536\"", "via must be"},
	    {WEB ",\"via\":\"proxy.corp:3128\"", "via must be"},
	    {WEB ",\"via\":\"socks5://proxy.corp:3128\"", "via must be"},
	    {WEB ",\"via\":\"http://:3128\"", "via must be"},
	    {WEB ",\"via\":\"http://u:p@proxy.corp:3128\"", "via must be"},
	    {WEB ",\"via\":\"http://proxy.corp:3128/\"", "via must be"},
	    {WEB ",\"via\":\"http://Proxy.corp:3128\"", "via must be"},
	    {WEB ",\"via\":\"http://127.1:3128\"", "via must be"},
	    {WEB ",\"via\":\"http://[0:0::1]:3128\"", "via must be"},
	    {WEB ",\"via\":\"\"", ""},
	    {WEB ",\"via\":1", ""},
	    {WEB ",\"via_credential\":\"p\"", "no via"},
	    {WEB ",\"via\":\"http://p.test:1\",\"via_credential\":\"p\"", "in clear"},
	    {WEB ",\"via\":\"http://10.0.0.1:1\",\"via_credential\":\"p\"", "in clear"},
	    {WEB ",\"via\":\"http://p.test:1\",\"address\":\"10.0.0.1\"", "neither address"},
	    {WEB ",\"via\":\"http://p.test:1\",\"networks\":[\"10.0.0.0/8\"]", "neither address"},
	    {"\"origin\":\"http://localhost\",\"via\":\"http://p.test:1\"", "is http"},
	    {"\"via\":\"http://p.test:1\"", "no host"},
	};

	assert_rows(rows, ARRAY_LEN(rows));
	assert_targets("\"g\":{\"kind\":\"redis\",\"env\":\"e\",\"via\":\"http://p.test:1\"}",
	    "has no meaning for kind redis");
}

static void
assert_via(const struct policy_target *t)
{
	assert_true(str_eqz(t->via, "https://[fd00::1]:3128") && t->via_tls);
	assert_true(str_eqz(t->via_host, "fd00::1") && t->via_port == 3128);
	assert_true(str_eqz(t->via_credential, "p"));
}

static void
a_bundle_holds_the_proxy(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = parsed("\"w\":{\"kind\":\"http\",\"env\":\"e\"," WEB
				  ",\"via\":\"https://[fd00::1]:3128\",\"via_credential\":\"p\"}"),
		      *q = NULL;
	AUTO_BUF struct buf bundle = BUF(JSON_SIZE_MAX);
	struct err err = {0};

	assert_via(policy_target(p, STR("w")));
	assert_int_equal(policy_bundle(p, &bundle, NULL), 0);
	if (policy_load(buf_str(&bundle), &q, &err) != 0)
		fail_msg("%s", err.msg);
	assert_via(policy_target(q, STR("w")));
	assert_true(hash_eq(policy_digest(p), policy_digest(q)));
}

static void
upgrades_are_said_protocol_by_protocol(void **state UNUSED)
{
	static const struct row rows[] = {
	    {WEB ",\"upgrade\":{\"websocket\":[\"read\",\"write\"],\"SPDY/3.1\":[\"@change\"]}",
		NULL},
	    {WEB ",\"upgrade\":{\"tcp\":[\"write\"]},\"upgrade_paths\":[\"/live\"]", NULL},
	    {WEB ",\"upgrade\":{}", "from 1 to 8 protocols, names 0"},
	    {WEB ",\"upgrade\":[\"websocket\"]", "upgrade must be"},
	    {WEB ",\"upgrade\":{\"websocket\":[]}", "has no effects"},
	    {WEB ",\"upgrade\":{\"websocket\":[\"fly\"]}", "fly"},
	    {WEB ",\"upgrade\":{\"h2c\":[\"read\"]}", "neither HTTP nor TLS"},
	    {WEB ",\"upgrade\":{\"HTTP/2.0\":[\"read\"]}", "neither HTTP nor TLS"},
	    {WEB ",\"upgrade\":{\"tls/1.0\":[\"read\"]}", "neither HTTP nor TLS"},
	    {WEB ",\"upgrade\":{\"a b\":[\"read\"]}", "a protocol is NAME"},
	    {WEB ",\"upgrade\":{\"a/\":[\"read\"]}", "a protocol is NAME"},
	    {WEB ",\"upgrade\":{\"WebSocket\":[\"read\"],\"websocket\":[\"read\"]}",
		"stands twice"},
	    {WEB ",\"upgrade_paths\":[\"/live\"]", "upgrade_paths without an upgrade"},
	    {WEB ",\"upgrade\":{\"tcp\":[\"write\"]},\"upgrade_paths\":[\"/l?\"]",
		"holds '?' or '*'"},
	    {WEB ",\"model\":\"openai\",\"upgrade\":{\"websocket\":[\"read\"]}", "is a model"},
	};

	assert_rows(rows, ARRAY_LEN(rows));
	assert_targets("\"g\":{\"kind\":\"git\",\"env\":\"e\",\"upgrade\":{\"tcp\":[\"read\"]}}",
	    "has no meaning for kind git");
	assert_targets(
	    "\"g\":{\"kind\":\"k8s\",\"env\":\"e\",\"upgrade\":{\"tcp\":[\"read\"]}}", NULL);
}

static void
assert_upgrade(const struct policy_target *t)
{
	assert_true(t->nupgrades == 2 && t->nupgrade_paths == 1);
	assert_true(str_eqz(t->upgrades[0].protocol, "SPDY/3.1"));
	assert_int_equal(t->upgrades[0].effects, EFFECT_write | EFFECT_schema);
	assert_true(str_eqz(t->upgrades[1].protocol, "websocket"));
	assert_int_equal(t->upgrades[1].effects, EFFECT_read);
	assert_true(str_eqz(t->upgrade_paths[0], "/live"));
}

static void
a_bundle_holds_the_upgrades(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = parsed(
			  "\"w\":{\"kind\":\"http\",\"env\":\"e\"," WEB
			  ",\"upgrade\":{\"websocket\":[\"read\"],\"SPDY/3.1\":[\"@change\"]},"
			  "\"upgrade_paths\":\"/live\"}"),
		      *q = NULL;
	AUTO_BUF struct buf bundle = BUF(JSON_SIZE_MAX);
	struct err err = {0};

	assert_upgrade(policy_target(p, STR("w")));
	assert_int_equal(policy_bundle(p, &bundle, NULL), 0);
	if (policy_load(buf_str(&bundle), &q, &err) != 0)
		fail_msg("%s", err.msg);
	assert_upgrade(policy_target(q, STR("w")));
	assert_true(hash_eq(policy_digest(p), policy_digest(q)));
}

static void
other_keys_are_read_within_their_bounds(void **state UNUSED)
{
	static const struct row rows[] = {
	    {WEB ",\"model\":\"anthropic\"", NULL},
	    {WEB ",\"model\":\"gemini\"", "model must be"},
	    {WEB ",\"model\":1", "model must be"},
	    {WEB ",\"cookies\":\"pass\"", NULL},
	    {WEB ",\"cookies\":\"yes\"", "cookies must be"},
	    {WEB ",\"cookies\":true", "cookies must be"},
	    {WEB ",\"max_body\":1", NULL},
	    {WEB ",\"max_body\":1099511627776", NULL},
	    {WEB ",\"max_body\":0", "max_body must be"},
	    {WEB ",\"max_body\":1099511627777", "max_body must be"},
	    {WEB ",\"credential\":\"c\",\"placeholder\":\"GITHUB_TOKEN\"", NULL},
	    {WEB ",\"placeholder\":\"GITHUB_TOKEN\"", "no credential that it stands for"},
	    {WEB ",\"credential\":\"c\",\"placeholder\":\"1TOKEN\"", "placeholder must"},
	    {WEB ",\"credential\":\"c\",\"placeholder\":\"token\"", "placeholder must"},
	    {WEB ",\"credential\":\"c\",\"placeholder\":\"A=B\"", "placeholder must"},
	    {WEB ",\"credential\":\"c\",\"placeholder\":\"PATH\"", "placeholder must"},
	    {WEB ",\"credential\":\"c\",\"placeholder\":\"LD_PRELOAD\"", "placeholder must"},
	    {WEB ",\"credential\":\"c\",\"placeholder\":\"HTTPS_PROXY\"", "placeholder must"},
	    {WEB ",\"read_posts\":[\"/v1/search\"],\"unsafe_gets\":[\"/run\"]", NULL},
	    {WEB ",\"read_posts\":[\"v1/search\"]", "does not begin with '/'"},
	    {WEB ",\"read_posts\":[\"/v1/search?a\"]", "holds '?' or '*'"},
	    {WEB ",\"unsafe_gets\":[\"/*\"]", "holds '?' or '*'"},
	    {WEB ",\"unsafe_gets\":[\"/a/../b\"]", "a dot segment"},
	    {WEB ",\"unsafe_gets\":[\"/a b\"]", "must be escaped"},
	    {WEB ",\"unsafe_gets\":[\"/a%20b\"]", NULL},
	};
	static const char *const keys[] = {"model\":\"openai", "networks\":\"10.0.0.0/8",
	    "cookies\":\"pass", "placeholder\":\"A", "read_posts\":\"/a", "unsafe_gets\":\"/a"};

	assert_rows(rows, ARRAY_LEN(rows));
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		AUTO_FREE char *t =
		    xasprintf("\"g\":{\"kind\":\"redis\",\"env\":\"e\",\"%s\"}", keys[i]);

		assert_targets(t, "has no meaning for kind redis");
	}
}

#define GQL(x) WEB ",\"graphql\":{" x "}"

static void
graphql_is_said_field_by_field(void **state UNUSED)
{
	static const struct row rows[] = {
	    {GQL("\"paths\":[\"/q\"]"), NULL},
	    {GQL("\"effects\":{\"mutation.volumeDelete\":[\"drop\"],\"query._x1\":[\"@data\"]}"),
		NULL},
	    {GQL("\"persisted\":{\"" HASH_OF_A "\":\"{a}\"}"), "the document's SHA-256 is"},
	    {GQL(""), "graphql says nothing"},
	    {GQL("\"path\":[\"/q\"]"), "unknown key \"path\""},
	    {GQL("\"effects\":{}"), "must name from 1"},
	    {GQL("\"effects\":{\"volumeDelete\":[\"drop\"]}"), "a field must be"},
	    {GQL("\"effects\":{\"subscription.a\":[\"read\"]}"), "a field must be"},
	    {GQL("\"effects\":{\"Mutation.a\":[\"read\"]}"), "a field must be"},
	    {GQL("\"effects\":{\"mutation.a.b\":[\"read\"]}"), "a field must be"},
	    {GQL("\"effects\":{\"mutation.1a\":[\"read\"]}"), "a field must be"},
	    {GQL("\"effects\":{\"mutation.\":[\"read\"]}"), "a field must be"},
	    {GQL("\"effects\":{\"mutation.a\":[]}"), "has no effects"},
	    {GQL("\"effects\":{\"mutation.a\":[\"drp\"]}"), "is no effect"},
	    {GQL("\"effects\":{\"mutation.a\":\"drop\"}"), "a list of effects"},
	    {GQL("\"persisted\":{\"abc\":\"{a}\"}"), "must be its SHA-256"},
	    {GQL("\"persisted\":{}"), "must hold from 1"},
	};

	assert_rows(rows, ARRAY_LEN(rows));
}

static void
assert_document(const char *json_text, struct str text, const char *why)
{
	struct hash h = hash_sha256(text);
	AUTO_FREE char *t = NULL;
	char hex[HASH_HEX_SIZE];

	hash_hex(&h, hex);
	t = xasprintf(
	    "\"w\":{\"kind\":\"http\",\"env\":\"e\"," GQL("\"persisted\":{\"%s\":\"%s\"}") "}", hex,
	    json_text);
	assert_targets(t, why);
}

static void
a_persisted_document_must_be_one(void **state UNUSED)
{
	assert_document("query A{a}\\n\\tquery B{b}", STR("query A{a}\n\tquery B{b}"), NULL);
	assert_document("{a", STR("{a"), "a persisted document: GraphQL:1:3: ");
	assert_document("fragment F on T{a}", STR("fragment F on T{a}"), "there is no operation");
	assert_document("{a}{b}", STR("{a}{b}"), "a persisted document: GraphQL: ");
	assert_document("{a}#\\u00e9", STR("{a}#\xc3\xa9"), "printable ASCII");
}

static void
two_targets_cannot_answer_for_one_name(void **state UNUSED)
{
#define TWO(a, b)                                                                                 \
	"\"x\":{\"kind\":\"http\",\"env\":\"e\"," a "},\"y\":{\"kind\":\"http\",\"env\":\"e\"," b \
	"}"
	assert_targets(TWO(WEB, WEB), "targets x and y have the same host and port");
	assert_targets(TWO(WEB, "\"origin\":\"https://a.test:443\""), "the same host and port");
	assert_targets(TWO(WEB, "\"host\":\"a.test\""), "the same host and port");
	assert_targets(
	    TWO("\"origin\":\"https://localhost:80\"", "\"origin\":\"http://localhost\""),
	    "the same host and port");
	assert_targets(TWO("\"origin\":\"https://*.ok.test\"", "\"origin\":\"https://*.ok.test\""),
	    "the same host and port");
	assert_targets(TWO(WEB, "\"origin\":\"https://a.test:8443\""), NULL);
	assert_targets(
	    TWO("\"origin\":\"https://*.ok.test\"", "\"origin\":\"https://ok.test\""), NULL);
	assert_targets(
	    TWO(WEB ",\"credential\":\"c\",\"placeholder\":\"A\"",
		"\"origin\":\"https://b.test\",\"credential\":\"c\",\"placeholder\":\"A\""),
	    "the same placeholder A");
	assert_targets(TWO("\"env\":\"e\"", WEB), "duplicate key");
	assert_targets(
	    "\"x\":{\"kind\":\"http\",\"env\":\"e\"},\"y\":{\"kind\":\"http\",\"env\":\"e\"}",
	    NULL);
}

static void
assert_origin(const struct policy *p, bool tls, const char *host, uint16_t port, const char *want)
{
	const struct policy_target *t = policy_target_by_origin(p, tls, str_z(host), port);

	if ((t == NULL) != (want == NULL) || (t != NULL && !str_eqz(t->id, want)))
		fail_msg("%s:%u: %.*s", host, port, STR_ARG(t != NULL ? t->id : STR("none")));
}

static void
the_exact_name_comes_before_the_wildcard(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p =
	    parsed("\"any\":{\"kind\":\"http\",\"env\":\"e\",\"origin\":\"https://*.ok.test\"},"
		   "\"one\":{\"kind\":\"http\",\"env\":\"e\",\"origin\":\"https://b.ok.test\"},"
		   "\"plain\":{\"kind\":\"http\",\"env\":\"e\",\"origin\":\"http://127.0.0.1:80\"},"
		   "\"six\":{\"kind\":\"http\",\"env\":\"e\",\"origin\":\"https://[::1]:8443\"},"
		   "\"repo\":{\"kind\":\"git\",\"env\":\"e\",\"origin\":\"https://git.test\"}");

	assert_origin(p, true, "a.ok.test", 443, "any");
	assert_origin(p, true, "b.ok.test", 443, "one");
	assert_origin(p, false, "127.0.0.1", 80, "plain");
	assert_origin(p, true, "::1", 8443, "six");
	assert_origin(p, true, "ok.test", 443, NULL);
	assert_origin(p, true, "evilok.test", 443, NULL);
	assert_origin(p, true, "a.b.ok.test", 443, NULL);
	assert_origin(p, true, ".ok.test", 443, NULL);
	assert_origin(p, true, "ok.test.evil.test", 443, NULL);
	assert_origin(p, true, "a.ok.test", 8443, NULL);
	assert_origin(p, false, "a.ok.test", 443, NULL);
	assert_origin(p, true, "127.0.0.1", 80, NULL);
	assert_origin(p, true, "git.test", 443, "repo");
	assert_origin(p, false, "git.test", 443, NULL);
	assert_origin(p, true, "", 443, NULL);
}

static void
assert_case(const char *input, const char *why)
{
	AUTO_FREE char *text = xasprintf(
	    "{\"schema\":\"cofferdam-policy/1\",\"policy\":\"t\",\"serial\":1,"
	    "\"targets\":{\"w\":{\"kind\":\"http\",\"env\":\"e\"},"
	    "\"db\":{\"kind\":\"postgres\",\"env\":\"e\"}},\"rules\":[{\"id\":\"r\",\"permit\":"
	    "{\"effects\":{\"only\":[\"@data\"]}}}],\"cases\":[{\"id\":\"c\","
	    "\"at\":\"2026-01-01T00:00:00Z\",\"input\":{%s},\"expect\":{\"verdict\":\"deny\"}}]}",
	    input);
	struct policy *p = NULL;
	struct err err = {0};
	int rc = policy_parse(str_z(text), "p.json", NULL, NULL, &p, NULL, &err);

	policy_free(p);
	if (why == NULL && rc != 0)
		fail_msg("%s: %s", input, err.msg);
	if (why != NULL && (rc == 0 || strstr(err.msg, why) == NULL))
		fail_msg("%s: \"%s\" does not say \"%s\"", input, err.msg, why);
}

static void
a_case_of_an_http_target_is_a_request(void **state UNUSED)
{
#define W "\"target\":\"w\","
#define DB "\"target\":\"db\","
#define GET "\"method\":\"GET\",\"path\":\"/\""
	assert_case(W GET, NULL);
	assert_case(
	    W GET ",\"headers\":[[\"A\",\"b\"]],\"body\":\"\",\"content_type\":\"a/b\"", NULL);
	assert_case(DB "\"sql\":\"SELECT 1\"", NULL);
	assert_case(W "\"sql\":\"SELECT 1\"", "input must say one action of a http target");
	assert_case(W "\"method\":\"GET\"", "input must say one action");
	assert_case(W "\"path\":\"/\"", "input must say one action");
	assert_case(W GET ",\"sql\":\"SELECT 1\"", "input must say one action");
	assert_case(DB GET, "input must say one action of a postgres target");
	assert_case(DB "\"agent\":\"a\"", "input must say one action");
	assert_case(DB "\"sql\":\"SELECT 1\",\"body\":\"x\"", "\"body\" has no meaning");
	assert_case(W GET ",\"headers\":[\"A: b\"]", "a header must be");
	assert_case(W GET ",\"headers\":[[\"A\"]]", "a header must be");
	assert_case(W GET ",\"headers\":{\"A\":\"b\"}", "headers must be an array");
	assert_case("\"target\":\"x\"," GET, "no target is named \"x\"");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_http_target_is_read_whole_and_its_bundle_holds_it),
	    cmocka_unit_test(what_is_not_said_is_not_in_the_bundle),
	    cmocka_unit_test(an_origin_is_a_host_as_requests_spell_it),
	    cmocka_unit_test(a_wildcard_stands_for_one_label_and_carries_nothing),
	    cmocka_unit_test(networks_are_written_in_one_way),
	    cmocka_unit_test(a_proxy_on_the_way_is_said_in_full_and_alone),
	    cmocka_unit_test(a_bundle_holds_the_proxy),
	    cmocka_unit_test(upgrades_are_said_protocol_by_protocol),
	    cmocka_unit_test(a_bundle_holds_the_upgrades),
	    cmocka_unit_test(other_keys_are_read_within_their_bounds),
	    cmocka_unit_test(graphql_is_said_field_by_field),
	    cmocka_unit_test(a_persisted_document_must_be_one),
	    cmocka_unit_test(two_targets_cannot_answer_for_one_name),
	    cmocka_unit_test(a_case_of_an_http_target_is_a_request),
	    cmocka_unit_test(the_exact_name_comes_before_the_wildcard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
