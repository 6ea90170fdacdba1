/* Redis commands to effects, from the bytes of the protocol. */
#include "tests/unit/policy_help.h"

#include "policy/effects_redis.h"
#include "policy/facts.h"

#include "common/banned.h"

/* Words separated by ' ', commands by '|'. */
static void
put_commands(struct buf *out, const char *text)
{
	struct str rest = str_z(text), one, word;
	bool more = true;

	while (more) {
		AUTO_BUF struct buf words = BUF(65536);
		size_t n = 0;
		bool again = true;

		more = str_cut(&rest, '|', &one);
		if (!more)
			one = rest;
		for (; again; n++) {
			again = str_cut(&one, ' ', &word);
			if (!again)
				word = one;
			buf_printf(&words, "$%zu\r\n%.*s\r\n", word.n, STR_ARG(word));
		}
		buf_printf(out, "*%zu\r\n", n);
		buf_put_str(out, buf_str(&words));
	}
}

static struct redis_view
view_of(struct str bytes)
{
	AUTO_BUF struct buf json = BUF(FACTS_JSON_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	struct redis_view v = {.effects = EFFECT_invalid};
	struct err err = {0};

	if (facts_redis(bytes, &json, &err) != 0)
		return v;
	if (json_parse(buf_str(&json), "facts", &doc, &err) != 0)
		fail_msg("%s", err.msg);
	effects_redis(json_root(doc), &v);
	return v;
}

static void
assert_redis(const char *text, const char *effects, const char *names)
{
	AUTO_BUF struct buf bytes = BUF(65536), got = BUF(256), list = BUF(65536);
	struct str name[RESOURCES_MAX];
	struct redis_view v;
	size_t n;

	put_commands(&bytes, text);
	v = view_of(buf_str(&bytes));
	effect_put(&got, v.effects);
	if (!str_eqz(buf_str(&got), effects))
		fail_msg("%s: %.*s", text, STR_ARG(buf_str(&got)));
	n = resources_list(&v.resources, name);
	for (size_t i = 0; i < n; i++)
		buf_printf(&list, "%s%.*s", i != 0 ? " " : "", STR_ARG(name[i]));
	if (names != NULL && !str_eqz(buf_str(&list), names))
		fail_msg("%s: names \"%.*s\"", text, STR_ARG(buf_str(&list)));
}

static void
a_command_does_what_the_table_says(void **state UNUSED)
{
	assert_redis("GET a", "read", "a");
	assert_redis("get a", "read", "a");
	assert_redis("MGET a b c", "read", "a b c");
	assert_redis("SET a b", "overwrite", "a");
	assert_redis("SET a NX", "overwrite", "a");
	assert_redis("SET a b NX", "write", "a");
	assert_redis("INCR a", "write", "a");
	assert_redis("DEL a", "delete", "a");
	assert_redis("DEL a b c d e f", "bulk delete", "a b c d e f");
	assert_redis("UNLINK a", "delete", "a");
	assert_redis("RENAME a b", "delete overwrite", "a b");
	assert_redis("EXPIRE a 1", "delete", "a");
	assert_redis("LTRIM a 0 1", "bulk delete", "a");
	assert_redis("FLUSHALL", "bulk drop", "*");
	assert_redis("FLUSHALL ASYNC", "bulk drop", "*");
	assert_redis("EVAL x 0", "exec opaque", NULL);
	assert_redis("FCALL f 0", "exec opaque", NULL);
	assert_redis("CONFIG SET dir /root/.ssh", "exec priv", NULL);
	assert_redis("CONFIG GET requirepass", "secret", NULL);
	assert_redis("ACL WHOAMI", "read", NULL);
	assert_redis("ACL SETUSER x", "priv", NULL);
	assert_redis("MODULE LOAD x", "exec priv", NULL);
	assert_redis("REPLICAOF evil 6379", "net priv", NULL);
	assert_redis("SHUTDOWN", "disrupt", NULL);
	assert_redis("MONITOR", "secret", NULL);
	assert_redis("SELECT 1", "session", "");
	assert_redis("PING", "read", "");
	assert_redis("KEYS a*", "read", "*");
	assert_redis("OBJECT ENCODING a", "read", "a");
	assert_redis("CLIENT SETNAME x", "read", NULL);
	assert_redis("CLIENT KILL ID 1", "disrupt", NULL);
	assert_redis("SORT a", "read", NULL);
	assert_redis("SORT a STORE b", "overwrite read", NULL);
	assert_redis("COMMAND", "read", NULL);
	assert_redis("COMMAND FLY", "opaque", NULL);
	assert_redis("CONFIG", "opaque", NULL);
	assert_redis("FROBNICATE", "opaque", NULL);
}

static void
a_transaction_is_judged_as_a_whole(void **state UNUSED)
{
	AUTO_BUF struct buf bytes = BUF(65536);
	struct redis_view v;

	assert_redis("MULTI|GET a|EXEC", "read txn", "a");
	assert_redis("MULTI|GET a|DEL b|EXEC", "delete read txn", "a b");
	assert_redis("MULTI|EVAL x 0|EXEC", "exec opaque txn", NULL);
	put_commands(&bytes, "MULTI|GET a|GET b|EXEC");
	v = view_of(buf_str(&bytes));
	assert_int_equal(v.statements, 2);
}

static void
what_is_no_array_of_words_is_invalid(void **state UNUSED)
{
	static const struct {
		struct str bytes;
		uint32_t effects;
	} rows[] = {
	    {{"*1\r\n$4\r\nPING\r\n", 14}, EFFECT_read},
	    {{"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n", 28}, EFFECT_read},
	    {{"PING\r\n", 6}, EFFECT_invalid},
	    {{"", 0}, EFFECT_invalid},
	    {{"*0\r\n", 4}, EFFECT_invalid},
	    {{"*-1\r\n", 5}, EFFECT_invalid},
	    {{"*01\r\n$4\r\nPING\r\n", 15}, EFFECT_invalid},
	    {{"*1\r\n$+4\r\nPING\r\n", 15}, EFFECT_invalid},
	    {{"*1\r\n$5\r\nPING\r\n", 14}, EFFECT_invalid},
	    {{"*1\r\n$3\r\nPING\r\n", 14}, EFFECT_invalid},
	    {{"*1\n$4\nPING\n", 11}, EFFECT_invalid},
	    {{"*2\r\n$4\r\nPING\r\n", 14}, EFFECT_invalid},
	    {{"*1\r\n$4\r\nPING\r\nx", 15}, EFFECT_invalid},
	    {{"*9999\r\n", 7}, EFFECT_invalid},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (view_of(rows[i].bytes).effects != rows[i].effects)
			fail_msg("row %zu", i);
}

static void
a_key_that_cannot_be_told_stands_for_any(void **state UNUSED)
{
	static const char binary[] = "*2\r\n$3\r\nDEL\r\n$2\r\n\xff\x00\r\n";
	AUTO_BUF struct buf bytes = BUF(65536);
	struct redis_view v = view_of(str_mem(binary, sizeof(binary) - 1));
	struct str name[RESOURCES_MAX];

	assert_int_equal(resources_list(&v.resources, name), 1);
	assert_true(str_eqz(name[0], "*"));
	buf_put_z(&bytes, "*2\r\n$3\r\nDEL\r\n$200\r\n");
	for (int i = 0; i < 200; i++)
		buf_put_c(&bytes, 'k');
	buf_put_z(&bytes, "\r\n");
	v = view_of(buf_str(&bytes));
	assert_int_equal(resources_list(&v.resources, name), 1);
	assert_int_equal(name[0].n, 129);
	assert_true(str_has_suffix(name[0], "k*"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_command_does_what_the_table_says),
	    cmocka_unit_test(a_transaction_is_judged_as_a_whole),
	    cmocka_unit_test(what_is_no_array_of_words_is_invalid),
	    cmocka_unit_test(a_key_that_cannot_be_told_stands_for_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
