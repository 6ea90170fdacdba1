/* The two streams that come out of a sandbox, as liars write them: of files, of contexts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "agent/sandbox/sandbox_cell.h"
#include "agent/sandbox/sandbox_frame.h"

#include "common/banned.h"

static int
keep_data(void *arg, struct str bytes, struct err *err UNUSED)
{
	buf_put_str(arg, bytes);
	return 0;
}

static int
keep_entry(void *arg, const struct frame_entry *e, struct err *err UNUSED)
{
	frame_entry_json(e, arg);
	return 0;
}

static int
keep_change(void *arg, const struct frame_change *c, struct err *err UNUSED)
{
	frame_change_json(c, arg);
	return 0;
}

static const struct frame_ops keep = {keep_data, keep_entry, keep_change}, none = {0};

static void
is(int rc, const struct err *e, int want, const char *words, struct buf *said, const char *calls)
{
	if (rc != want || (rc != 0 && strstr(e->msg, words) == NULL))
		fail_msg("%d \"%s\", wanted %d \"%s\"", rc, e->msg, want, words);
	if (calls != NULL && !str_eqz(buf_str(said), calls))
		fail_msg("%.*s\nwanted %s", STR_ARG(buf_str(said)), calls);
	buf_free(said);
}

/* However the stream is cut. */
static void
reads_as(struct str s, const struct frame_ops *ops, int want, const char *words, const char *calls)
{
	for (size_t step = 1; step <= s.n; step = step < s.n || step < 8 ? step + 1 : step * 2) {
		struct buf said = BUF(100000);
		struct frame_reader f;
		struct err e = {0};
		int rc = 0;

		frame_reader_init(&f, ops, &said);
		for (size_t i = 0; i < s.n && rc == 0; i += step)
			rc = frame_feed(&f, str_mem(s.p + i, s.n - i < step ? s.n - i : step), &e);
		frame_reader_free(&f);
		is(rc, &e, want, words, &said, calls);
	}
}
#define READS(lit, ops, rc, words) reads_as(STR(lit), ops, rc, words, NULL)
#define SHOWS(lit, calls) reads_as(STR(lit), &keep, 0, "", calls)

#define END0 "Z\0\0\0\10\0\0\0\0\0\0\0\0"
#define ENTRY(kind, size, mode, time, path, n) "N\0\0\0" n kind size mode time path "\0\0\0\0"

static void
stream_of_files_is_believed_when_it_is_whole(void **state UNUSED)
{
	SHOWS("D\0\0\0\2ab"
	      "D\0\0\0\1c"
	      "Z\0\0\0\10\0\0\0\0\0\0\0\3",
	    "abc");
	SHOWS("D\0\0\0\15" END0 "Z\0\0\0\10\0\0\0\0\0\0\0\15", NULL);
	READS(END0, &none, 0, "");
	READS(END0 "Z", &none, ERR_PROTOCOL, "more behind its end");
	READS("Z\0\0\0\10\0\0\0\0\0\0\0\1", &none, ERR_PROTOCOL, "bytes are missing");
	READS("D\0\0\0\1a" END0, &keep, ERR_PROTOCOL, "bytes are missing");
	READS("D\0\0\0\1a", &none, ERR_PROTOCOL, "does not belong there");
	READS("Q\0\0\0\1a", &keep, ERR_PROTOCOL, "does not belong there");
	READS("D\0\1\0\1a", &keep, ERR_PROTOCOL, "empty or too large");
	READS("D\0\0\0\0a", &keep, ERR_PROTOCOL, "empty or too large");
	READS("N\377\377\377\377a", &keep, ERR_PROTOCOL, "empty or too large");
}

#define SIZE1 "\0\0\0\0\0\0\0\1"
#define TIME2 "\0\0\0\0\0\0\0\2"
#define RW "\0\0\1\244"
#define PATHX "\0\0\0\1x"

static void
entry_is_checked_part_by_part(void **state UNUSED)
{
	SHOWS(ENTRY("f", SIZE1, RW, TIME2, PATHX, "\36"),
	    "{\"mode\":420,\"mtime_ms\":2,\"name\":\"x\",\"path\":\"x\",\"size\":1,\"type\":"
	    "\"file\"}");
	/* Beyond what a number of JSON holds: the nearest that it does. */
	SHOWS(
	    ENTRY("f", "\377\377\377\377\377\377\377\377", RW, "\200\0\0\0\0\0\0\0", PATHX, "\36"),
	    "{\"mode\":420,\"mtime_ms\":-9007199254740991,\"name\":\"x\",\"path\":\"x\",\"size\":"
	    "9007199254740991,\"type\":\"file\"}");
	/* No UTF-8: replaced, and whole in hex. A quote and a line feed stay inside the string. */
	SHOWS(ENTRY("d", SIZE1, RW, TIME2, "\0\0\0\5a/\"\n\377", "\42"),
	    "{\"bytes\":\"612f220aff\",\"mode\":420,\"mtime_ms\":2,\"name\":"
	    "\"\\\"\\n\357\277\275\","
	    "\"path\":\"a/\\\"\\n\357\277\275\",\"size\":1,\"type\":\"dir\"}");
	READS(ENTRY("x", SIZE1, RW, TIME2, PATHX, "\36"), &keep, ERR_PROTOCOL, "malformed entry");
	READS(ENTRY("f", SIZE1, "\0\0\20\0", TIME2, PATHX, "\36"), &keep, ERR_PROTOCOL,
	    "malformed entry");
	READS(ENTRY("f", SIZE1, RW, TIME2, "\0\0\0\1\0", "\36"), &keep, ERR_PROTOCOL,
	    "malformed entry");
	READS(ENTRY("f", SIZE1, RW, TIME2, "\0\0\0\0", "\35"), &keep, ERR_PROTOCOL,
	    "malformed entry");
	READS(ENTRY("f", SIZE1, RW, TIME2, "\0\0\0\2x", "\36"), &keep, ERR_PROTOCOL,
	    "malformed entry");
	/* A target belongs to a link. */
	READS("N\0\0\0\37"
	      "f" SIZE1 RW TIME2 PATHX "\0\0\0\1y",
	    &keep, ERR_PROTOCOL, "malformed entry");
	SHOWS("N\0\0\0\37"
	      "l" SIZE1 RW TIME2 PATHX "\0\0\0\1y",
	    "{\"mode\":420,\"mtime_ms\":2,\"name\":\"x\",\"path\":\"x\",\"size\":1,\"target\":"
	    "\"y\","
	    "\"type\":\"link\"}");
}

static void
change_and_error_are_of_a_few_kinds(void **state UNUSED)
{
	SHOWS("C\0\0\0\13"
	      "r" PATHX "\0\0\0\1y",
	    "{\"op\":\"rename\",\"path\":\"x\",\"to\":\"y\"}");
	SHOWS("C\0\0\0\12"
	      "d" PATHX "\0\0\0\0",
	    "{\"op\":\"remove\",\"path\":\"x\"}");
	SHOWS("C\0\0\0\11"
	      "o"
	      "\0\0\0\0"
	      "\0\0\0\0",
	    "{\"op\":\"overflow\",\"path\":\"\"}");
	READS("C\0\0\0\13"
	      "d" PATHX "\0\0\0\1y",
	    &keep, ERR_PROTOCOL, "malformed change");
	READS("C\0\0\0\12"
	      "r" PATHX "\0\0\0\0",
	    &keep, ERR_PROTOCOL, "malformed change");
	READS("C\0\0\0\12"
	      "\0" PATHX "\0\0\0\0",
	    &keep, ERR_PROTOCOL, "malformed change");
	READS("E\0\0\0\12\0\0\0\10\0\0\0\2a\n", &none, ERR_NOT_FOUND, "sandbox: a?");
	READS("E\0\0\0\12\0\0\0\12\0\0\0\2a\377", &none, ERR_DENIED, "sandbox: a?");
	/* Approval is no matter of files. */
	READS("E\0\0\0\12\0\0\0\13\0\0\0\2ab", &none, ERR_PROTOCOL, "unknown error");
	READS("E\0\0\0\12\0\0\0\0\0\0\0\2ab", &none, ERR_PROTOCOL, "unknown error");
	READS("E\0\0\0\12\0\0\0\10\0\0\0\3ab", &none, ERR_PROTOCOL, "malformed error");
}

/* --- contexts ------------------------------------------------------------------------ */

static void
cell_bundle(void *arg, bool result, struct str json)
{
	buf_put_z(arg, result ? "V" : "B");
	buf_put_str(arg, json);
}

static void
cell_end(void *arg, enum cell_status s, struct str name, struct str value, struct str trace)
{
	buf_printf(
	    arg, "E%d[%.*s|%.*s|%.*s]", (int)s, STR_ARG(name), STR_ARG(value), STR_ARG(trace));
}

static void
cell_reads_as(struct str s, bool begun, int want, const char *words, const char *calls)
{
	static const struct cell_ops ops = {cell_bundle, cell_end};

	for (size_t step = 1; step <= s.n; step = step < s.n || step < 8 ? step + 1 : step * 2) {
		struct buf said = BUF(100000), sent = BUF(100);
		struct cell_reader c;
		struct err e = {0};
		int rc = 0;

		cell_reader_init(&c, &ops, &said);
		c.greeted = begun;
		if (begun)
			cell_begin(&c, STR("1"), &sent);
		for (size_t i = 0; i < s.n && rc == 0; i += step)
			rc = cell_feed(&c, str_mem(s.p + i, s.n - i < step ? s.n - i : step), &e);
		cell_reader_free(&c);
		buf_free(&sent);
		is(rc, &e, want, words, &said, calls);
	}
}
#define CELL(lit, calls) cell_reads_as(STR(lit), true, 0, "", calls)
#define LIES(lit, words) cell_reads_as(STR(lit), true, ERR_PROTOCOL, words, NULL)

#define OK4            \
	"0000000002ok" \
	"0000000000"   \
	"0000000000"   \
	"0000000000"
#define ENDED "E0000000042\n" OK4
#define HTML                  \
	"0000000009text/html" \
	"0000000003<b>"

static void
cell_is_believed_when_it_is_whole(void **state UNUSED)
{
	CELL(ENDED, "E0[||]");
	CELL("V0000000032\n" HTML ENDED, "V{\"text/html\":\"<b>\"}E0[||]");
	CELL("B0000000065\n" HTML "0000000010text/plain"
	     "0000000003x\"\0" ENDED,
	    "B{\"text/html\":\"<b>\",\"text/plain\":\"x\\\"\357\277\275\"}E0[||]");
	CELL("E0000000052\n"
	     "0000000005error"
	     "0000000002Er"
	     "0000000003a\nb"
	     "0000000002tb",
	    "E1[Er|a\nb|tb]");
	LIES(ENDED ENDED, "does not belong there");
	LIES(ENDED "B0000000032\n" HTML, "does not belong there");
	LIES("E0000000043\n" OK4 "x", "malformed end");
	LIES("E0000000032\n"
	     "0000000002ok"
	     "0000000000"
	     "0000000000",
	    "malformed end");
	LIES("E0000000042\n"
	     "0000000002no"
	     "0000000000"
	     "0000000000"
	     "0000000000",
	    "unknown end");
	LIES("E0000000043\n"
	     "0000000003ok\377"
	     "0000000000"
	     "0000000000"
	     "0000000000",
	    "malformed end");
}

static void
greeting_comes_first_and_once(void **state UNUSED)
{
	cell_reads_as(STR("H0000000019\ncofferdam-context 1"), false, 0, "", "");
	cell_reads_as(
	    STR("H0000000019\ncofferdam-context 2"), false, ERR_PROTOCOL, "another version", NULL);
	cell_reads_as(STR("H0000000019\ncofferdam-context 1H"
			  "0000000019\ncofferdam-context 1"),
	    false, ERR_PROTOCOL, "does not belong there", NULL);
	cell_reads_as(STR(ENDED), false, ERR_PROTOCOL, "does not belong there", NULL);
	/* Nothing was asked. */
	cell_reads_as(STR("H0000000019\ncofferdam-context 1" ENDED), false, ERR_PROTOCOL,
	    "does not belong there", NULL);
}

static void
display_is_checked_part_by_part(void **state UNUSED)
{
	LIES("B0000000000\n", "an empty display");
	LIES("B0000000064\n" HTML HTML, "malformed display"); /* types ascend */
	LIES("B0000000023\n"
	     "0000000000"
	     "0000000003<b>",
	    "malformed display");
	LIES("B0000000032\n"
	     "0000000009Text/html"
	     "0000000003<b>",
	    "malformed display");
	LIES("B0000000032\n"
	     "0000000009text-html"
	     "0000000003<b>",
	    "malformed display");
	LIES("B0000000032\n"
	     "0000000009text/htm\""
	     "0000000003<b>",
	    "malformed display");
	LIES("B0000000032\n"
	     "0000000009text/htm/"
	     "0000000003<b>",
	    "malformed display");
	LIES("B0000000032\n"
	     "0000000009text/html"
	     "0000000004<b>",
	    "malformed display");
	LIES("B0000000032\n"
	     "0000000009text/html"
	     "0000000003<\377>",
	    "malformed display");
	LIES("B0000000032\n"
	     "000000000+text/html"
	     "0000000003<b>",
	    "malformed display");
	LIES("B00000000032" HTML, "malformed head");
	LIES("B8388609000\n", "malformed head");
	LIES("B 000000032\n" HTML, "malformed head");
	LIES("R0000000001\n1", "does not belong there");
}

static void
displays_of_one_cell_are_counted(void **state UNUSED)
{
	static const struct cell_ops ops = {0};
	static const char one[] = "B0000000032\n" HTML;
	struct buf sent = BUF(1000);
	struct cell_reader c;
	struct err e = {0};

	cell_reader_init(&c, &ops, NULL);
	c.greeted = true;
	for (int cell = 0; cell < 2; cell++) {
		cell_begin(&c, STR("1"), &sent);
		for (int i = 0; i < CELL_BUNDLES_MAX; i++)
			assert_int_equal(cell_feed(&c, str_mem(one, sizeof(one) - 1), &e), 0);
	}
	assert_int_equal(cell_feed(&c, str_mem(one, sizeof(one) - 1), &e), ERR_PROTOCOL);
	assert_non_null(strstr(e.msg, "more displays than one cell may have"));
	cell_reader_free(&c);
	buf_free(&sent);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(stream_of_files_is_believed_when_it_is_whole),
	    cmocka_unit_test(entry_is_checked_part_by_part),
	    cmocka_unit_test(change_and_error_are_of_a_few_kinds),
	    cmocka_unit_test(cell_is_believed_when_it_is_whole),
	    cmocka_unit_test(greeting_comes_first_and_once),
	    cmocka_unit_test(display_is_checked_part_by_part),
	    cmocka_unit_test(displays_of_one_cell_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
