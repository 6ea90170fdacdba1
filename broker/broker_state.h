/*
 * The state directory: what must be there, whose it is and how closed it must be. All
 * paths are opened beneath one descriptor, through no symbolic link.
 */
#ifndef BROKER_BROKER_STATE_H
#define BROKER_BROKER_STATE_H

#include <sys/types.h>

#include "common/err.h"
#include "common/ipc.h"

#define BROKER_STATE_VERSION 1

/* Who the children run as; all zero: as ourselves. Index: enum ipc_role. */
#define BROKER_ROLES IPC_CHILDREN
struct broker_ids {
	bool root; /* started as root: every role has its own */
	uid_t uid[BROKER_ROLES];
	gid_t gid[BROKER_ROLES];
};

struct broker_state {
	char *path;
	int dir, run, lock; /* descriptors; -1: none */
};

/*
 * Open and check: VERSION, then each entry's kind, owner and mode (docs/state.md). A looser
 * mode is refused: "keys/vault.key: mode is 0644, must be 0600". run/ and courier/ are made when
 * missing.
 */
int broker_state_open(const char *path, struct broker_state *ret, struct err *err);
/* The entries' checks; needs the ids, since as root some entries belong to a child. */
int broker_state_check(const struct broker_state *s, const struct broker_ids *ids, struct err *err);
/* One broker for a state directory: ERR_EXISTS names the other's pid. Writes run/broker.pid. */
int broker_state_lock(struct broker_state *s, struct err *err);
/* As root: log/ to the writer, keys/blob/ to core, courier/ to the courier, with all that is
 * beneath. */
int broker_state_hand_over(
    const struct broker_state *s, const struct broker_ids *ids, struct err *err);
/* Open beneath the directory; flags O_RDONLY or O_RDONLY | O_DIRECTORY. */
int broker_state_file(
    const struct broker_state *s, const char *path, int flags, int *ret_fd, struct err *err);
/* Anything of that name, or something that cannot be looked at. */
bool broker_state_has(const struct broker_state *s, const char *path);
/* All of a small text file, at most max bytes; the caller frees *ret. */
int broker_state_text(const struct broker_state *s, const char *path, size_t max, char **ret,
    size_t *ret_n, struct err *err);
/*
 * The bundle that policy/active names, as a sealed copy to read. ERR_NOT_FOUND: there is no
 * policy/active; ERR_TAMPER: its SHA-256 is not its name.
 */
int broker_state_policy(const struct broker_state *s, int *ret_fd, struct err *err);
/*
 * What stands beside it: its owners' signatures, and the bundle that they say is before it. Each
 * descriptor is -1 where there is none.
 */
int broker_state_policy_signed(
    const struct broker_state *s, int *ret_signatures, int *ret_before, struct err *err);
void broker_state_close(struct broker_state *s); /* removes run/broker.pid if it is ours */

#endif
