/* The texts of mcp_fixture.c: what its tools, prompts and resources say. */
#ifndef TESTS_TOOLS_MCP_FIXTURE_H
#define TESTS_TOOLS_MCP_FIXTURE_H

#define PNG                                                                                        \
	"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5E" \
	"rkJggg=="
#define WAV "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
#define TEXT(t) "{\"content\":[{\"type\":\"text\",\"text\":\"" t "\"}]}"
#define SCHEMA(props) "\"inputSchema\":{\"type\":\"object\",\"properties\":{" props "}}"
#define NONE SCHEMA("")
#define FORM(message, props, need)                                           \
	"{\"mode\":\"form\",\"message\":\"" message                          \
	"\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{" props \
	"},\"required\":[" need "]}}"
#define ELICIT(key, message, prop, type)                                   \
	"\"" key "\":{\"method\":\"elicitation/create\",\"params\":" FORM( \
	    message, "\"" prop "\":{\"type\":\"" type "\"}", "\"" prop "\"") "}"
#define SAMPLE(key, text)                                                            \
	"\"" key "\":{\"method\":\"sampling/"                                        \
	"createMessage\",\"params\":{\"messages\":[{\"role\":\"user\",\"content\":{" \
	"\"type\":\"text\",\"text\":\"" text "\"}}],\"maxTokens\":100}}"
#define ROOTS(key) "\"" key "\":{\"method\":\"roots/list\",\"params\":{}}"

static const char prompts[] =
    "{\"prompts\":[{\"name\":\"test_input_required_result_prompt\",\"description\":\"asks first\"},"
    "{\"name\":\"test_prompt_with_arguments\",\"description\":\"two\",\"arguments\":[{\"name\":"
    "\"arg1\",\"description\":\"first\",\"required\":true},{\"name\":\"arg2\",\"description\":"
    "\"second\",\"required\":true}]},"
    "{\"name\":\"test_prompt_with_embedded_resource\",\"description\":\"a "
    "resource\",\"arguments\":[{\"name\":\"resourceUri\",\"description\":\"its "
    "URI\",\"required\":true}]},"
    "{\"name\":\"test_prompt_with_image\",\"description\":\"an image\"},"
    "{\"name\":\"test_simple_prompt\",\"description\":\"no arguments\"}]}";
#define RESOURCE(name, uri, type)               \
	"{\"name\":\"" name "\",\"uri\":\"" uri \
	"\",\"description\":\"for tests\",\"mimeType\":\"" type "\"}"
static const char resources[] = "{\"resources\":[" RESOURCE("static-binary", "test://static-binary",
    "image/png") "," RESOURCE("static-text", "test://static-text",
    "text/plain") "," RESOURCE("watched-resource", "test://watched-resource", "text/plain") "]}";
static const char templates[] =
    "{\"resourceTemplates\":[{\"name\":\"template\",\"uriTemplate\":\"test://template/{id}/"
    "data\",\"description\":\"for tests\",\"mimeType\":\"application/json\"}]}";
#define USER(content) "{\"role\":\"user\",\"content\":" content "}"
#define SAYS(t) USER("{\"type\":\"text\",\"text\":\"" t "\"}")

static const char defaults_form[] = FORM("Please review",
    "\"name\":{\"type\":\"string\",\"default\":\"John "
    "Doe\"},\"age\":{\"type\":\"integer\",\"default\":30},"
    "\"score\":{\"type\":\"number\",\"default\":95.5},\"status\":{\"type\":\"string\","
    "\"enum\":[\"active\",\"inactive\",\"pending\"],\"default\":\"active\"},"
    "\"verified\":{\"type\":\"boolean\",\"default\":true}",
    "");
static const char enums_form[] = FORM("Please select",
    "\"untitledSingle\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\","
    "\"option3\"]},"
    "\"titledSingle\":{\"type\":\"string\",\"oneOf\":[{\"const\":\"value1\",\"title\":"
    "\"First Option\"},{\"const\":\"value2\",\"title\":\"Second "
    "Option\"},{\"const\":\"value3\",\"title\":\"Third Option\"}]},"
    "\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],"
    "\"enumNames\":[\"Option One\",\"Option Two\",\"Option Three\"]},"
    "\"untitledMulti\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":3,\"items\":{"
    "\"type\":\"string\",\"enum\":[\"option1\",\"option2\",\"option3\"]}},"
    "\"titledMulti\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":3,\"items\":{"
    "\"anyOf\":[{\"const\":\"value1\",\"title\":\"First "
    "Choice\"},{\"const\":\"value2\",\"title\":\"Second "
    "Choice\"},{\"const\":\"value3\",\"title\":\"Third Choice\"}]}}",
    "");
struct round {
	const char *requests; /* members of inputRequests */
	const char *keys[3];  /* that must have been answered; NULL-terminated unless 3 */
};

static const struct round elicitation[] = {
    {ELICIT("user_name", "What is your name?", "name", "string"), {"user_name"}}};
static const struct round sampling[] = {
    {SAMPLE("capital_question", "What is the capital of France?"), {"capital_question"}}};
static const struct round roots[] = {{ROOTS("client_roots"), {"client_roots"}}};
static const struct round confirm[] = {
    {ELICIT("confirm", "Please confirm", "ok", "boolean"), {"confirm"}}};
static const struct round several[] = {
    {ELICIT("user_name", "What is your name?", "name", "string") "," SAMPLE(
	 "greeting", "Generate a greeting") "," ROOTS("client_roots"),
	{"user_name", "greeting", "client_roots"}}};
static const struct round steps[] = {
    {ELICIT("step1", "Step 1: What is your name?", "name", "string"), {"step1"}},
    {ELICIT("step2", "Step 2: What is your favorite color?", "color", "string"), {"step2"}}};
static const struct round context[] = {
    {ELICIT("user_context", "What context should the prompt use?", "context", "string"),
	{"user_context"}}};

#endif
