/*
 * Actions of AWS to effects: a list of names that exist, a hand list of those that do something
 * else than they sound like, and the verb. Linked into core and the command line; pure. AWS's own
 * levels (List, Read, Write, ...) do not tell a removal from a change, so they are not used.
 */
#include "policy/aws_action.h"

#include <stdlib.h>

#include "common/buf.h"

#include "common/banned.h"

#define READ EFFECT_read
#define WRITE EFFECT_write
#define DELETE EFFECT_delete
#define BULK EFFECT_bulk
#define DROP EFFECT_drop
#define OVERWRITE EFFECT_overwrite
#define DISRUPT EFFECT_disrupt
#define EXEC EFFECT_exec
#define PRIV EFFECT_priv
#define NET EFFECT_net
#define AUDIT EFFECT_audit
#define SECRET EFFECT_secret
#define OPAQUE EFFECT_opaque

static const struct name {
	const char *service, *action;
} names[] = {
#define X(service, action) {service, action},
#include "policy/aws_actions.tbl"
#undef X
};

static const struct special {
	const char *service, *action;
	uint32_t effects;
	bool later;
} specials[] = {
#define X(service, action, effects, later) {service, action, (uint32_t)(effects), later},
#include "policy/effects_aws.tbl"
#undef X
};

/* Words that names begin with. */
static const struct verb {
	const char *word;
	uint32_t effects;
} verbs[] = {
    {"Abort", DELETE},
    {"Accept", WRITE},
    {"Acknowledge", WRITE},
    {"Activate", WRITE},
    {"Add", WRITE},
    {"Advertise", NET},
    {"Allocate", WRITE},
    {"Apply", WRITE | DISRUPT},
    {"Archive", WRITE},
    {"Assign", WRITE},
    {"Associate", WRITE},
    {"Assume", PRIV | SECRET},
    {"Attach", WRITE},
    {"Authorize", NET},
    {"Backtrack", OVERWRITE | DROP},
    {"Cancel", DISRUPT},
    {"Change", OVERWRITE},
    {"Check", READ},
    {"Close", DROP},
    {"Complete", WRITE},
    {"Compose", WRITE},
    {"Configure", OVERWRITE},
    {"Confirm", WRITE},
    {"Connect", NET},
    {"Continue", WRITE | DISRUPT},
    {"Copy", WRITE},
    {"Create", WRITE},
    {"Deactivate", DISRUPT},
    {"Deauthorize", PRIV},
    {"Decline", WRITE},
    {"Decrease", DELETE | DISRUPT},
    {"Delete", DROP},
    {"Deliver", WRITE},
    {"Deprovision", DROP},
    {"Deregister", DELETE | DISRUPT},
    {"Describe", READ},
    {"Detach", DISRUPT},
    {"Detect", READ},
    {"Disable", DISRUPT},
    {"Disassociate", DISRUPT},
    {"Disconnect", DISRUPT},
    {"Discover", READ},
    {"Dissociate", DISRUPT},
    {"Enable", WRITE},
    {"Enter", DISRUPT},
    {"Estimate", READ},
    {"Exit", WRITE},
    {"Export", READ | WRITE},
    {"Failover", DISRUPT},
    {"Filter", READ},
    {"Flush", DELETE | BULK},
    {"Forget", DELETE},
    {"Generate", WRITE},
    {"Get", READ},
    {"Head", READ},
    {"Import", WRITE},
    {"Increase", WRITE},
    {"Initiate", WRITE},
    {"Invalidate", DISRUPT},
    {"Invite", PRIV},
    {"Invoke", EXEC},
    {"Label", WRITE},
    {"Leave", DROP},
    {"Launch", WRITE},
    {"List", READ},
    {"Lock", WRITE},
    {"Lookup", READ},
    {"Merge", OVERWRITE},
    {"Modify", WRITE},
    {"Monitor", WRITE},
    {"Move", OVERWRITE},
    {"Pause", DISRUPT},
    {"Poll", WRITE},
    {"Preview", READ},
    {"Promote", DISRUPT | OVERWRITE},
    {"Provision", WRITE},
    {"Publish", WRITE},
    {"Purchase", WRITE},
    {"Purge", DELETE | BULK},
    {"Put", OVERWRITE},
    {"Query", READ},
    {"Rebalance", DISRUPT},
    {"Reboot", DISRUPT},
    {"Rebuild", DISRUPT | DROP},
    {"Record", WRITE},
    {"Redrive", EXEC},
    {"Register", WRITE},
    {"Reimport", OVERWRITE},
    {"Reject", WRITE},
    {"Release", DROP},
    {"Remove", DELETE},
    {"Rename", OVERWRITE},
    {"Renew", WRITE},
    {"Replace", OVERWRITE},
    {"Replicate", WRITE},
    {"Report", WRITE},
    {"Request", WRITE},
    {"Resend", WRITE},
    {"Reset", OVERWRITE | DISRUPT},
    {"Resize", DISRUPT},
    {"Restart", DISRUPT},
    {"Restore", WRITE},
    {"Resume", WRITE},
    {"Retire", PRIV},
    {"Retrieve", READ},
    {"Retry", WRITE},
    {"Revoke", PRIV},
    {"Rollback", OVERWRITE},
    {"Rotate", OVERWRITE},
    {"Run", WRITE},
    {"Scan", READ},
    {"Search", READ},
    {"Select", READ},
    {"Send", WRITE},
    {"Set", OVERWRITE},
    {"Signal", WRITE},
    {"Simulate", READ},
    {"Split", WRITE},
    {"Start", WRITE},
    {"Stop", DISRUPT},
    {"Submit", WRITE},
    {"Suspend", DISRUPT},
    {"Swap", DISRUPT | OVERWRITE},
    {"Switchover", DISRUPT},
    {"Tag", WRITE},
    {"Terminate", DROP},
    {"Test", READ},
    {"Unarchive", WRITE},
    {"Unassign", DISRUPT},
    {"Unlabel", WRITE},
    {"Unlock", AUDIT},
    {"Unmonitor", AUDIT},
    {"Unsubscribe", DELETE},
    {"Untag", DELETE},
    {"Update", WRITE},
    {"Upgrade", DISRUPT},
    {"Upload", WRITE},
    {"Validate", READ},
    {"Verify", READ},
    {"Withdraw", DISRUPT},
};

/* Whatever changes something in these does this, too. */
static const struct {
	const char *service;
	uint32_t effects;
} services[] = {
    {"cloudtrail", AUDIT},
    {"cognito-idp", PRIV},
    {"config", AUDIT},
    {"guardduty", AUDIT},
    {"iam", PRIV},
    {"organizations", PRIV},
    {"ram", PRIV},
    {"sso", PRIV},
    {"sts", PRIV | SECRET},
};

/* Words in a name that say the same. */
static const struct {
	const char *word;
	uint32_t effects;
} parts[] = {
    {"ResourcePolicy", PRIV},
    {"ResourceBasedPolicy", PRIV},
    {"Permission", PRIV},
    {"AccessPolicy", PRIV},
    {"Credential", SECRET},
    {"AccessKey", SECRET},
};

/* --- names that exist -------------------------------------------------------------------- */

static int
cmp_name(struct str service, struct str action, const struct name *n)
{
	AUTO_BUF struct buf a = BUF(512);
	AUTO_BUF struct buf b = BUF(512);

	buf_printf(&a, "%.*s:%.*s", STR_ARG(service), STR_ARG(action));
	buf_printf(&b, "%s:%s", n->service, n->action);
	return str_cmp(buf_str(&a), buf_str(&b));
}

static const struct name *
name_find(struct str service, struct str action)
{
	size_t lo = 0, hi = ARRAY_LEN(names);

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int c = cmp_name(service, action, &names[mid]);

		if (c == 0)
			return &names[mid];
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

static const struct name *
name_find_alike(struct str service, struct str action)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eqz(service, names[i].service) && str_ieqz(action, names[i].action))
			return &names[i];
	return NULL;
}

static struct str
signing_name(struct str service)
{
	static const char *const others[][2] = {{"cloudwatch", "monitoring"}, {"tag", "tagging"},
	    {"ses", "email"}, {"memory-db", "memorydb"}, {"streams.dynamodb", "dynamodb"}};

	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (str_eqz(service, others[i][0]))
			return str_z(others[i][1]);
	return service;
}

/* --- what they do ------------------------------------------------------------------------ */

static bool
begins_with_word(const char *action, const char *word)
{
	size_t n = strlen(word);
	char c;

	if (strncmp(action, word, n) != 0)
		return false;
	c = action[n];
	return c == '\0' || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static uint32_t
verb_effects(const char *action)
{
	uint32_t besides = 0;

	if (begins_with_word(action, "Batch") && action[5] != '\0') {
		action += 5;
		besides = BULK;
	} else if (begins_with_word(action, "Admin") && action[5] != '\0') {
		action += 5;
		besides = PRIV;
	}
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (begins_with_word(action, verbs[i].word))
			return verbs[i].effects == READ && besides == BULK
				   ? READ
				   : verbs[i].effects | besides;
	return OPAQUE;
}

static void
judge(const struct name *n, struct aws_action *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(specials); i++) {
		if (strcmp(n->service, specials[i].service) != 0 ||
		    strcmp(n->action, specials[i].action) != 0)
			continue;
		ret->effects = specials[i].effects;
		ret->later = specials[i].later;
		return;
	}
	ret->effects = verb_effects(n->action);
	if (ret->effects == READ && strcmp(n->service, "sts") != 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(services); i++)
		if (strcmp(n->service, services[i].service) == 0)
			ret->effects |= services[i].effects;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (strstr(n->action, parts[i].word) != NULL)
			ret->effects |= parts[i].effects;
	if (strcmp(n->action, "PassRole") == 0)
		ret->effects = PRIV; /* a right, not a call */
}

struct aws_action
aws_action_find(struct str service, struct str action)
{
	struct str signing = signing_name(service);
	const struct name *n = name_find(signing, action);
	struct aws_action ret = {.effects = OPAQUE, .known = n != NULL};

	if (n == NULL) {
		n = name_find_alike(signing, action);
		ret.odd = n != NULL;
	}
	if (n != NULL)
		judge(n, &ret);
	if (ret.odd)
		ret.effects |= OPAQUE;
	return ret;
}
