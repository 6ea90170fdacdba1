/*
 * Reads the price table (process: cofferdam-agent). Amounts are decimal numbers in strings, kept as
 * whole millionths: what is added up over a run must not be rounded on the way.
 */
#include "agent/agent_prices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define FILE_MAX ((size_t)1 << 20)
#define DECIMALS 6

bool
prices_amount(struct str s, uint64_t *ret)
{
	uint64_t whole = 0, part = 0;
	struct str head = s;

	if (str_cut(&s, '.', &head)) {
		if (s.n == 0 || s.n > DECIMALS)
			return false;
		for (size_t i = 0; i < DECIMALS; i++) {
			if (i < s.n && (s.p[i] < '0' || s.p[i] > '9'))
				return false;
			part = part * 10 + (i < s.n ? (uint64_t)(s.p[i] - '0') : 0);
		}
	}
	if (!str_to_u64(head, 999999, &whole))
		return false;
	*ret = whole * 1000000 + part;
	return true;
}

char *
prices_words(uint64_t millionths, const char *currency)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%llu.%06llu",
	    (unsigned long long)(millionths / 1000000), (unsigned long long)(millionths % 1000000));

	while (n > 0 && text[n - 1] == '0')
		text[--n] = '\0';
	if (n > 0 && text[n - 1] == '.')
		text[--n] = '\0';
	return xasprintf("%s%s%s", text, currency[0] != '\0' ? " " : "", currency);
}

static const struct {
	const char *key;
	size_t at;
	bool needed;
} amounts[] = {
    {"cache_read", offsetof(struct prices, cache_read), false},
    {"cache_write", offsetof(struct prices, cache_write), false},
    {"input", offsetof(struct prices, input), true},
    {"output", offsetof(struct prices, output), true},
};

static bool
key_known(struct str key)
{
	for (size_t i = 0; i < ARRAY_LEN(amounts); i++)
		if (str_eqz(key, amounts[i].key))
			return true;
	return str_eqz(key, "context") || str_eqz(key, "model");
}

static int
amounts_read(const struct json_doc *d, const struct json *m, struct prices *p, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(amounts); i++) {
		const struct json *v = json_get(m, amounts[i].key);
		uint64_t n = 0;

		if (v == NULL && !amounts[i].needed) {
			/* A cache that costs nothing besides: what is read from it is read. */
			n = p->input;
		} else if (!prices_amount(json_str(v), &n)) {
			return json_err(d, v != NULL ? v : m, err, ERR_INVALID,
			    "\"%s\" must be an amount of at most six decimals, as \"3.75\"",
			    amounts[i].key);
		}
		memcpy((char *)p + amounts[i].at, &n, sizeof(n));
	}
	return 0;
}

static int
model_read(const struct json_doc *d, const struct json *m, struct prices *p, struct err *err)
{
	int64_t context = json_int(json_get(m, "context"));
	int rc;

	for (size_t i = 0; i < json_count(m); i++)
		if (!key_known(json_key(m, i)))
			return json_err(d, json_at(m, i), err, ERR_INVALID,
			    "a model has no \"%.*s\"", STR_ARG(json_key(m, i)));
	if (json_get(m, "context") != NULL && (context < 1000 || context > 100000000))
		return json_err(d, json_get(m, "context"), err, ERR_INVALID,
		    "\"context\" must be from 1000 to 100000000 tokens, is %lld",
		    (long long)context);
	/* Twice: what is left out takes the price of input, which comes behind it. */
	if ((rc = amounts_read(d, m, p, err)) != 0 || (rc = amounts_read(d, m, p, err)) != 0)
		return rc;
	p->context = (uint64_t)context;
	p->known = true;
	return 0;
}

static int
root_check(const struct json_doc *d, const struct json *o, struct err *err)
{
	struct str currency = json_str(json_get(o, "currency"));

	if (!str_eqz(json_str(json_get(o, "schema")), "cofferdam-agent/1"))
		return json_err(d, o, err, ERR_INVALID, "\"schema\" must be \"cofferdam-agent/1\"");
	for (size_t i = 0; i < json_count(o); i++)
		if (!str_eqz(json_key(o, i), "schema") && !str_eqz(json_key(o, i), "currency") &&
		    !str_eqz(json_key(o, i), "models"))
			return json_err(d, json_at(o, i), err, ERR_INVALID,
			    "there is no \"%.*s\" here", STR_ARG(json_key(o, i)));
	if (currency.n > 8 || !str_is_ascii_print(currency))
		return json_err(d, json_get(o, "currency"), err, ERR_INVALID,
		    "\"currency\" has at most 8 printable characters");
	if (json_type(json_get(o, "models")) != JSON_ARRAY)
		return json_err(d, o, err, ERR_INVALID, "\"models\" must be an array");
	return 0;
}

int
prices_parse(
    struct str text, const char *name, const char *model, struct prices *ret, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	const struct json *o, *list;
	struct prices p = {0}, each;
	int rc = json_parse(text, name, &d, err);

	if (rc != 0 || (rc = root_check(d, json_root(d), err)) != 0)
		return rc;
	o = json_root(d);
	list = json_get(o, "models");
	/* Each is read, so that a mistake is found before its model is used. */
	for (size_t i = 0; i < json_count(list); i++) {
		struct str glob = json_str(json_get(json_at(list, i), "model"));

		each = (struct prices){0};
		if (glob.n == 0)
			return json_err(d, json_at(list, i), err, ERR_INVALID,
			    "\"model\" must be PROVIDER:NAME, in which * stands for anything");
		if ((rc = model_read(d, json_at(list, i), &each, err)) != 0)
			return rc;
		if (!p.known && str_glob(glob, str_z(model)))
			p = each;
	}
	(void)snprintf(
	    p.currency, sizeof(p.currency), "%.*s", STR_ARG(json_str(json_get(o, "currency"))));
	*ret = p;
	return 0;
}

int
prices_read(const char *path, const char *model, struct prices *ret, struct err *err)
{
	const char *name = path != NULL ? path : PRICES_FILE;
	AUTO_FD int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	AUTO_BUF struct buf b = BUF(FILE_MAX);
	char room[8192];
	ssize_t n;

	*ret = (struct prices){0};
	if (fd < 0 && path == NULL && errno == ENOENT)
		return 0;
	if (fd < 0)
		return err_sys(err, ERR_NOT_FOUND, errno, "%s", name);
	while ((n = read(fd, room, sizeof(room))) > 0)
		buf_put(&b, room, (size_t)n);
	if (n < 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", name);
	if (buf_over(&b))
		return err_set(err, ERR_TOO_LARGE, "%s: over %zu bytes", name, FILE_MAX);
	return prices_parse(buf_str(&b), name, model, ret, err);
}
