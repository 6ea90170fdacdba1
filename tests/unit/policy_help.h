/* Shared by the tests of the policy engine. */
#ifndef TESTS_UNIT_POLICY_HELP_H
#define TESTS_UNIT_POLICY_HELP_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/json.h"
#include "policy/policy_source.h"

UNUSED static void
help_read_file(const char *path, struct buf *out)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t chunk[4096];
	ssize_t n;

	if (fd < 0)
		fail_msg("%s: cannot open (run from the top of the tree)", path);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		buf_put(out, chunk, (size_t)n);
	assert_int_equal(n, 0);
	assert_false(buf_over(out));
}

UNUSED static struct json_doc *
help_json_file(const char *path)
{
	AUTO_BUF struct buf text = BUF(JSON_SIZE_MAX);
	struct json_doc *doc = NULL;
	struct err err = {0};

	help_read_file(path, &text);
	if (json_parse(buf_str(&text), path, &doc, &err) != 0)
		fail_msg("%s", err.msg);
	return doc;
}

/* The policy inside a case file; its keys are bare fingerprints. */
UNUSED static struct policy *
help_cases_policy(const struct json_doc *doc)
{
	const struct policy_source src = {.name = "policy-cases.json", .opaque_keys = true};
	struct policy *p = NULL;
	struct err err = {0};

	if (policy_parse_value(doc, json_get(json_root(doc), "policy"), &src, &p, NULL, &err) != 0)
		fail_msg("%s", err.msg);
	return p;
}

UNUSED static struct policy *
help_policy(const char *text)
{
	struct policy *p = NULL;
	struct err err = {0};

	if (policy_parse(str_z(text), "p.json", NULL, NULL, &p, NULL, &err) != 0)
		fail_msg("%s", err.msg);
	return p;
}

#endif
