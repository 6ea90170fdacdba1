/*
 * Fuzzes the scrubber. The first byte gives the length of two secrets, the second the size of the
 * pieces in which the text comes; the secrets, which overlap, and the text follow. Lengths stay,
 * pieces make no difference, and no form of a secret that can be written down simply is left.
 */
#include <assert.h>

#include "broker/upstream_scrub.h"
#include "common/hash.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must_lack(struct str text, struct str form)
{
	assert(form.n == 0 || text.n == 0 || memmem(text.p, text.n, form.p, form.n) == NULL);
}

/* Behind a backslash that is escaped itself; behind one that is not, "\\u0041" is no escape. */
static void
must_lack_json(struct str text, struct str form)
{
	const char *at = text.p, *end = text.p + text.n;

	for (; (at = memmem(at, (size_t)(end - at), form.p, form.n)) != NULL; at++) {
		size_t slashes = 0;

		while (at - slashes != text.p && at[-1 - (ssize_t)slashes] == '\\')
			slashes++;
		assert(slashes % 2 != 0);
	}
}

static void
check_forms(struct str out, struct str secret)
{
	AUTO_BUF struct buf hex = BUF(1024), percent = BUF(1024), json = BUF(1024);

	/* What stands for it must not be able to make it anew. */
	for (size_t i = 0; i < secret.n; i++)
		if (secret.p[i] == '*')
			return;
	must_lack(out, secret);
	for (size_t i = 0; i < secret.n; i++) {
		buf_printf(&percent, "%%%02X", (uint8_t)secret.p[i]);
		buf_printf(&json, "\\u%04x", (uint8_t)secret.p[i]);
	}
	must_lack(out, buf_str(&percent));
	if (str_is_ascii_print(secret) && out.n != 0)
		must_lack_json(out, buf_str(&json));
	if (secret.n < UPSTREAM_SCRUB_SHORT)
		return;
	enc_hex(&hex, secret);
	must_lack(out, buf_str(&hex));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf whole = BUF((size_t)1 << 20), parts = BUF((size_t)1 << 20);
	struct str secret, text;
	struct scrub_secret secrets[2] = {0};
	struct scrub *s;
	size_t n, step;
	uint32_t count;

	if (size < 3)
		return 0;
	n = 1 + (size_t)data[0] % 32;
	step = 1 + (size_t)data[1];
	if (size - 2 < n)
		return 0;
	secret = str_mem(data + 2, n);
	text = str_mem(data + 2 + n, size - 2 - n);
	secrets[0] = (struct scrub_secret){secret, STR("user"), STR(""), data[0] >= 128};
	secrets[1].secret = str_mem(data + 2 + n / 2, n - n / 2);
	s = scrub_new(scrub_set_new(secrets, 2));
	scrub_text(s, text, &whole);
	count = scrub_count(s);
	for (size_t i = 0; i < text.n; i += step)
		scrub_feed(s, str_mem(text.p + i, text.n - i < step ? text.n - i : step), &parts);
	scrub_end(s, &parts);
	assert(scrub_count(s) == 2 * count);
	assert(whole.n == text.n && str_eq(buf_str(&whole), buf_str(&parts)));
	check_forms(buf_str(&whole), secret);
	check_forms(buf_str(&whole), secrets[1].secret);
	scrub_free(s);
	return 0;
}
