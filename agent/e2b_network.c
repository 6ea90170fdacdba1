/*
 * E2B's network rules as what a run is narrowed to (process: a worker of cofferdam-sandboxd). They
 * can only take away: what a sandbox may reach is the broker's targets. allowOut names those that
 * are meant; denyOut of all traffic, or no internet access, leaves those alone that allowOut names.
 * What would need more (addresses, transforms of requests, another proxy) is refused with words.
 */
#include "agent/e2b.h"

#include "common/xalloc.h"
#include "agent/keeper_wire.h"

#include "common/banned.h"

#define RULES_MAX 64

static bool
is_all(struct str s)
{
	return str_eqz(s, "0.0.0.0/0") || str_eqz(s, "::/0") || str_eqz(s, "*");
}

static int
deny_check(const struct json *deny, bool *ret_all, struct err *err)
{
	*ret_all = false;
	if (deny != NULL && json_type(deny) != JSON_ARRAY)
		return err_set(err, ERR_INVALID, "denyOut must be a list");
	for (size_t i = 0; i < json_count(deny); i++) {
		struct str s = json_str(json_at(deny, i));

		if (!is_all(s))
			return err_set(err, ERR_UNSUPPORTED,
			    "denyOut \"%.*s\": only all traffic (0.0.0.0/0) can be denied here; "
			    "name "
			    "in allowOut what stays",
			    (int)(s.n < 100 ? s.n : 100), s.p);
		*ret_all = true;
	}
	return 0;
}

static int
allow_take(const struct json *allow, char **list, bool *ret_all, struct err *err)
{
	size_t n = 0;

	*ret_all = false;
	if (allow != NULL && (json_type(allow) != JSON_ARRAY || json_count(allow) > RULES_MAX))
		return err_set(
		    err, ERR_INVALID, "allowOut must be a list of at most %d", RULES_MAX);
	for (size_t i = 0; i < json_count(allow); i++) {
		struct str s = json_str(json_at(allow, i));

		if (s.n == 0 || s.n > 253)
			return err_set(err, ERR_INVALID, "allowOut: entry %zu is no host", i + 1);
		if (is_all(s))
			*ret_all = true;
		else
			list[n++] = str_dup(s);
	}
	return 0;
}

static int
unsupported_check(const struct json *network, struct err *err)
{
	static const char *const no[] = {"rules", "egressProxy", "maskRequestHost", "httpsPorts"};

	for (size_t i = 0; i < ARRAY_LEN(no); i++) {
		const struct json *v = json_get(network, no[i]);

		if (v != NULL && json_type(v) != JSON_NULL && json_count(v) != 0)
			return err_set(err, ERR_UNSUPPORTED,
			    "network.%s is not served: requests go through the broker as the "
			    "policy "
			    "has it",
			    no[i]);
	}
	return 0;
}

int
e2b_network_rules(const struct json *body, const struct json *network, char ***ret,
    bool *ret_narrow, struct err *err)
{
	const struct json *allow = json_get(network, "allowOut"),
			  *access = json_get(body, "allow_internet_access");
	AUTO(keeper_list) char **list = xcalloc(RULES_MAX + 1, sizeof(*list));
	bool deny_all, allow_all, none;
	int rc = unsupported_check(network, err);

	if (rc != 0 || (rc = deny_check(json_get(network, "denyOut"), &deny_all, err)) != 0 ||
	    (rc = allow_take(allow, list, &allow_all, err)) != 0)
		return rc;
	none = access != NULL && json_type(access) == JSON_BOOL && !json_bool(access);
	*ret_narrow = !allow_all && (none || deny_all || json_count(allow) != 0);
	*ret = TAKE_PTR(list);
	return 0;
}
