/*
 * Test tool: prints the requests that the model clients make in several conversations, one JSON
 * text a line behind "anthropic " or "openai ". The answers between are canned, so that every kind
 * of block that we ever send is in one of them. `model_dump misspelt` prints one request with a
 * key that no API has, for the test of the test.
 */
#include <stdio.h>
#include <string.h>

#include "agent/model_anthropic.h"
#include "agent/model_openai.h"
#include "agent/model_responses.h"

#include "common/banned.h"

static const struct model_answer results[] = {
    {STR("2\n[exit 0]\n"), false}, {STR("there is no such tool"), true}, {STR(""), false}};

static void
print(const struct model_provider *p, const struct model_talk *t)
{
	AUTO_BUF struct buf b = BUF(MODEL_REQUEST_MAX);

	p->request(t, &b);
	(void)printf("%s %.*s\n", p->name, STR_ARG(buf_str(&b)));
}

/* One answer of the model, from its stream, and what we say to it. */
static void
turn(const struct model_provider *p, struct model_talk *t, const char *const *events,
    struct str note)
{
	struct model_ask ask = {.answers = results};
	struct reply r;
	struct err err = {0};

	reply_init(&r);
	for (size_t i = 0; events[i] != NULL; i++)
		if (p->event(&r, STR(""), str_z(events[i]), &err) < 0)
			(void)fprintf(stderr, "model_dump: %s\n", err.msg);
	reply_name_calls(&r);
	for (size_t i = 0; i < r.n; i++)
		ask.nanswers += r.blocks[i].kind == REPLY_TOOL;
	p->said(t, &r);
	model_talk_said(t);
	print(p, t);
	if (ask.nanswers != 0 || note.n != 0) {
		p->answers(t, &r, &ask, note);
		print(p, t);
	}
	reply_free(&r);
}

#define BLOCK(i, b) "{\"type\":\"content_block_start\",\"index\":" i ",\"content_block\":" b "}"
#define DELTA(i, d) "{\"type\":\"content_block_delta\",\"index\":" i ",\"delta\":" d "}"

static const char *const anthropic_rich[] = {
    BLOCK("0", "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"c2ln\"}"),
    BLOCK("1", "{\"type\":\"redacted_thinking\",\"data\":\"eA==\"}"),
    BLOCK("2", "{\"type\":\"text\",\"text\":\"I look.\"}"),
    BLOCK("3", "{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"run_code\",\"input\":{}}"),
    DELTA("3", "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"language\\\": \\\"bash\\\", "
	       "\\\"code\\\": \\\"ls\\\"}\"}"),
    BLOCK("4", "{\"type\":\"tool_use\",\"id\":\"toolu_2\",\"name\":\"other\",\"input\":{}}"),
    BLOCK("5", "{\"type\":\"tool_use\",\"name\":\"run_code\",\"input\":{}}"),
    DELTA("5", "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"half\"}"), NULL};
static const char *const anthropic_words[] = {
    BLOCK("0", "{\"type\":\"text\",\"text\":\"Go on\"}"), NULL};
static const char *const anthropic_none[] = {BLOCK("0", "{\"type\":\"text\",\"text\":\"\"}"), NULL};

#define CHOICE(d) "{\"choices\":[{\"index\":0,\"delta\":" d "}]}"

static const char *const openai_rich[] = {CHOICE("{\"content\":\"I look.\"}"),
    CHOICE("{\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"function\":{\"name\":\"run_code\","
	   "\"arguments\":\"{\\\"language\\\":\\\"sh\\\",\\\"code\\\":\\\"ls\\\"}\"}},{\"index\":1,"
	   "\"function\":{\"name\":\"other\"}},{\"index\":2,\"function\":{\"arguments\":\"x\"}}]}"),
    NULL};
static const char *const openai_words[] = {CHOICE("{\"content\":\"Go on\"}"), NULL};
static const char *const openai_none[] = {CHOICE("{}"), NULL};

#define ITEM(i, b) "{\"type\":\"response.output_item.done\",\"output_index\":" i ",\"item\":" b "}"

static const char *const responses_rich[] = {
    ITEM("0", "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[{\"type\":\"summary_text\","
	      "\"text\":\"hm\"}],\"encrypted_content\":\"c2ln\"}"),
    ITEM("1",
	"{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"I look.\"}]}"),
    ITEM("2", "{\"type\":\"function_call\",\"call_id\":\"call_1\",\"name\":\"run_code\","
	      "\"arguments\":\"{\\\"language\\\":\\\"bash\\\",\\\"code\\\":\\\"ls\\\"}\"}"),
    ITEM("3", "{\"type\":\"function_call\",\"call_id\":\"call_2\",\"name\":\"other\"}"),
    ITEM("4", "{\"type\":\"function_call\",\"name\":\"ask\",\"arguments\":\"x\"}"), NULL};
static const char *const responses_words[] = {
    ITEM("0", "{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"Go on\"}]}"),
    NULL};
static const char *const responses_none[] = {
    "{\"type\":\"response.completed\",\"response\":{\"output\":[]}}", NULL};

static void
conversation(const struct model_provider *p, uint64_t max_output, const char *const *rich,
    const char *const *words, const char *const *none)
{
	AUTO_BUF struct buf summary = BUF(4096);
	struct model_talk t;

	model_talk_init(&t);
	t.model = "some-model";
	t.system = "You operate.";
	t.max_output = max_output;
	p->task(&t, STR("find \"it\" \\ and \xc3\xa4"));
	print(p, &t);
	turn(p, &t, rich, STR(""));
	turn(p, &t, words, STR("cut off"));
	turn(p, &t, rich, STR("a note"));
	turn(p, &t, none, STR("still there?"));
	p->words(&summary, STR("the beginning, in short"));
	(void)model_talk_drop(&t, 1, buf_str(&summary));
	print(p, &t);
	model_talk_free(&t);
}

static void
misspelt(const struct model_provider *p)
{
	AUTO_BUF struct buf b = BUF(MODEL_REQUEST_MAX);
	struct model_talk t;

	model_talk_init(&t);
	t.model = "some-model";
	t.system = "You operate.";
	p->task(&t, STR("task"));
	p->request(&t, &b);
	(void)printf("%s %.*s,\"temprature\":1}\n", p->name, (int)b.n - 1, (const char *)b.p);
	model_talk_free(&t);
}

int
main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "misspelt") == 0) {
		misspelt(&model_anthropic);
		misspelt(&model_openai);
		misspelt(&model_responses);
		return 0;
	}
	conversation(&model_anthropic, 0, anthropic_rich, anthropic_words, anthropic_none);
	conversation(&model_anthropic, 4096, anthropic_rich, anthropic_words, anthropic_none);
	conversation(&model_openai, 0, openai_rich, openai_words, openai_none);
	conversation(&model_openai, 4096, openai_rich, openai_words, openai_none);
	conversation(&model_responses, 0, responses_rich, responses_words, responses_none);
	conversation(&model_responses, 4096, responses_rich, responses_words, responses_none);
	return 0;
}
