/*
 * Who fills which slot: joining of requirements, and one person for one slot by augmenting
 * paths. Runs in core and the command line. A person counts once, whatever they signed; the
 * run's owner never, nor who told the run what to do. Must not depend on the order in which people
 * signed.
 */
#include "policy/policy_internal.h"

#include <assert.h>

#include "common/banned.h"

#define SEATS_MAX (POLICY_SLOTS_MAX * POLICY_QUORUM_MAX)

bool
policy_person_can_sign(const struct policy_person *q, bool verify)
{
	for (size_t i = 0; i < q->nkeys; i++)
		if (!verify || q->keys[i].hardware)
			return true;
	return false;
}

bool
policy_input_own(const struct policy_input *in, struct str person)
{
	for (size_t i = 0; i < in->nwords; i++)
		if (str_eq(person, in->words[i]))
			return true;
	return in->owner.p != NULL && str_eq(person, in->owner);
}

uint16_t
policy_roles_mask(const struct policy_person *q, const struct policy_slot *slots, size_t nslots)
{
	uint16_t mask = 0;

	for (size_t i = 0; i < nslots; i++)
		if (policy_person_has_role(q, slots[i].role))
			mask |= (uint16_t)(1u << i);
	return mask;
}

struct matching {
	const uint16_t *roles;
	size_t npeople;
	size_t nseats;
	uint8_t seat_slot[SEATS_MAX];
	uint32_t seat_person[SEATS_MAX]; /* UINT32_MAX: empty */
	uint32_t *person_seat;		 /* by person; UINT32_MAX: none */
};

/* Breadth-first search for a person to take `seat`, moving others along; true if one was found. */
static bool
seat_fill(struct matching *m, size_t seat)
{
	uint32_t queue[SEATS_MAX], from_person[SEATS_MAX];
	bool seen[SEATS_MAX] = {false};
	size_t head = 0, tail = 0;

	queue[tail++] = (uint32_t)seat;
	seen[seat] = true;
	from_person[seat] = UINT32_MAX;
	while (head < tail) {
		uint32_t s = queue[head++];

		for (size_t i = 0; i < m->npeople; i++) {
			uint32_t other = m->person_seat[i], give = (uint32_t)i;

			if ((m->roles[i] & 1u << m->seat_slot[s]) == 0)
				continue;
			if (other != UINT32_MAX) {
				/* Try to seat that person's seat with somebody else. */
				if (!seen[other]) {
					seen[other] = true;
					from_person[other] = s;
					queue[tail++] = other;
				}
				continue;
			}
			/* Free: hand people along the path back to the empty seat. */
			for (uint32_t at = s; at != UINT32_MAX; at = from_person[at]) {
				uint32_t moved = m->seat_person[at];

				m->seat_person[at] = give;
				m->person_seat[give] = at;
				give = moved;
			}
			return true;
		}
	}
	return false;
}

void
policy_slots_match(const struct policy_slot *slots, size_t nslots, const uint16_t *roles,
    size_t npeople, struct slot_match *ret)
{
	uint32_t person_seat[MATCH_PEOPLE_MAX];
	struct matching m = {.roles = roles, .npeople = npeople, .person_seat = person_seat};

	assert(nslots <= POLICY_SLOTS_MAX && npeople <= MATCH_PEOPLE_MAX);
	*ret = (struct slot_match){0};
	for (size_t i = 0; i < npeople; i++)
		person_seat[i] = UINT32_MAX;
	for (size_t i = 0; i < nslots; i++) {
		assert(slots[i].count <= POLICY_QUORUM_MAX);
		for (unsigned k = 0; k < slots[i].count; k++) {
			m.seat_slot[m.nseats] = (uint8_t)i;
			m.seat_person[m.nseats++] = UINT32_MAX;
		}
	}
	for (size_t s = 0; s < m.nseats; s++) {
		if (seat_fill(&m, s))
			continue;
		ret->missing[m.seat_slot[s]]++;
		ret->missing_total++;
	}
}

/* Maximum per role, kept sorted by role. */
void
policy_slots_join(struct policy_slot *slots, size_t *nslots, const struct rule *rule)
{
	for (size_t i = 0; i < rule->nslots; i++) {
		const struct policy_slot *s = &rule->slots[i];
		size_t k = 0;

		while (k < *nslots && str_cmp(slots[k].role, s->role) < 0)
			k++;
		if (k < *nslots && str_eq(slots[k].role, s->role)) {
			if (s->count > slots[k].count)
				slots[k].count = s->count;
			continue;
		}
		assert(*nslots < POLICY_SLOTS_MAX); /* checked when the policy was read */
		(void)memmove(&slots[k + 1], &slots[k], (*nslots - k) * sizeof(*slots));
		slots[k] = *s;
		(*nslots)++;
	}
}

size_t
policy_slots_open(const struct decision *d, const struct policy_grant *grants, size_t ngrants,
    struct str owner, struct policy_slot out[POLICY_SLOTS_MAX])
{
	uint16_t roles[64];
	struct str people[64];
	size_t npeople = 0, nout = 0;
	struct slot_match m;

	for (size_t i = 0; i < ngrants; i++) {
		size_t k = 0;

		while (k < npeople && !str_eq(people[k], grants[i].person))
			k++;
		if ((k == npeople && npeople == ARRAY_LEN(people)) || owner.p == NULL ||
		    str_eq(grants[i].person, owner) || (d->verify && !grants[i].verified))
			continue;
		if (k == npeople) {
			roles[npeople] = 0;
			people[npeople++] = grants[i].person;
		}
		for (size_t s = 0; s < d->nslots; s++)
			if (str_eq(d->slots[s].role, grants[i].role))
				roles[k] |= (uint16_t)(1u << s);
	}
	policy_slots_match(d->slots, d->nslots, roles, npeople, &m);
	for (size_t s = 0; s < d->nslots; s++)
		if (m.missing[s] != 0)
			out[nout++] = (struct policy_slot){d->slots[s].role, m.missing[s]};
	return nout;
}

void
policy_slots_put(struct buf *out, const struct policy_slot *s, size_t n, const char *between)
{
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%s%.*s:%u", i != 0 ? between : "", STR_ARG(s[i].role), s[i].count);
}

void
policy_slots_jcs(struct jcs *j, const char *key, const struct policy_slot *s, size_t n)
{
	jcs_array(j, key);
	for (size_t i = 0; i < n; i++) {
		AUTO_BUF struct buf b = BUF(256);

		policy_slots_put(&b, &s[i], 1, "");
		jcs_str(j, NULL, buf_str(&b));
	}
	jcs_array_end(j);
}
