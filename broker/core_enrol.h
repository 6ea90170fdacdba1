/*
 * Passkeys that are to be enrolled: invitations, signed by those who sign policies, and what comes
 * of them. Core takes no key from here: it puts it on the record, and tells the line for the
 * policy.
 */
#ifndef BROKER_CORE_ENROL_H
#define BROKER_CORE_ENROL_H

#include "broker/core_console.h"

/* Control socket: {"person"} to {"broker","id","origin","person","until_us"}. */
int core_enrol_verb_invite(struct core_call *call, struct err *err);
/* Control socket: {"id","person","signature"} (person: who signs) to {"person","until","url"}. */
int core_enrol_verb_sign(struct core_call *call, struct err *err);
/* Console: {"token"} to {"challenge","person"}. */
int core_enrol_begin(struct core_call *call, struct err *err);
/* Console: {"attestation","client_data","token"} (base64) to {"fingerprint","key","person"}. */
int core_enrol_make(struct core_call *call, struct err *err);
void core_enrol_free_all(struct core_desk *d);

#endif
