/*
 * CA files named by targets. Runs in `cofferdam policy` alone. Must never let anything of
 * the file but well-formed certificates into the bundle, which core and the log will hold.
 */
#include "policy/policy_internal.h"

#include "common/hash.h"

#include "common/banned.h"

#define PEM_BEGIN "-----BEGIN CERTIFICATE-----"
#define PEM_END "-----END CERTIFICATE-----"
#define CA_CERTS_MAX 64

/* One certificate again in canonical PEM; false if its base64 does not hold a DER sequence. */
static bool
cert_put(struct str body, struct buf *out)
{
	AUTO_BUF struct buf text = BUF(POLICY_CA_MAX);
	AUTO_BUF struct buf der = BUF(POLICY_CA_MAX);

	for (size_t i = 0; i < body.n; i++)
		if (body.p[i] != '\n' && body.p[i] != '\r')
			buf_put_c(&text, body.p[i]);
	if (!enc_unbase64(buf_str(&text), &der) || der.n < 64 || der.p[0] != 0x30)
		return false;
	buf_put_z(out, PEM_BEGIN "\n");
	for (size_t i = 0; i < text.n; i += 64) {
		buf_put(out, text.p + i, text.n - i < 64 ? text.n - i : 64);
		buf_put_c(out, '\n');
	}
	buf_put_z(out, PEM_END "\n");
	return true;
}

static bool
str_find(struct str s, const char *needle, size_t *ret_at)
{
	const char *q = s.n != 0 ? memmem(s.p, s.n, needle, strlen(needle)) : NULL;

	if (q == NULL)
		return false;
	*ret_at = (size_t)(q - s.p);
	return true;
}

static int
certs_put(struct str s, struct buf *out, struct err *err)
{
	size_t n = 0, at, end;

	if (str_find(s, "PRIVATE KEY-----", &at))
		return err_set(err, ERR_CONFIG, "holds a private key: name a file of certificates");
	while (str_find(s, PEM_BEGIN, &at)) {
		s.p += at + strlen(PEM_BEGIN);
		s.n -= at + strlen(PEM_BEGIN);
		if (!str_find(s, PEM_END, &end) || !cert_put((struct str){s.p, end}, out))
			return err_set(err, ERR_CONFIG, "certificate %zu is malformed", n + 1);
		s.p += end;
		s.n -= end;
		if (++n > CA_CERTS_MAX)
			return err_set(err, ERR_CONFIG, "holds over %d certificates", CA_CERTS_MAX);
	}
	if (n == 0)
		return err_set(err, ERR_CONFIG, "holds no certificate");
	return 0;
}

int
policy_read_ca(
    struct reader *r, const struct json *v, struct str file, struct str *ret_pem, struct err *err)
{
	AUTO_BUF struct buf text = BUF(POLICY_CA_MAX);
	AUTO_BUF struct buf pem = BUF(2 * POLICY_CA_MAX);
	AUTO_FREE char *name = str_dup(file);
	struct err why = {0};
	int rc;

	if (r->source->src->dir == NULL || r->source->src->no_ca)
		return 0;
	rc = policy_file_read(r->source->src->dir, name, &text, &why);
	if (rc != 0)
		return json_err(r->doc, v, err, ERR_CONFIG, "CA file %s: %s", name, why.msg);
	rc = certs_put(buf_str(&text), &pem, &why);
	if (rc != 0)
		return json_err(r->doc, v, err, rc, "CA file %s: %s", name, why.msg);
	*ret_pem = read_keep(r, buf_str(&pem));
	return 0;
}
