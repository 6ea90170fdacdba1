/*
 * The request table of core (process: core). Each peer is trusted for no more than its rows:
 * front speaks for what clients sent, upstream for what servers answered, the writer for
 * what is durable. A row out of state, twice, or over its limit ends the peer.
 */
#include "broker/core_table.h"

#include "broker/core_act.h"
#include "broker/core_agent.h"
#include "broker/core_ca.h"
#include "broker/core_cancel.h"
#include "broker/core_console.h"
#include "broker/core_control.h"
#include "broker/core_facts.h"
#include "broker/core_http.h"
#include "broker/core_kept.h"
#include "broker/core_live.h"
#include "broker/core_offhost.h"
#include "broker/core_patch.h"
#include "broker/core_pg.h"
#include "broker/core_preview.h"
#include "broker/core_record.h"
#include "broker/core_witness.h"
#include "broker/core_run.h"

#include "common/banned.h"

#define AGENT_BEFORE_END (CORE_S_PLAN | CORE_S_STARTING | CORE_S_RUN)

const struct core_row core_table[] = {
    {MSG_F_LEAF_ASK, IPC_ROLE_FRONT, CORE_S_OPEN, CORE_MANY, 4096, core_ca_on_ask},
    {MSG_PG_OPEN, IPC_ROLE_FRONT, CORE_S_OPEN, CORE_MANY, 65536, core_pg_on_open},
    {MSG_PG_ACT, IPC_ROLE_FRONT, CORE_S_OPEN, CORE_MANY, 1200000, core_act_on_act},
    {MSG_PG_CLOSE, IPC_ROLE_FRONT, CORE_S_OPEN, CORE_MANY, 64, core_pg_on_close},
    {MSG_PG_CANCEL, IPC_ROLE_FRONT, CORE_S_OPEN, CORE_MANY, 64, core_cancel_on_cancel},
    {MSG_U_OPENED, IPC_ROLE_UPSTREAM, CORE_S_OPEN, CORE_MANY, 65536, core_pg_on_opened},
    {MSG_U_DONE, IPC_ROLE_UPSTREAM, CORE_S_OPEN, CORE_MANY, 8192, core_act_on_done},
    {MSG_U_SEALED, IPC_ROLE_UPSTREAM, CORE_S_OPEN, CORE_MANY, 4096, core_act_on_sealed},
    {MSG_U_PREVIEWED, IPC_ROLE_UPSTREAM, CORE_S_OPEN, CORE_MANY, 131072, core_preview_on_previewed},
    {MSG_U_GONE, IPC_ROLE_UPSTREAM, CORE_S_OPEN, CORE_MANY, 4096, core_pg_on_gone},
    {MSG_U_CANCELLED, IPC_ROLE_UPSTREAM, CORE_S_OPEN, CORE_MANY, 4096, core_cancel_on_cancelled},
    {MSG_H_CONNECT, IPC_ROLE_FRONT, CORE_S_OPEN, CORE_MANY, 4096, core_http_on_connect},
    {MSG_H_ACT, IPC_ROLE_FRONT, CORE_S_OPEN, CORE_MANY, 1 << 18, core_http_on_act},
    {MSG_H_BODY, IPC_ROLE_FRONT, CORE_S_OPEN, CORE_MANY, 64, core_http_on_body},
    {MSG_H_HASHED, IPC_ROLE_FRONT, CORE_S_OPEN, CORE_MANY, 128, core_http_on_hashed},
    {MSG_H_CLOSE, IPC_ROLE_FRONT, CORE_S_OPEN, CORE_MANY, 64, core_http_on_close},
    {MSG_UH_DONE, IPC_ROLE_UPSTREAM, CORE_S_OPEN, CORE_MANY, 16384, core_http_on_done},
    {MSG_UH_LOOKED, IPC_ROLE_UPSTREAM, CORE_S_OPEN, CORE_MANY, 1 << 20, core_http_on_looked},
    {MSG_X_FACTS, IPC_ROLE_PARSER, CORE_S_OPEN, CORE_MANY, 1 << 17, core_facts_on_facts},
    {MSG_W_LIVE, IPC_ROLE_WRITER, CORE_S_REPLAY, CORE_MANY, 1 << 17, core_live_on_record},
    {MSG_W_LIVE_END, IPC_ROLE_WRITER, CORE_S_REPLAY, CORE_ONCE, 512, core_live_on_end},
    {MSG_W_ACK, IPC_ROLE_WRITER, CORE_S_OPEN, CORE_MANY, 256, core_record_on_ack},
    {MSG_W_DAMAGE, IPC_ROLE_WRITER, CORE_S_OPEN, CORE_MANY, 1024, core_live_on_damage},
    {MSG_W_DELIVERED, IPC_ROLE_WRITER, CORE_S_OPEN, CORE_MANY, 1024, core_offhost_on_delivered},
    {MSG_W_WITNESSES, IPC_ROLE_WRITER, CORE_S_OPEN, CORE_MANY, 8192, core_witness_on_told},
    {MSG_A_OPEN, IPC_ROLE_AGENT, CORE_S_NEW, CORE_ONCE, 65536, core_agent_on_open},
    {MSG_A_RESUME, IPC_ROLE_AGENT, CORE_S_NEW, CORE_ONCE, 256, core_agent_on_resume},
    {MSG_A_LISTEN, IPC_ROLE_AGENT, CORE_S_PLAN | CORE_S_RUN, CORE_MANY, 64, core_agent_on_listen},
    {MSG_A_START, IPC_ROLE_AGENT, CORE_S_PLAN, CORE_ONCE, 4096, core_agent_on_start},
    {MSG_A_EVENT, IPC_ROLE_AGENT, CORE_S_RUN, CORE_MANY, 4 << 20, core_agent_on_event},
    {MSG_A_END, IPC_ROLE_AGENT, AGENT_BEFORE_END, CORE_ONCE, 4096, core_agent_on_end},
    {MSG_A_ASK, IPC_ROLE_AGENT, CORE_S_RUN, CORE_MANY, 8192, core_agent_on_ask},
    {MSG_A_CHANGED, IPC_ROLE_AGENT, CORE_S_RUN, CORE_MANY, 4096, core_patch_on_changed},
    {MSG_Q_CALL, IPC_ROLE_CLI, CORE_S_OPEN, CORE_MANY, 1 << 18, core_control_on_call},
    {MSG_V_CALL, IPC_ROLE_CONSOLE, CORE_S_OPEN, CORE_MANY, 1 << 18, core_console_on_call},
    {MSG_K_KEPT, IPC_ROLE_PARENT, CORE_S_OPEN, CORE_MANY, 512, core_kept_on_kept},
    {MSG_K_KEPT_END, IPC_ROLE_PARENT, CORE_S_OPEN, CORE_ONCE, 0, core_kept_on_kept_end},
    {MSG_K_PARSER_DIED, IPC_ROLE_PARENT, CORE_S_OPEN, CORE_MANY, 256, core_facts_on_died},
};
const size_t core_table_rows = ARRAY_LEN(core_table);
_Static_assert(ARRAY_LEN(core_table) <= 64, "core_peer.seen has one bit a row");

static int
row_find(const struct core_peer *p, uint16_t type, size_t *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(core_table); i++)
		if (core_table[i].type == type && core_table[i].from == p->role) {
			*ret = i;
			return 0;
		}
	return ERR_PROTOCOL;
}

int
core_table_dispatch(void *arg, struct ipc *w, uint16_t type, struct rd *body, int *fds, size_t nfds,
    struct err *err)
{
	struct core_peer *p = arg;
	const struct core_row *r;
	size_t i;

	(void)w;
	if (row_find(p, type, &i) != 0)
		return err_set(err, ERR_PROTOCOL, "%s may not send %s", ipc_role_name(p->role),
		    ipc_msg_name(type));
	r = &core_table[i];
	if ((r->states & p->state) == 0)
		return err_set(err, ERR_STATE, "%s sent %s in state %u, allowed in %#x",
		    ipc_role_name(p->role), ipc_msg_name(type), (unsigned)p->state, r->states);
	if (body->n > r->limit)
		return err_set(err, ERR_TOO_LARGE, "%s sent %s of %zu bytes, limit %zu",
		    ipc_role_name(p->role), ipc_msg_name(type), body->n, r->limit);
	if (r->often == CORE_ONCE && (p->seen & (UINT64_C(1) << i)) != 0)
		return err_set(err, ERR_PROTOCOL, "%s sent %s twice", ipc_role_name(p->role),
		    ipc_msg_name(type));
	p->seen |= UINT64_C(1) << i;
	return r->fn(p, body, fds, nfds, err);
}
