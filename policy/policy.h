/*
 * The policy: permit, require, forbid over effects, targets, people and time. Pure: no
 * clock, no I/O but zone files at build time. Used by core (bundles only), by the command line.
 */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include "common/clock.h"
#include "common/hash.h"
#include "common/sig.h"
#include "policy/effect.h"

#define POLICY_TARGETS_MAX 256
#define POLICY_PEOPLE_MAX 1024
#define POLICY_RULES_MAX 16384
#define POLICY_SLOTS_MAX 16 /* roles in one joined requirement */
#define POLICY_QUORUM_MAX 9
#define POLICY_KEYS_MAX 16  /* per person */
#define POLICY_RATES_MAX 64 /* rules with a rate */
#define POLICY_ID_MAX 64    /* bytes of an id, [A-Za-z0-9._-] */

enum verdict { VERDICT_DENY = 0, VERDICT_NEEDS_APPROVAL = 1, VERDICT_ALLOW = 2 };
const char *verdict_name(enum verdict v); /* deny, needs_approval, allow */

struct policy;

/*
 * Source text (cofferdam-policy/1) to a checked policy with calendars compiled to UTC intervals.
 * `name` for messages; CA files named by targets are read relative to `dir` (NULL: not read, only
 * for `test` and `explain`); zoneroot NULL = /usr/share/zoneinfo. Errors name file, line, column.
 * Warnings (short horizon, a target without host, ...) are appended to `warnings` if not NULL.
 */
int policy_parse(struct str text, const char *name, const char *dir, const char *zoneroot,
    struct policy **ret, struct buf *warnings, struct err *err);
/* The canonical bundle that `build` writes and core loads; its digest is SHA-256 of these bytes. */
int policy_bundle(const struct policy *p, struct buf *ret, struct err *err);
int policy_load(struct str bundle, struct policy **ret, struct err *err);
void policy_free(struct policy *p);
DEFINE_AUTO(policy, struct policy, policy_free)
const struct hash *policy_digest(const struct policy *p); /* of the bundle */
struct str policy_name(const struct policy *p);
int64_t policy_serial(const struct policy *p);
enum clock_mode policy_clock(const struct policy *p);
struct str policy_tzdata(const struct policy *p); /* version the calendars were compiled with */

/* Whose signatures the bundle after this one needs; see policy/succession.h. */
struct policy_owners {
	size_t n; /* 0: nobody's */
	const struct str *people;
	unsigned count;
	bool not_author; /* one of them at least is not the new one's author */
};
const struct policy_owners *policy_owners(const struct policy *p); /* NULL: nobody's */
struct str policy_author(const struct policy *p);		   /* a person; empty: not said */

/*
 * What follows equivalent tries after a refusal or an expiry: after so many an alarm is recorded,
 * after so many the run ends. 0: never. Where the policy does not say: POLICY_ALARM_AFTER, never.
 */
#define POLICY_ALARM_AFTER 5
struct policy_attempts {
	unsigned alarm, end;
};
struct policy_attempts policy_attempts(const struct policy *p);

/*
 * What the log must have before an action with these effects is sent: its record durable always,
 * signed, and cosigned by so many witnesses.
 */
#define POLICY_WITNESSES_MAX 8
struct policy_requires {
	bool checkpoint;
	unsigned witnesses; /* 0: none */
	int64_t within_s;   /* so long they are waited for */
};
struct policy_requires policy_requires(const struct policy *p, uint32_t effects);

/* A rule that matches once its condition (but for the rate) matched over `over` times in a window.
 */
enum policy_rate_per { RATE_NONE = 0, RATE_RUN, RATE_OWNER, RATE_AGENT, RATE_TARGET };
struct policy_rate {
	struct str rule;
	unsigned over;
	int64_t in_s;
	enum policy_rate_per per; /* counted apart for each of these */
};
const char *policy_rate_per_name(enum policy_rate_per per); /* run, owner, agent, target */
size_t policy_rate_total(const struct policy *p);
const struct policy_rate *policy_rate_at(const struct policy *p, size_t i);

struct policy_list {
	size_t n;
	const struct str *v;
};
/* Roles whose holders may watch and steer other people's runs; none: their owners alone. */
struct policy_list policy_watch(const struct policy *p);

enum target_kind {
	TARGET_POSTGRES = 1,
	TARGET_HTTP,
	TARGET_GIT,
	TARGET_K8S,
	TARGET_AWS,
	TARGET_REDIS,
	TARGET_MCP,
	TARGET_REFERENCE, /* what is only read, whatever a rule says */
	TARGET_KIND_LAST = TARGET_REFERENCE
};
enum target_model {
	TARGET_MODEL_NONE = 0,
	TARGET_MODEL_ANTHROPIC,
	TARGET_MODEL_OPENAI,
	TARGET_MODEL_GOOGLE
};
const char *target_model_name(enum target_model m); /* anthropic, openai, google; NULL: none */

/* What the broker may ask a target before people are asked; docs/format-approval.md 5. */
enum target_preview { PREVIEW_NONE = 0, PREVIEW_PLAN, PREVIEW_COUNT, PREVIEW_LOOK };
const char *target_preview_name(enum target_preview p); /* plan, count, look; NULL: none */

/* What a field of GraphQL does, said by the policy: "mutation.volumeDelete", "query.variables". */
struct policy_graphql_field {
	struct str name;
	uint32_t effects;
};
/* A query document that a client may name by its hash alone. */
struct policy_persisted {
	struct hash hash; /* SHA-256 of text */
	struct str text;
};

/* Lists that targets of one kind or another have; empty: not said. policy_target_kind.c. */
enum target_list {
	TARGET_LIST_ACCOUNTS,	  /* aws: what may be named, 12 digits each */
	TARGET_LIST_NAMESPACES,	  /* k8s: all that may be touched */
	TARGET_LIST_PROTECTED,	  /* git: refs whose deletion is a drop */
	TARGET_LIST_PUSH_OPTIONS, /* git: those that may be sent */
	TARGET_LIST_REFS,	  /* git: all that may be pushed to */
	TARGET_LIST_REGIONS,	  /* aws */
	TARGET_LIST_REPOSITORIES, /* git: paths, all that may be touched */
	TARGET_LIST_SERVICES,	  /* aws */
	TARGET_LIST_COUNT
};
/* What a tool of an MCP server does, said by the policy. */
struct policy_tool {
	struct str name;
	uint32_t effects;
};

/* A protocol that a connection may be switched to, and what passes over it then. */
struct policy_upgrade {
	struct str protocol;
	uint32_t effects;
};

struct policy_target {
	struct str id, env, host, database, user, credential;
	struct str address; /* "address": numeric, where `host` really is; empty: resolve host */
	enum target_kind kind;
	uint16_t max_connections; /* of one run; 0: the broker's default */
	bool seal;		  /* "seal":"answers": they go sealed into the log */
	enum target_preview preview;
	uint16_t port;	 /* 0: a target without a host, for test and explain only */
	bool tls_verify; /* "tls":"verify-full" (the default); false for "off" (loopback hosts only)
			  */
	struct str ca_pem; /* contents of the CA file; empty: system store */

	struct policy_list lists[TARGET_LIST_COUNT];
	bool quarantine;		 /* git: a push that was not looked into is opaque */
	size_t ntools;			 /* mcp */
	const struct policy_tool *tools; /* sorted by name */

	/* Kinds that come by HTTP. */
	bool tls;      /* scheme https; the same as tls_verify */
	bool wildcard; /* `host` is what follows "*."; exactly one label stands in front of it */
	bool cookies;  /* "cookies":"pass"; else they are refused */
	enum target_model model;
	bool wrapped;	   /* a model that a wrapped agent may ask, from its sandbox */
	uint64_t max_body; /* bytes of a request's body; 0: the broker's default */
	/* Reached through this forward proxy; empty: directly. Its host as `host` is written. */
	struct str via, via_host, via_credential; /* via: the origin as the policy has it */
	uint16_t via_port;
	bool via_tls;
	struct str files; /* reference: answered from the directory that broker.json calls so */
	struct str
	    placeholder; /* environment variable of the sandbox that holds one; empty: none */
	size_t nnetworks, nread_posts, nunsafe_gets, ngraphql_paths, ngraphql_fields, npersisted;
	const struct str *networks;    /* CIDR: addresses besides public ones that may be dialled */
	const struct str *read_posts;  /* exact paths whose POST, or GET with a body, only reads */
	const struct str *unsafe_gets; /* exact paths whose GET or HEAD writes */
	const struct str *graphql_paths; /* besides any with a segment that says so */
	const struct policy_graphql_field *graphql_fields; /* sorted by name */
	const struct policy_persisted *persisted;	   /* sorted by hash */
	size_t nupgrades, nupgrade_paths;
	const struct policy_upgrade *upgrades; /* sorted by protocol */
	const struct str *upgrade_paths;       /* exact paths; none: on all of them */
};
size_t policy_target_count(const struct policy *p);
const struct policy_target *policy_target_at(const struct policy *p, size_t i);
const struct policy_target *policy_target(const struct policy *p, struct str id); /* NULL: none */
const char *target_kind_name(enum target_kind k);
bool target_kind_is_http(enum target_kind k); /* its requests come by HTTP */
/*
 * The http target of an origin, by the spelling of http_authority_parse: an exact name first, then
 * the wildcard that covers it. NULL: none.
 */
const struct policy_target *policy_target_by_origin(
    const struct policy *p, bool tls, struct str host, uint16_t port);

struct policy_person {
	struct str id;
	size_t nroles, nlogins, nkeys;
	const struct str *roles, *logins; /* logins: "unix:alice" */
	const struct sig_pubkey *keys;
	const struct str *credentials; /* beside each key: the id of a WebAuthn one; else empty */
};
size_t policy_person_count(const struct policy *p);
const struct policy_person *policy_person_at(const struct policy *p, size_t i);
const struct policy_person *policy_person(const struct policy *p, struct str id);
const struct policy_person *policy_person_by_login(const struct policy *p, struct str login);
const struct policy_person *policy_person_by_key(
    const struct policy *p, const struct sig_pubkey *k);
bool policy_person_has_key(const struct policy_person *q, const struct sig_pubkey *k);
bool policy_person_has_role(const struct policy_person *q, struct str role);

/* "emergency": who may freeze, how break-glass may be used. All of it has a default. */
struct policy_emergency {
	size_t nfreeze_roles; /* 0: any person may start and lift an emergency freeze */
	const struct str *freeze_roles;
	bool glass_verified;	/* break-glass needs a hardware key with user verification */
	int64_t glass_max_s;	/* at most this long */
	int64_t glass_answer_s; /* so long a second person may answer before it acts for a run of
				   the one who broke the glass */
	struct str
	    glass_offhost;	 /* the webhook that must have its record before it acts; "" none */
	int64_t glass_offhost_s; /* so long that may take */
};
struct policy_emergency policy_emergency(const struct policy *p);

/*
 * What people signed beside the policy, as core holds it from the log at the instant of judging.
 * A lift takes one rule's (or break-glass: every rule's with "override":"breakglass") forbid away
 * from what it names; nothing lifts "never". An overlay only tightens.
 */
enum policy_lift_kind { LIFT_EXCEPTION = 1, LIFT_BREAKGLASS };
struct policy_lift {
	enum policy_lift_kind kind;
	struct str id;	   /* of the signed object */
	struct str rule;   /* LIFT_EXCEPTION: the rule that it lifts; else empty */
	struct str target; /* exactly this target */
	struct str run;	   /* empty: any run */
	uint32_t
	    effects; /* lifts if the action has no other effects than these and @data; 0: nothing */
	int64_t from_us, to_us; /* [from, to), microseconds since 1970Z */
};
/* An emergency freeze: a forbid (override never) of any of `effects` where target and env match. */
struct policy_overlay {
	struct str id, why;
	struct str target, env; /* empty: all */
	uint32_t effects;
	int64_t from_us; /* until it is lifted: core then drops it */
};
/*
 * How often a rule's condition (but for its rate) matched what was let through within its window
 * before now: each action as many times as it has statements. What a COMMIT commits was counted
 * when it ran, so beside a COMMIT it is one less.
 */
struct policy_rate_count {
	struct str rule;
	unsigned n;
};

/* What is judged. Strings are borrowed. A str with p == NULL is a missing attribute: unknown
 * tightens. */
struct policy_input {
	struct str target, kind, env, agent, run, owner;
	struct str kin; /* the run that `run` and others count for; missing: itself */
	/* People besides the owner who gave the run words: they do not sign for what it does. */
	const struct str *words;
	size_t nwords;
	uint32_t effects; /* 0 counts as EFFECT_opaque */
	unsigned statements;
	/* Names of what it touches: as in facts "rel", of other kinds as in policy/resource.h. */
	const struct str *relations;
	size_t nrelations;
	bool deferred; /* it acts later: judged as if done now and in the next freezes */
	struct instant at;
	int64_t began_us; /* of a COMMIT: when its transaction began; 0: it begins now */
	const struct policy_lift *lifts;
	const struct policy_overlay *overlays;
	/* For each rule with a rate; one that is missing: unknown, which tightens. */
	const struct policy_rate_count *rates;
	size_t nlifts, noverlays, nrates;
};
struct policy_input policy_input_for(
    const struct policy *p, struct str target_id); /* target, kind, env filled */

/* Nobody signs for their own: the owner of the run, unknown or not, or who gave it words. */
bool policy_input_own(const struct policy_input *in, struct str person);

/* For a case or a question, not for core: as if nothing had been counted yet. */
void policy_input_uncounted(const struct policy *p, struct policy_input *in);

struct policy_slot {
	struct str role;
	unsigned count;
};
/* One grant: a person who signed for a role. */
struct policy_grant {
	struct str person, role;
	bool verified; /* by a hardware key that verified the person: PIN or finger */
};

#define DECISION_RULES_MAX 32
#define DECISION_LIFTED_MAX 8
struct decision {
	enum verdict verdict;
	uint32_t effects;
	/* Deciding rules: the overlays and forbids that matched, else "default", else the requires
	 * that joined, else the first permit; ids borrowed from the policy, overlays' from the
	 * input. */
	size_t nrules, noverlays; /* the first noverlays of the rules are ids of overlays */
	struct str rules[DECISION_RULES_MAX];
	size_t nslots; /* what is required in all (needs_approval, or allow by grants); sorted by
			  role */
	struct policy_slot slots[POLICY_SLOTS_MAX];
	int64_t within_s, use_within_s; /* the smallest of the joined; 0 none */
	int64_t max_rows;		/* the smallest; -1 none */
	bool verify;			/* only verified grants count */
	bool preview;			/* nobody is asked without one */
	struct str calendar;   /* of the first deciding rule that names one; empty if none */
	bool calendar_unknown; /* outside `valid` or the clock is unknown */
	int64_t until_us;      /* next transition of that calendar; 0 unknown */
	struct str shut; /* beside "default": a permit that only its times keep shut; empty if none
			  */
	struct str why;	 /* the rule's or overlay's own words, if any */
	bool unsatisfiable; /* needs_approval that nobody can give (owner excluded) */
	/*
	 * Ids of the lifts without which it would have been denied; borrowed from the input. Empty
	 * beside a denial. What would need more than fit here is denied.
	 */
	size_t nlifted;
	struct str lifted[DECISION_LIFTED_MAX];
	char text[512]; /* one sentence for people: what, rule, calendar, until when */
};

/*
 * The one verdict function. Grants are matched to slots one person each; the owner's and repeated
 * persons' grants do not count. Never fails: what cannot be judged is denied.
 */
void policy_eval(const struct policy *p, const struct policy_input *in,
    const struct policy_grant *grants, size_t ngrants, struct decision *ret);
/*
 * The same without d->text, for where it is decided: some tenths of a microsecond. policy_say()
 * fills it in from the rest.
 */
void policy_judge(const struct policy *p, const struct policy_input *in,
    const struct policy_grant *grants, size_t ngrants, struct decision *ret);
void policy_say(const struct policy_input *in, struct decision *d);
/* Open part of the slots after matching the grants: role and how many are missing. */
size_t policy_slots_open(const struct decision *d, const struct policy_grant *grants,
    size_t ngrants, struct str owner, struct policy_slot out[POLICY_SLOTS_MAX]);
/* Could the people of the policy, but those whose own it is, fill these slots? */
bool policy_quorum_possible(const struct policy *p, const struct policy_input *in,
    const struct policy_slot *slots, size_t nslots, bool verify);
/* "dba:1, oncall:2", and each as a string of an array. */
void policy_slots_put(struct buf *out, const struct policy_slot *s, size_t n, const char *between);
void policy_slots_jcs(struct jcs *j, const char *key, const struct policy_slot *s, size_t n);
/* Does the action count for rate i, by what the rule asks besides it? Unknown counts. */
bool policy_rate_concerns(const struct policy *p, size_t i, const struct policy_input *in);
/* The condition-by-condition truth table, for `policy explain` and `show`. */
void policy_explain(const struct policy *p, const struct policy_input *in, struct buf *out);
void policy_explain_jcs(
    const struct policy *p, const struct policy_input *in, struct jcs *j, const char *key);

#endif
