/*
 * Places of credentials and the broker's own placeholders (process: core). Tables only: whether a
 * place may hold what it holds is said elsewhere. Shapes of tokens stand in common/token.c.
 */
#include "broker/core_token.h"

#include "broker/core_cred.h"
#include "common/http.h"

#include "common/banned.h"

static const char *const fields[] = {"Authorization", "Cookie", "Cookie2", "X-Api-Key", "Api-Key",
    "ApiKey", "X-ApiKey", "X-Auth-Token", "X-Auth-Key", "X-Access-Token", "X-Authorization",
    "X-Token", "X-Session-Token", "Private-Token", "Job-Token", "Deploy-Token", "X-Gitlab-Token",
    "X-Github-Token", "X-Vault-Token", "X-Consul-Token", "X-Amz-Security-Token", "X-Goog-Api-Key",
    "X-Goog-Iam-Authorization-Token", "Ocp-Apim-Subscription-Key", "X-Functions-Key",
    "X-Ms-Authorization-Auxiliary", "X-Shopify-Access-Token", "X-Figma-Token", "X-Railway-Token",
    "Dd-Api-Key", "Dd-Application-Key", "Circle-Token", "X-Postmark-Server-Token", "X-Mail-Api-Key",
    "X-Rapidapi-Key", "Access-Token", "Token", "Auth-Token", "X-Api-Token", "Api-Token",
    "Project-Access-Token", "X-Api-Secret", "X-Secret", "X-Session-Id"};

static const char *const parameters[] = {"access_token", "accesstoken", "api_key", "apikey",
    "api-key", "auth_token", "authtoken", "authorization", "bearer_token", "client_secret",
    "id_token", "jwt", "key_secret", "oauth_token", "password", "private_token", "refresh_token",
    "session_token", "token", "x-amz-credential", "x-amz-security-token", "x-amz-signature",
    "awsaccesskeyid", "x-goog-credential", "x-goog-signature", "api_token", "apitoken",
    "access_key", "accesskey", "secret", "secret_key", "auth_key"};

/* What CGI, PHP and their like make one name: '-', '_', '.' and blanks are the same to them. */
static char
folded(char c)
{
	if (c == '_' || c == '.' || c == ' ')
		return '-';
	if (c >= 'A' && c <= 'Z')
		c = (char)(c | 0x20);
	return c;
}

bool
core_token_alike(struct str name, const char *z)
{
	struct str other = str_z(z);

	if (name.n != other.n)
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (folded(name.p[i]) != folded(other.p[i]))
			return false;
	return true;
}

static bool
listed(const char *const *list, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (core_token_alike(name, list[i]))
			return true;
	return false;
}

bool
core_token_field(struct str name)
{
	return listed(fields, ARRAY_LEN(fields), name);
}

/* "token[]" and "token[a]" are "token"; a NUL ends a name; blanks in front are dropped. */
struct str
core_token_parameter_stem(struct str name)
{
	while (name.n != 0 && name.p[0] == ' ') {
		name.p++;
		name.n--;
	}
	for (size_t i = 0; i < name.n; i++)
		if (name.p[i] == '[' || name.p[i] == '\0')
			name.n = i;
	return name;
}

bool
core_token_parameter(struct str name)
{
	name = core_token_parameter_stem(name);
	return listed(parameters, ARRAY_LEN(parameters), name);
}

/* --- placeholders ----------------------------------------------------------------- */

static struct str
from(struct str s, size_t at)
{
	return str_mem(s.p + at, s.n - at);
}

bool
core_token_placeholder(struct str s, struct str *ret)
{
	static const struct str prefix = STR(CORE_PLACEHOLDER_PREFIX);
	const size_t digits = CORE_PLACEHOLDER_SIZE - 1 - prefix.n;

	while (s.n >= prefix.n + digits) {
		const char *at = memmem(s.p, s.n, prefix.p, prefix.n);
		size_t n = 0;

		if (at == NULL)
			return false;
		s = from(s, (size_t)(at - s.p));
		while (n < digits && prefix.n + n < s.n &&
		       ((s.p[prefix.n + n] >= 'a' && s.p[prefix.n + n] <= 'z') ||
			   (s.p[prefix.n + n] >= '2' && s.p[prefix.n + n] <= '7')))
			n++;
		if (n == digits) {
			*ret = str_mem(s.p, prefix.n + digits);
			return true;
		}
		s = from(s, prefix.n);
	}
	return false;
}
