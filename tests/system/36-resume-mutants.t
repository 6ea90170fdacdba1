#!/usr/bin/python3
"""Mutation of what `cofferdam log verify --resume` rests on: each check taken out makes a scene of tests/lib/resume.py come out
otherwise, or the library's test fail."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "..")]
import sanitizers  # noqa: E402
from harness import BUILD, Tap, run  # noqa: E402
from mutants import c_mutant, each_is_seen, table  # noqa: E402
from resume import SCENES, T  # noqa: E402

tap = Tap()
# --- mutants: file, what stands there, what in its place, scenes of which one must come out otherwise --------------------------
C = table(r"""
audit/chain.c ~ c->unlike = c->ended = !hash_eq(&root, &c->sure.root); ~ c->unlike = false; ~ fork_of_what_was_pruned
audit/chain.c ~ c->tree.size < c->sure.size ? ~ c->tree.size <= c->sure.size ? ~ one_beyond
audit/chain_signed.c ~ ret->seq + 1 == c->sure.size || ~ ~ untouched
audit/chain_signed.c ~ str_has_prefix(type, "log.") || ~ ~ start_unsigned
audit/chain_signed.c ~ str_eqz(type, "erasure") || ~ ~ erased
audit/chain_signed.c ~ memmem(body.p, body.n, "\"ct\":\"", 6) != NULL ~ false ~ untouched
audit/chain_signed.c ~ !type_at_end(body, &type) || ~ (type = STR(""), type_at_end(body, &type), false) || ~ own_no_record
audit/chain_signed.c ~ && !is_next(c, body, ret)) ~ && false) ~ own_last_is_no_record own_heeded_is_no_record
audit/chain_signed.c ~ ret->seq == c->tree.size && ~ ~ own_another_number
audit/chain_signed.c ~ && hash_eq(&ret->prev, &c->head) ~ ~ own_follows_another
audit/chain_signed.c ~ return !c->unlike && c->tree.size ~ return c->tree.size ~ fork_of_what_was_pruned
audit/chain_signed.c ~ && c->tree.size >= c->sure.size; ~ ; ~ segment_gone
audit/record.c ~ if (!hash_eq(&said, &is)) ~ if (false) ~ line_hash
audit/verify.c ~ r == 0 && !chain_signed_fits(c) ? UNLIKE : r ~ r ~ line_hash
audit/verify.c ~ y->v.nfaults + y->v.more != found) ~ false) ~ leaves
audit/verify.c ~ y->v.heads += h->from != HEAD_RESUME; ~ y->v.heads++; ~ untouched
audit/verify.c ~ if (ask->resume != NULL)
		add_head ~ if (false)
		add_head ~ set_back
cmd/cmd_log_resume.c ~ if (!S_ISREG(st->st_mode)) ~ if (false) ~ file_directory
cmd/cmd_log_resume.c ~ (st->st_mode & OTHERS_WRITE) != 0) ~ false) ~ file_others_may_write
cmd/cmd_log_resume.c ~ strcmp(cp.origin, r->pin.cp.origin) == 0) ~ true) ~ file_of_another_log
cmd/cmd_log_resume.c ~ O_RDONLY | O_NOFOLLOW | O_NONBLOCK ~ O_RDONLY | O_NONBLOCK ~ file_link
cmd/cmd_log_resume.c ~ O_NOFOLLOW | O_NONBLOCK | ~ O_NOFOLLOW | ~ file_fifo
cmd/cmd_log_resume.c ~ if (fd < 0 && errno == ENOENT) ~ if (fd < 0) ~ file_socket
cmd/cmd_log_resume.c ~ if (checkpoint_open(buf_str(&r->before), r->keys, &r->pin.cp, &key, err) != 0) { ~ if (checkpoint_open(buf_str(&r->before), r->keys, &r->pin.cp, &key, err) > 0) { ~ file_empty
cmd/cmd_log_resume.c ~ if (r->pin.cp.size == 0) ~ if (false) ~ file_of_no_record
cmd/cmd_log_resume.c ~ (rc = file_read_fd(fd, r->file, &r->before, err)) != 0) ~ (file_read_fd(fd, r->file, &r->before, err), false)) ~ file_too_large
cmd/cmd_place.c ~ for (size_t i = 0; i < ARRAY_LEN(at); i++) ~ for (size_t i = 1; i < ARRAY_LEN(at); i++) ~ in_the_log
cmd/cmd_place.c ~ for (size_t i = 0; i < ARRAY_LEN(at); i++) ~ for (size_t i = 0; i < 1; i++) ~ in_a_directory_of_the_log
cmd/cmd_log_resume.c ~ if (*ret->name == '\0') ~ if (false) ~ file_no_name
cmd/cmd_log_resume.c ~ if (r->held.size <= r->size || ~ if ( ~ up_to_date
cmd/cmd_log_resume.c ~ if (verdict_clean(v)) ~ if (true) ~ blob
cmd/cmd_log_resume.c ~ && (cp.size != r->held.size || !hash_eq(&cp.root, &r->held.root))) ~ && false) ~ replaced_meanwhile
cmd/cmd_log_resume.c ~ && first_found(v) < r->size) ~ && false) ~ taken_back
cmd/cmd_log_resume.c ~ && first_found(v) < r->size) ~ ) ~ found_behind
cmd/cmd_log_resume.c ~ if (r->pin.cp.size != 0) ~ if (false) ~ taken_back_to_what_it_was
cmd/cmd_log_verify.c ~ kept || verdict_status(&v) == CMD_FAILED ? ~ true ? ~ no_room
cmd/cmd_log_verify.c ~ kept || verdict_status(&v) == CMD_FAILED ? ~ kept ? ~ no_room_and_tampered
cmd/cmd_log_verify.c ~ if (a.deep && a.resume != NULL) ~ if (false) ~ deep
cmd/cmd_log_verify.c ~ return log_resume_stopped(&resume, &v); ~ (void)log_resume_end(&resume, &v); ~ replaced_meanwhile
""", "\t\t")
if os.geteuid() == 0:
    C.append(["cmd/cmd_log_resume.c", "if (st->st_uid != geteuid())", "if (false)", "file_of_somebody_else"])
# What only the library's test sees: where it may be taken up next, and that it stops.
UNIT = table(r"""
audit/verify.c ~ if (h->from == HEAD_CP) ~ if (true)
audit/verify.c ~ && verdict_clean(&y->v)) ~ )
audit/verify.c ~ if (y->ask->stop != NULL && *y->ask->stop != 0) break; ~ 
audit/verify_blobs.c ~ r = b->stop != NULL && *b->stop != 0; ~ r = 0;
""", "\t\t")


def told(f, program):
    try:
        return f(program)
    except Exception as e:  # a mutant may fall, or say what is no verdict
        return repr(e)


def mutant(n):
    path, old, new, names = C[n]
    at = "%s/m%d" % (T, n)
    why = c_mutant(at, path, old, new)
    if why:
        return why
    red = [x for x in names.split() if told(SCENES[x][0], at) != SCENES[x][1]]
    os.unlink(at)
    return None if red else "%s without `%s`: %s is still seen" % (path, old, names)


def unit(n):
    path, old, new = UNIT[n]
    at = "%s/u%d" % (T, n)
    why = c_mutant(at, path, old, new, BUILD + "/tests/unit/t_verify_resume.o", "cofferdam-writer", "-lcmocka")
    quiet = dict(os.environ, ASAN_OPTIONS=sanitizers.no_leaks())  # a test that fails frees nothing
    return why or (None if run([at], timeout=60, env=quiet).returncode else "%s without `%s`: the library's test passes" % (path, old))


tap.ok(run([BUILD + "/t_verify_resume"]).returncode == 0, "the library's test passes")
each_is_seen(tap, range(len(UNIT)), unit, "and each of %d checks taken out makes it red")
each_is_seen(tap, range(len(C)), mutant, "each of %d checks of what it goes on from taken out makes a scene red")
tap.done()
tap.done()
