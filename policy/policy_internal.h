/* Inside the policy engine only: how a checked policy looks in memory, and its reader. */
#ifndef POLICY_POLICY_INTERNAL_H
#define POLICY_POLICY_INTERNAL_H

#include "common/arena.h"
#include "common/jcs.h"
#include "common/json.h"
#include "policy/calendar.h"
#include "policy/policy.h"
#include "policy/policy_source.h"

#define POLICY_BUNDLE_MAX ((size_t)2 << 20) /* what one sealed blob of the log holds */
#define POLICY_CALENDARS_MAX 64
#define POLICY_ARRAY_MAX 256 /* elements of one list in a condition, roles of a person */
#define POLICY_TEXT_MAX 256  /* bytes of why, host names, paths */
#define POLICY_CA_MAX ((size_t)256 << 10) /* bytes of one CA file */
#define POLICY_WITHIN_MAX (30 * 86400)
#define POLICY_USE_WITHIN_MAX 86400
#define POLICY_ROWS_MAX 1000000000

/* Unknown counts as a match for forbid and require, as none for permit. */
enum tri { TRI_NO = 0, TRI_YES, TRI_UNKNOWN };

struct strs {
	size_t n;
	struct str *v;
};

struct indices {
	size_t n;
	uint32_t *v;
};

struct interval {
	int64_t from, to; /* [from, to) in seconds since 1970Z */
};

struct calendar {
	struct str id, tz;
	bool open;
	struct interval valid;
	size_t n;
	struct interval *iv; /* merged, ascending, inside valid */
};

enum attr { ATTR_target, ATTR_kind, ATTR_env, ATTR_agent, ATTR_run, ATTR_owner, ATTR_COUNT };
extern const char *const policy_attr_names[ATTR_COUNT];

enum effects_mode { EFFECTS_UNASKED = 0, EFFECTS_ANY, EFFECTS_ONLY };

struct cond {
	struct strs attr[ATTR_COUNT]; /* n == 0: not asked */
	struct strs relation, resource;
	enum effects_mode mode;
	uint32_t effects;
	int64_t gt, lt, eq;		/* statements; -1: not asked */
	struct indices during, outside; /* into policy.calendars */
	bool finish;			/* what began before them may finish in them */
	struct policy_rate rate;	/* per RATE_NONE: not asked */
};

/* What each key of a condition gave. */
enum cond_key {
	COND_target,
	COND_kind,
	COND_env,
	COND_agent,
	COND_run,
	COND_owner,
	COND_effects,
	COND_statements,
	COND_relation,
	COND_resource,
	COND_during,
	COND_outside,
	COND_rate,
	COND_COUNT
};
struct cond_match {
	bool asked[COND_COUNT];
	enum tri key[COND_COUNT];
	enum tri all;	   /* the AND of those asked */
	enum tri untimed;  /* the AND without during and outside */
	enum tri unrated;  /* the AND without rate */
	uint32_t calendar; /* that decided during or outside; CALENDAR_NONE */
};
#define CALENDAR_NONE UINT32_MAX

enum rule_kind { RULE_PERMIT = 1, RULE_REQUIRE, RULE_FORBID };
enum rule_override { OVERRIDE_NEVER = 0, OVERRIDE_EXCEPTION, OVERRIDE_BREAKGLASS };

struct rule {
	struct str id, why;
	enum rule_kind kind;
	enum rule_override override;
	bool belt; /* source alone: meant to be covered by another rule */
	struct cond cond;
	size_t nslots;
	struct policy_slot slots[POLICY_SLOTS_MAX]; /* sorted by role */
	int64_t within_s, use_within_s, max_rows;
	bool verify;  /* require: each signature by a hardware key that verified the person */
	bool preview; /* require: refused where the target cannot be asked beforehand */
};

struct target {
	struct policy_target pub;
	struct str origin, ca_name;
	struct strs networks, read_posts, unsafe_gets, graphql_paths,
	    upgrade_paths; /* pub has them, too */
};

/* What is not said is the default. */
struct emergency {
	bool said;
	struct strs freeze_roles;
	bool glass_verified;
	int64_t glass_max_s, glass_answer_s;
	struct str glass_offhost;
	int64_t glass_offhost_s;
};

/* "effect_requires", by effect; said: those that it names. */
struct requires
{
	uint32_t said, checkpoint;
	uint8_t witnesses[EFFECT_COUNT];
	int64_t within_s;
};

struct policy {
	struct arena *mem;
	struct str name, tzdata, engine; /* engine: of the effects, when it was built */
	int64_t serial;
	enum clock_mode clock;
	struct str author;
	struct policy_owners owners;
	struct policy_attempts attempts; /* as given; 0: not given */
	bool attempts_given;
	struct requires requires;
	struct strs watch; /* roles */
	bool opaque_keys;  /* a case file's fingerprints: can be judged, never built */
	size_t ntargets, npeople, ncalendars, nrules, nrates;
	struct target *targets;		     /* sorted by id */
	struct policy_person *people;	     /* sorted by id */
	struct calendar *calendars;	     /* sorted by id */
	struct rule *rules;		     /* in file order */
	uint32_t rates[POLICY_RATES_MAX];    /* rules that have one */
	struct policy_rate_count *uncounted; /* a zero for each of those */
	struct rule_index *index;	     /* NULL: every rule is looked at */
	struct emergency emergency;
	struct hash digest;
};

/* --- reading ------------------------------------------------------------------------- */
struct reader;
/*
 * What only source has. A bundle's reader has none of it, so that core does not even link the
 * compiler of calendars or what opens files.
 */
struct reader_source {
	const struct policy_source *src;
	int (*calendar)(
	    struct reader *r, const struct json *v, struct calendar *cal, struct err *err);
	int (*ca)(struct reader *r, const struct json *v, struct str file, struct str *ret_pem,
	    struct err *err);
};
/* Where something was written. */
struct place {
	const struct json_doc *doc;
	const struct json *v;
};
struct named_place {
	struct str id; /* borrowed from the document */
	struct place at;
	size_t order; /* in which it was read */
};
struct named_places {
	size_t n;
	struct named_place *v; /* sorted by id */
};
enum section_id {
	SECTION_TARGETS,
	SECTION_PEOPLE,
	SECTION_CALENDARS,
	SECTION_RULES,
	SECTION_PROVE,
	SECTION_CASES,
	SECTION_COUNT
};
struct reader {
	const struct json_doc *doc; /* what is read now: one of the parts' */
	struct policy *p;
	struct buf *warnings;
	const struct reader_source *source; /* NULL: a bundle */
	const struct place *parts;	    /* the root, and what it includes */
	size_t nparts;
	struct named_places named[SECTION_COUNT];
};
/*
 * One section of a policy: an object of named things or an array of things with an id, whose parts
 * may stand in several files. In their order each may name things of those before it.
 */
struct section {
	const char *key;
	enum json_type type; /* object or array */
	enum section_id id;
	bool required;
	size_t min, max;
	void (*alloc)(struct policy *p, size_t n); /* NULL: nothing is kept */
	/* One of them. `name`: the member's, of an array "". */
	int (*one)(struct reader *r, struct str name, const struct json *v, struct err *err);
	int (*done)(struct reader *r, struct err *err); /* all are there; NULL: nothing to check */
};

/* Reads one member into `out`; the table below names it. */
typedef int read_fn(struct reader *r, const struct json *v, void *out, struct err *err);
struct read_field {
	const char *key;
	read_fn *fn;
	size_t offset; /* into the struct given to read_object */
	bool required;
};
/* Every member must be in the table, every required one must be there. */
int read_object(struct reader *r, const struct json *v, const char *what,
    const struct read_field *fields, size_t n, void *out, struct err *err);
int read_type(
    struct reader *r, const struct json *v, enum json_type t, const char *what, struct err *err);
bool read_is_id(struct str s);
int read_check_id(
    struct reader *r, const struct json *at, struct str id, const char *what, struct err *err);
int read_id(struct reader *r, const struct json *v, void *out, struct err *err);   /* struct str */
int read_text(struct reader *r, const struct json *v, void *out, struct err *err); /* struct str */
int read_ids(struct reader *r, const struct json *v, void *out, struct err *err);  /* struct strs */
int read_texts(
    struct reader *r, const struct json *v, void *out, struct err *err); /* struct strs */
/* Names of effects and built-in sets; may be empty. */
int read_effect_list(struct reader *r, const struct json *v, uint32_t *ret, struct err *err);
int read_ignore(struct reader *r, const struct json *v, void *out, struct err *err);
int read_int(struct reader *r, const struct json *v, const char *what, int64_t min, int64_t max,
    int64_t *ret, struct err *err);
/* "90s", "30m", "8h", "7d"; min and max in seconds. */
int read_duration(struct reader *r, const struct json *v, const char *what, int64_t min,
    int64_t max, int64_t *ret, struct err *err);
void read_warn(struct reader *r, const struct json *v, const char *fmt, ...) PRINTF_LIKE(3, 4);
struct str read_keep(struct reader *r, struct str s); /* copy into the policy's memory */

struct policy *policy_new(void);
/* The sections over all parts, then what holds across them. */
int policy_read_sections(
    struct reader *r, const struct section *const *sections, size_t n, struct err *err);
/* Where a thing of a section was written; makes its file the one that messages name. */
const struct json *read_place(struct reader *r, enum section_id s, struct str id);
extern const struct section policy_targets_section, policy_people_section, policy_calendars_section,
    policy_rules_section, policy_prove_section, policy_cases_section;
/* Members that source and bundle share, for read_object. */
read_fn policy_read_serial, policy_read_clock, policy_read_attempts, policy_read_rate,
    policy_read_owners, policy_read_requires;
void policy_emit_requires(const struct policy *p, struct jcs *j);
int policy_check_owners(struct reader *r, struct err *err);
/* policy_target_http.c: the keys of kind http alone; an origin's parts; what holds among targets.
 */
read_fn policy_read_origin, policy_read_model, policy_read_networks, policy_read_graphql,
    policy_read_cookies, policy_read_placeholder, policy_read_max_body, policy_read_paths,
    policy_read_via;
/* policy_target_kind.c: of kinds git, k8s, aws, mcp. */
read_fn policy_read_accounts, policy_read_namespaces, policy_read_protected,
    policy_read_push_options, policy_read_refs, policy_read_regions, policy_read_repositories,
    policy_read_services, policy_read_quarantine, policy_read_tools, policy_read_wrapped;
/* policy_target_upgrade.c: of http and k8s. What is wrong with the target for that reason; NULL. */
read_fn policy_read_upgrade;
const char *policy_upgrade_fault(const struct policy_target *p);
int policy_split_origin(struct reader *r, const struct json *v, struct target *t, struct err *err);
int policy_check_http(struct reader *r, const struct json *v, struct target *t, struct err *err);
int policy_check_origins(struct reader *r, struct err *err);
bool policy_host_is_address(struct str host);
bool policy_host_is_name(struct str host);     /* lower case, no port */
bool policy_host_is_loopback(struct str host); /* "localhost", 127.0.0.0/8, ::1 */
/* policy_emergency.c: the section, once people are known what holds of it, and its defaults. */
read_fn policy_read_emergency;
int policy_check_emergency(struct reader *r, struct err *err);
/* A forbid whose "override" nobody of the policy could use is warned of. */
void policy_warn_override(struct reader *r, const struct json *v, const struct rule *rule);
void policy_emit_emergency(const struct policy *p, struct jcs *j);
void policy_emergency_defaults(struct policy *p);
int policy_read_cond(struct reader *r, const struct json *v, struct cond *ret, struct err *err);
/* What holds across the sections: quorums, roles, calendars, identities. */
int policy_check_whole(struct reader *r, struct err *err);
/* Certificates of a PEM text and nothing else of it. */
int policy_read_ca(
    struct reader *r, const struct json *v, struct str file, struct str *ret_pem, struct err *err);
/* The root and what it includes, in the order of a reader; source alone. */
int policy_include(
    struct str text, const struct policy_source *src, struct policy_docs *docs, struct err *err);
/* A regular file: a relative name stays below `dir`, an absolute one is opened as it is. */
int policy_file_read(const char *dir, const char *name, struct buf *ret, struct err *err);
/* Source text of one calendar to intervals. */
int policy_compile_calendar(
    struct reader *r, const struct json *v, struct calendar *cal, struct err *err);

/* --- the engine ---------------------------------------------------------------------- */
void policy_emit(const struct policy *p, struct buf *out);
enum tri policy_calendar_state(const struct calendar *c, struct instant at);
/* Next second at which `c` is (not) in a window after at; 0: not known. */
int64_t policy_calendar_next(const struct calendar *c, int64_t at_s, bool into);
/* Sets of rules by what they name; policy_index.c. */
struct rule_index {
	size_t words;		/* of one set: bit i of it is rule i */
	uint64_t *target;	/* by target: those whose target, kind and env are its */
	uint64_t *any, *others; /* by effect: "any" has it; "only" does not have it */
	uint64_t *unasked, *only;
};
void policy_index_build(struct policy *p);
/*
 * The set of rules whose target, kind, env and effects are the action's, one word at a time. NULL:
 * the action is not quite one of this policy's targets, and every rule must be looked at.
 */
const uint64_t *policy_index_target(const struct policy *p, const struct policy_input *in);
uint64_t policy_index_word(
    const struct rule_index *x, const uint64_t *target, uint32_t effects, size_t word);
/* policy_cond_match for a rule of that set: what the index has answered is not asked again. */
void policy_cond_match_rest(const struct policy *p, const struct cond *c,
    const struct policy_input *in, enum rule_kind kind, struct cond_match *ret);
void policy_cond_match(const struct policy *p, const struct cond *c, const struct policy_input *in,
    enum rule_kind kind, struct cond_match *ret);
/* Does an emergency freeze hold for this action? What is missing or unknown counts as yes. */
bool policy_overlay_binds(const struct policy_overlay *o, const struct policy_input *in);
/*
 * The lift that takes this rule's forbid away from this action, one that `d` names already before
 * others, and notes it in `d`. False: none does, or `d` cannot name one more.
 */
bool policy_lift_note(const struct rule *rule, const struct policy_input *in, struct decision *d);
/* policy_eval() at one instant: policy_deferred.c joins those that count. */
void policy_eval_at(const struct policy *p, const struct policy_input *in,
    const struct policy_grant *grants, size_t ngrants, struct decision *ret);
void policy_slots_join(struct policy_slot *slots, size_t *nslots, const struct rule *rule);

/* People who may fill roles, one slot each: `roles` are bits of the slots array. */
#define MATCH_PEOPLE_MAX POLICY_PEOPLE_MAX
struct slot_match {
	unsigned missing[POLICY_SLOTS_MAX];
	unsigned missing_total;
};
void policy_slots_match(const struct policy_slot *slots, size_t nslots, const uint16_t *roles,
    size_t npeople, struct slot_match *ret);
/* Has this person a key that could sign, where only verified signatures count (verify) or any? */
bool policy_person_can_sign(const struct policy_person *q, bool verify);
/* The roles (bits of slots) that a person holds. */
uint16_t policy_roles_mask(
    const struct policy_person *q, const struct policy_slot *slots, size_t nslots);

#endif
