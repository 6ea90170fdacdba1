/*
 * Test tool: signs as the broker does (broker/upstream_sigv4.c), so that another implementation can
 * say whether it is right. A JSON object a line: method, target, host, fields (pairs), payload, id,
 * secret, region, service, time (Unix seconds); for each the value of Authorization, a line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/upstream_sigv4.h"
#include "common/json.h"

#include "common/banned.h"

static struct str
text(const struct json *v, const char *key)
{
	return json_str(json_get(v, key));
}

static void
sign(const struct json *v)
{
	AUTO_BUF struct buf canonical = BUF(1 << 20), names = BUF(SIGV4_NAMES_MAX);
	AUTO_BUF struct buf out = BUF(SIGV4_NAMES_MAX + 1024);
	const struct json *fields = json_get(v, "fields");
	struct http_field f[HTTP_FIELDS_MAX];
	struct sigv4_request r = {.method = text(v, "method"),
	    .target = text(v, "target"),
	    .host = text(v, "host"),
	    .fields = f,
	    .nfields = json_count(fields),
	    .payload = text(v, "payload"),
	    .s3 = str_eqz(text(v, "service"), "s3")};
	uint8_t key[SIGV4_KEY_LEN];
	struct sigv4_scope scope;
	char signature[HASH_HEX_SIZE];
	struct err err = {0};

	if (r.nfields > HTTP_FIELDS_MAX ||
	    sigv4_scope(json_int(json_get(v, "time")), text(v, "region"), text(v, "service"),
		&scope, &err) != 0)
		exit(1);
	for (size_t i = 0; i < r.nfields; i++)
		f[i] = (struct http_field){json_str(json_at(json_at(fields, i), 0)),
		    json_str(json_at(json_at(fields, i), 1))};
	sigv4_key(&scope, text(v, "secret"), key);
	sigv4_canonical(&r, &canonical, &names);
	sigv4_sign(&scope, key, buf_str(&canonical), signature);
	sigv4_authorization(&scope, text(v, "id"), buf_str(&names), signature, &out);
	(void)printf("%.*s\n", STR_ARG(buf_str(&out)));
}

int
main(void)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;

	while ((n = getline(&line, &room, stdin)) > 0) {
		AUTO(json) struct json_doc *doc = NULL;
		struct err err = {0};

		if (json_parse(str_trim(str_mem(line, (size_t)n)), "line", &doc, &err) != 0) {
			(void)fprintf(stderr, "%s\n", err.msg);
			return 1;
		}
		sign(json_root(doc));
	}
	free(line);
	return 0;
}
