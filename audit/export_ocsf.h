/* Between export_ocsf*.c: OCSF's numbers, and which of them a record has. */
#ifndef AUDIT_EXPORT_OCSF_H
#define AUDIT_EXPORT_OCSF_H

#include "audit/export.h"

#define OCSF_VERSION "1.9.0-dev"
#define OCSF_OTHER 99

/* class_uid; the first digit is the category. */
enum ocsf_class {
	OCSF_BASE = 0,
	OCSF_AUTHORIZE = 3003,
	OCSF_ENTITY = 3004,
	OCSF_LIFECYCLE = 6002,
	OCSF_API = 6003,
	OCSF_DATASTORE = 6005,
};

struct ocsf_kind {
	enum ocsf_class class;
	int activity;
	const char *other; /* the name of activity 99; of OCSF_ENTITY the type of the entity */
};
struct ocsf_kind ocsf_kind(const struct export *e);

/* A record on its way into an event. */
struct ocsf {
	const struct export *e;
	struct ocsf_kind k;
	struct jcs j;
};
/* Of two members the first that is a text; b may be NULL. */
struct str ocsf_text(const struct export *e, const char *a, const char *b);
/* The members of an event that are objects, in export_ocsf_part.c; each may put nothing. */
void ocsf_actor(struct ocsf *p);
void ocsf_ai_agent(struct ocsf *p);
void ocsf_api(struct ocsf *p);
void ocsf_entity(struct ocsf *p);
void ocsf_http_request(struct ocsf *p);
void ocsf_metadata(struct ocsf *p);
void ocsf_policy(struct ocsf *p);
void ocsf_privileges(struct ocsf *p);
void ocsf_hash(struct ocsf *p);

#endif
