#!/usr/bin/python3
"""The command line towards people: help of every command, man pages that know every option, and a
broker that cannot start says which file is the matter."""
import glob
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, CLI, TOP, Tap, Temp, must, run, wait_for

tap, temp = Tap(), Temp("cli")
os.chdir(temp.path)


def text(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        return f.read()


# --- help ---------------------------------------------------------------------------
COMMANDS = {  # file with the option table: its commands
    "cmd/cmd_init.c": ["init"],
    "cmd/cmd_credential.c": ["credential add", "credential list", "credential rotate", "credential test",
                              "credential remove"],
    "cmd/cmd_policy_activate.c": ["policy sign", "policy activate"],
    "cmd/cmd_policy_build.c": ["policy build"],
    "cmd/cmd_policy_calendar_args.c": ["policy calendar"],
    "cmd/cmd_policy_check.c": ["policy check"],
    "cmd/cmd_policy_diff.c": ["policy diff"],
    "cmd/cmd_policy_import.c": ["policy import-ics"],
    "cmd/cmd_policy_prove.c": ["policy prove"],
    "cmd/cmd_policy_test.c": ["policy test"],
    "cmd/cmd_policy_explain.c": ["policy explain"],
    "cmd/cmd_invite.c": ["invite"],
    "cmd/cmd_key.c": ["key new", "key show"],
    "cmd/cmd_approve.c": ["approve", "deny"],
    "cmd/cmd_revoke.c cmd/cmd_approve.c": ["revoke"],  # of a run, or of a request
    "cmd/cmd_attach.c": ["attach"],
    "cmd/cmd_steer.c": ["pause", "resume", "message", "stop"],
    "cmd/cmd_freeze.c": ["freeze start", "freeze lift", "freeze status", "exception request", "exception sign",
                       "exception revoke", "exception list", "breakglass start", "breakglass confirm", "breakglass end",
                       "breakglass review", "breakglass list"],
    "cmd/cmd_log_verify.c": ["log verify"],
    "cmd/cmd_log_show.c": ["log show"],
    "cmd/cmd_log_query.c": ["log query"],
    "cmd/cmd_log_index.c": ["log index"],
    "cmd/cmd_log_export.c": ["log export"],
    "cmd/cmd_log_head.c": ["log head", "log checkpoint"],
    "cmd/cmd_log_prove.c": ["log prove", "log verify-proof"],
    "cmd/cmd_log_receipt.c": ["log verify-receipt"],
    "cmd/cmd_log_erase.c": ["log erase"],
    "cmd/cmd_log_prune.c": ["log prune"],
    "cmd/cmd_log_reconcile.c": ["log reconcile"],
    "cmd/cmd_log_keys.c": ["log keys"],
    "cmd/cmd_log_rotate_key.c": ["log rotate-key"],
    "cmd/cmd_replay_timeline.c": ["replay timeline"],
    "cmd/cmd_replay_report.c": ["replay report"],
    "cmd/cmd_replay_rerun.c": ["replay rerun"],
    "audit/witness_main.c": ["witness serve"],
    "cmd/cmd_replay_whatif.c": ["replay whatif"],
    "cmd/cmd_pending.c": ["pending"],
    "cmd/cmd_answer.c": ["answer"],
    "cmd/cmd_status.c": ["status", "show", "run-end"],
    "cmd/cmd_control_pipe.c": ["control-pipe"],
    "broker/broker_main.c": ["cofferdam-broker"],
    "agent/agent_options.c": ["run"],
    "agent/e2b_options.c": ["sandboxd"],
    "agent/mcp_options.c": ["mcp"],
    "agent/sandbox/cli_options.c": ["sandbox " + v for v in (
        "exec", "create", "list", "inspect", "attach", "spawn", "ps", "logs", "wait", "input", "signal", "kill", "pause",
        "resume", "extend", "network", "files", "snapshot", "restore", "code")],
}


def whole(command):
    return command if command.startswith("cofferdam-") else "cofferdam " + command


def argv_of(command):
    return [os.path.join(BUILD, whole(command).split()[0])] + whole(command).split()[1:]


def options(path):
    all_of_it = "".join(map(text, path.split()))
    return set(re.findall(r'\{"(--[a-z-]+)", [A-Z]', all_of_it))


def words(s):
    return set(re.findall(r"--[a-z][a-z-]*", s))


SOURCES = [os.path.relpath(f, TOP) for d in ("cmd", "agent", "agent/sandbox", "audit", "broker") for f in glob.glob(TOP + "/%s/*.c" % d)]
TABLES = {p for p in SOURCES if options(p)}
tap.eq(sorted(p for p in SOURCES if "<getopt.h>" in text(p)), [], "all options are read by common/option.c")
tap.eq(sorted(TABLES - set(" ".join(COMMANDS).split())), [], "every option table is known to this test")
man = {p: words(text("docs/man/" + p)) for p in ("cofferdam.1.scd", "cofferdam-policy.5.scd")}
for path, commands in sorted(COMMANDS.items()):
    printed = set()
    for c in commands:
        r = run(argv_of(c) + ["--help"])
        tap.ok(r.returncode == 0 and r.stdout.startswith("usage: " + whole(c)) and "error" not in r.stdout,
               "%s --help prints its options and ends with 0" % c, r.stdout)
        printed |= words(r.stdout)
    table = options(path)
    tap.ok(len(table) >= 1, "%s has options" % path)
    tap.eq(sorted(table - printed), [], "help names every option of %s" % path)
    tap.eq(sorted(printed - table - {"--help", "--"}), [], "and none that it does not take")
    page = "cofferdam-policy.5.scd" if "cmd_policy" in path else "cofferdam.1.scd"
    tap.eq(sorted(table - man[page]), [], "so does %s" % page)

# --- every option of every command: without a value, with a wrong one, twice, behind words, as --name=value ---
# Names are read in the order in which they stand: where the complaint is of the last alone, all before it was taken, and
# nothing was done.
ROW = re.compile(r'\{"(-{0,2}[A-Za-z][A-Za-z-]*)", ([A-Z][^,]+), (?:AT\([^)]*\)|0), ([^,]+), ([^,]+),\s*("(?:[^"\\]|\\.)*"|NULL)')
LAST = ["--no-such"]
NO_SUCH = '"--no-such" is not an option here'
GOOD = {"OPTION_TEXT": "x", "ARG_STATE": "nowhere", "ARG_VIA": "ssh://h", "ARG_MANY": "x", "ARG_TIME": "2026-12-24", "ARG_SINCE": "2h",
        "ARG_UNTIL": "2026-12-24T12:00:00Z", "OCTAL": "644", "LIMIT": "wall=1", "LACK": "limits", "BIND": "/usr:/opt/x", "CALLS": "db=1",
        "AMOUNT": "1", "EFFECT": "read", "HOST": "h.test", "ORIGIN": "https://h.test"}
WRONG = {"ARG_STATE": ["ssh://h"], "ARG_VIA": ["nowhere", "http://h"], "ARG_TIME": ["", "noon", "2h", "2026-13-01"], "OCTAL": ["9", "1000"],
         "ARG_SINCE": ["", "noon", "2026-13-01", "2w"], "ARG_UNTIL": ["", "noon", "-1h"], "LIMIT": ["wall"], "LACK": ["walls"], "CALLS": ["db"],
         "AMOUNT": ["x"], "ARG_WORD_OF": ["", "x"]}
FORMS = {"--label": "a=b", "--env": "A=b", "--add": "h=127.0.0.2:1", "--drop": "h=127.0.0.2:1"}


def faults_of(command, name, kind, least, most, arg):
    """What one option's row says and the command does not."""
    found, bare = [], name == "--limits-optional" or kind in ("OPTION_FLAG", "ARG_SET")

    def one(argv, *parts):
        r = run(argv_of(command) + argv)
        if r.returncode != 2 or not all(p in r.stdout for p in parts):
            found.append((argv, parts, r.stdout))

    if bare:
        one([name + "=x"], '%s takes no value, is "x"' % name)
        one([name, name] + LAST, NO_SUCH)
        return found
    good, wrong = FORMS.get(name, GOOD.get(kind, "x")), WRONG.get(kind, [])
    if kind.startswith("OPTION_NUMBER"):
        good = str(int(least, 0))
        wrong = ["", "x", "-1", "0x1", "1 ", "18446744073709551616"] + [str(int(least, 0) - 1)] * (least != "0")
    elif kind == "ARG_WORD_OF":
        good, wrong = arg.split("|")[-1], wrong + [arg]
    one([name], "%s wants a value: %s" % (name, arg))
    for w in wrong:
        one([name + "=" + w], name, "must be", 'is "%s"' % w)
        one([name, w + "\x1b"], name, "must be", 'is "%s\\x1b"' % w)
    one([name, good, name + "=" + good] + LAST, NO_SUCH)
    words = re.findall(r"^  ([A-Z]+) ", run(argv_of(command) + ["--help"]).stdout, re.M)
    one(["1"] * len(words) + [name, good] + LAST, NO_SUCH)
    if kind == "ARG_MANY":
        one([name, good] * 65, '%s may be given 64 times at most; "%s" is one more' % (name, good))
    return found


for path, commands in sorted(COMMANDS.items()):
    rows, tried = {}, set()
    for name, kind, least, most, arg in ROW.findall("".join(map(text, path.split()))):
        rows.setdefault(name, (kind.split(" |")[0], least, most, arg.strip('"')))
    for c in commands:
        names = set(re.findall(r"(?:^  |also )(--?[a-z-]+)", run(argv_of(c) + ["--help"]).stdout, re.M)) & set(rows) - {"--help"}
        tap.eq([f for n in sorted(names) for f in faults_of(c, n, *rows[n])], [], "%s: each of %d options" % (c, len(names)))
        tried |= names
    tap.eq(sorted({n for n in rows if n[0] == "-"} - tried - {"--help"}), [], "none of %s is left out" % path)

# --- further help ---------------------------------------------------------------------
before, _, commands = text("docs/man/cofferdam-policy.5.scd").partition("\n# COMMANDS\n")
tap.eq([v for v in ("check", "build", "sign", "activate", "test", "explain", "prove", "diff", "calendar", "import-ics")
        if "\n*cofferdam policy %s* _" % v not in commands or "*cofferdam policy %s* _" % v in before], [],
       "each policy command is told among the commands, and not in the midst of the keys")
tap.has(text("docs/man/cofferdam.1.scd"), "empty tmpfs of 512 MiB", "the man page tells the default workspace")
r = run([CLI, "help", "replay", "whatif"])
tap.ok(r.returncode == 0 and r.stdout.startswith("usage: cofferdam replay whatif"), "help COMMAND is the same", r.stdout)
r = run([CLI, "log", "--help"])
tap.ok(r.returncode == 0 and all("cofferdam log " + v in r.stdout for v in ("verify", "show", "head")),
       "the first word alone prints all of its commands", r.stdout)
r = run([CLI, "log", "verify", "--state", "nowhere", "--help"])
tap.ok(r.returncode == 0 and r.stdout.startswith("usage: cofferdam log verify"), "--help may stand behind other options",
       r.stdout)
r = run([CLI, "sandbox", "exec", "--limits-optional", "--", "echo", "--help"])
tap.ok("usage" not in r.stdout, "behind -- it is the command's own", r.stdout)
r = run([CLI, "sandbox", "--help"])
tap.eq(sorted(re.findall(r"^  ([a-z]+) ", r.stdout, re.M)),
       sorted(c.split()[1] for c in COMMANDS["agent/sandbox/cli_options.c"]), "sandbox --help names its subcommands")
tap.ok(all("sandbox " + v in text("docs/man/cofferdam.1.scd") for v in
           ("exec", "create", "list", "files", "code")), "so does the man page")
r = run([CLI, "help", "sandbox", "logs"])
tap.ok(r.returncode == 0 and r.stdout.startswith("usage: cofferdam sandbox logs NAME PROC"), "help sandbox logs is the same",
       r.stdout)
for words, begins in ((["help"], "usage: cofferdam sandbox COMMAND"), (["-h"], "usage: cofferdam sandbox COMMAND"),
                      (["help", "exec"], "usage: cofferdam sandbox exec"), (["exec", "-h"], "usage: cofferdam sandbox exec"),
                      (["--version"], "cofferdam sandbox: calls of version ")):
    r = run([CLI, "sandbox"] + words)
    tap.ok(r.returncode == 0 and r.stdout.startswith(begins), "sandbox %s" % " ".join(words), r.stdout)
tap.eq(run([CLI, "sandbox", "help", "frob"]).returncode, 2, "no help for what there is not")
for words, missing in ((["kill"], "NAME"), (["extend", "x"], "SECONDS"), (["signal", "x", "1"], "SIGNAL"), (["logs", "x"], "PROC"),
                       (["snapshot", "x"], "FILE"), (["inspect"], "NAME")):
    r = run([CLI, "sandbox"] + words)
    tap.ok(r.returncode == 2 and missing + " is missing" in r.stdout, "sandbox %s: %s is missing" % (" ".join(words), missing),
           r.stdout)
r = run([CLI, "sandbox", "pause", "x", "y"])
tap.ok(r.returncode == 2 and '"y" is a word too many' in r.stdout, "and a word too many is named", r.stdout)
r = run([CLI, "sandbox", "exec", "--help"])
tap.ok(re.search(r"--backend NAME +native, crun, runc or runsc \(default: native\)", r.stdout) and
       re.search(r"--timeout S .*not what --background left", r.stdout), "exec --help: choices of --backend, reach of --timeout",
       r.stdout)
r = run([CLI, "doctor", "--help"])
tap.ok(r.returncode == 0 and r.stdout.startswith("usage: cofferdam doctor"), "doctor --help", r.stdout)
for where in ([], ["help"], ["--help"]):
    r = run([CLI] + where)
    tap.ok(all(re.search("^  %s " % w, r.stdout, re.M) for w in ("run", "sandbox", "doctor", "approve", "log")) and
           r.returncode == (0 if where else 2), "cofferdam %s names every command" % " ".join(where), r.stdout)
for wrong in (["sandbox"], ["sandbox", "frob"], ["doctor", "frob"]):
    tap.eq(run([CLI] + wrong).returncode, 2, "cofferdam %s is usage" % " ".join(wrong))
r = run([CLI, "frobnicate", "--help"])
tap.eq(r.returncode, 2, "a command that does not exist has no help")

# --- a broker that cannot start -----------------------------------------------------
state = temp.path + "/state"
must([CLI, "init", "--state", state, "--origin", "test.example/log"])


def starts():
    """The first line of an error that the broker logs in 10 s; "" if it serves."""
    log = temp.path + "/broker.log"
    with open(log, "wb") as f:
        p = subprocess.Popen([BUILD + "/cofferdam-broker", "--state", state], stdin=subprocess.DEVNULL, stdout=f, stderr=f)
    try:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            with open(log, encoding="utf-8", errors="replace") as f:
                said = f.read()
            line = [x for x in said.splitlines() if "error" in x]
            if line:
                return line[0]
            if "ready" in said:
                return ""
            time.sleep(0.05)
        return "neither error nor ready:\n" + said
    finally:
        p.terminate()
        try:
            p.wait(10)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()


def damaged(name, content):
    path = os.path.join(state, name)
    with open(path, "rb") as f:
        was = f.read()
    with open(path, "wb") as f:
        f.write(content(was))
    said = starts()
    with open(path, "wb") as f:
        f.write(was)
    return said


tap.eq(starts(), "", "a broker with a whole state directory starts")
said = damaged("vault", lambda b: b[:-1] + bytes([b[-1] ^ 1]))
tap.ok("vault: not sealed under keys/vault.key, or changed" in said and "restore" in said and "P_" not in said,
       "a damaged vault: the file and the way out are named, no message", said)
said = damaged("keys/vault.key", lambda b: b"x" * len(b))
tap.ok("keys/vault.key" in said and "restore" in said and "P_" not in said, "a wrong vault key", said)
said = damaged("keys/vault.key", lambda b: b[:5])
tap.ok("keys/vault.key" in said and "P_" not in said, "a short vault key", said)
said = damaged("keys/ca/key.pem", lambda b: b"nothing\n")
tap.ok("keys/ca/key.pem is not a PEM private key" in said and "P_" not in said, "a damaged CA key", said)
tap.eq(starts(), "", "all restored, it starts again")
# --- init is whole or not at all --------------------------------------------------------
with open("bad.json", "w", encoding="ascii") as f:
    f.write('{"schema":"cofferdam-policy/1"}')
before = sorted(os.listdir("."))
r = run([CLI, "init", "--state", "st-new", "--origin", "a.example/log", "--policy", "bad.json"])
tap.ok(r.returncode != 0 and sorted(os.listdir(".")) == before, "init with a policy that is refused leaves nothing behind",
       r.stdout + str(os.listdir(".")))
must([CLI, "init", "--state", "st-new", "--origin", "a.example/log"])
seed = open("st-new/keys/log/seed", "rb").read()
before = sorted(os.listdir("."))
r = run([CLI, "init", "--state", "st-new", "--origin", "b.example/log"])
tap.ok(r.returncode != 0 and "st-new" in r.stdout and open("st-new/keys/log/seed", "rb").read() == seed and
       sorted(os.listdir(".")) == before, "init never touches a directory that is there", r.stdout)

# --- what is missing is named ---------------------------------------------------------------
for argv, words in ((["approve", "x"], "approve needs --as PERSON"), (["deny"], "deny needs ID: the request"), (["show"], "show needs ID: the request"),
                    (["run-end"], "run-end needs RUN: the run"), (["invite"], "invite needs PERSON"), (["invite", "dana"], "invite needs --as OWNER"),
                    (["freeze", "start"], "freeze start needs --reason TEXT"), (["freeze", "start", "--reason", "x"], "freeze start needs --as PERSON"),
                    (["freeze", "lift"], "freeze lift needs ID"), (["breakglass", "start", "--target", "t"], "breakglass start needs --effects LIST")):
    r = run([CLI, *argv])
    tap.ok(r.returncode == 2 and words in r.stdout and "usage:" in r.stdout, "%s: %s" % (" ".join(argv), words), r.stdout)
# What another verb of the same command has is not taken and passed over.
for argv, words in ((["freeze", "start", "--rule", "x", "--reason", "x", "--as", "d"], 'freeze start: "--rule" is not an option here'),
                    (["freeze", "status", "--as", "d"], 'freeze status: "--as" is not an option here'),
                    (["exception", "request", "--json"], 'exception request: "--json" is not an option here'),
                    (["breakglass", "end", "a", "b", "--as", "d"], 'breakglass end: "b" is a word too many')):
    r = run([CLI, *argv])
    tap.ok(r.returncode == 2 and words in r.stdout and "usage: cofferdam %s " % " ".join(argv[:2]) in r.stdout, words, r.stdout)
for argv in (["show", "a", "b"], ["deny", "a", "--as", "x", "b"], ["invite", "a", "b", "--as", "x"], ["run-end", "a", "b"]):
    r = run([CLI, *argv])
    tap.ok(r.returncode == 2 and "usage:" in r.stdout and "needs" not in r.stdout, "%s: too much is no call" % " ".join(argv), r.stdout)

# --- the tables of agents and sandboxes: what is wrong is named with its value ------------------
HERE = " is not an option here; see --help"
for argv, words in ((["run", "--frob"], '"--frob"' + HERE), (["run", "ls"], '"ls" is a word too many'), (["run", "--"], "no command after --"),
                    (["run", "--max-turns", "0"], '--max-turns must be a number from 1 to 10000, is "0"'),
                    (["run", "--memory=15"], '--memory must be a number from 16 to 1048576, is "15"'),
                    (["run", "--quiet=yes"], '--quiet takes no value, is "yes"'), (["run", "--task"], "--task wants a value: TEXT"),
                    (["run", "--max-calls", "db"], '--max-calls must be TARGET=N with N above 0, is "db"'),
                    (["run", "--max-cost", "0.0000001"], '--max-cost must be an amount above 0 of at most six decimals, is "0.0000001"'),
                    (["run"] + ["--effect", "read"] * 25, '--effect may be given 24 times at most; "read" is one more'),
                    (["run"] + ["--ro-bind", "/opt"] * 33, "--ro-bind: at most 32"),
                    (["run", "--task", "t", "--script", "s", "--max-cost", "1"], "--max-cost needs --model"),
                    (["run", "--max-cost", "1", "--", "ls"], "--max-cost needs --model"),
                    (["mcp", "--frob"], '"--frob"' + HERE), (["mcp", "--wait", "51"], '--wait must be a number from 1 to 50, is "51"'),
                    (["mcp", "--limits-optional=1"], '--limits-optional takes no value, is "1"'), (["mcp", "--token-file"], "--token-file wants a value: FILE"),
                    (["mcp"] + ["--allow-host", "h"] * 17, '--allow-host may be given 16 times at most; "h" is one more'),
                    (["mcp", "x"], '"x" is a word too many'), (["mcp", "--allow-origin", "o"], "need --listen"),
                    (["mcp", "--listen", "127.0.0.1:0"], "--listen needs --token-file FILE, or --client-ca FILE"),
                    (["mcp", "--state", "a", "--socket", "b"], "--state and --socket: give one"),
                    (["sandboxd", "--frob"], '"--frob"' + HERE), (["sandboxd", "--max", "0"], "--max must be a number from 1 to 1024, is \"0\""),
                    (["sandboxd", "--cpu=6401"], '--cpu must be a number from 1 to 6400, is "6401"'), (["sandboxd", "--keys"], "--keys wants a value: FILE"),
                    (["sandboxd"], "--keys FILE is needed"), (["sandboxd", "--keys", "k", "--cert", "c"], "--cert and --key: give both"),
                    (["sandbox", "exec", "--frob"], '"--frob"' + HERE), (["sandbox", "list", "--memory", "16"], '"--memory"' + HERE),
                    (["sandbox", "ps", "-f", "x"], '"-f"' + HERE), (["sandbox", "exec", "--level=1"], '--level takes no value, is "1"'),
                    (["sandbox", "exec", "--limits-optional=1"], '--limits-optional takes no value, is "1"'),
                    (["sandbox", "exec", "--limit", "wall=0"], '--limit: wall must be a number from 1 to 86400, is "0"'),
                    (["sandbox", "exec", "--limit", "walls=1"], "--limit must be WORD=N"), (["sandbox", "exec", "--env", "A"], '--env must be NAME=VALUE, is "A"'),
                    (["sandbox", "exec", "--may-lack", "walls"], "--may-lack must be limits, landlock, freezer or notify"),
                    (["sandbox", "files", "write", "x", "f", "--mode", "888"], '--mode must be octal, from 0 to 777, is "888"'),
                    (["sandbox", "network", "x", "--add", "h=127.0.0.2"], '--add must be HOST=ADDRESS:PORT, is "h=127.0.0.2"')):
    r = run([CLI, *argv])
    tap.ok(r.returncode == 2 and words in r.stdout and "usage: " not in r.stdout, "%s: %s" % (" ".join(argv)[:60], words), r.stdout)
for argv, words in ((["run", "--quiet", "--max-turns=10000", "--task", "t", "--state", "nowhere", "--", "ls"], "nowhere/run: No such file"),
                    (["mcp", "--wait=50", "--listen", "127.0.0.1:0", "--token-file", "nowhere"], "nowhere"),
                    (["sandboxd", "--cpu=6400", "--max", "1", "--keys", "nowhere"], "nowhere"),
                    (["sandbox", "ps", "--json", "nosuch"], "nosuch")):
    r = run([CLI, *argv])
    tap.ok(r.returncode != 0 and words in r.stdout and "option" not in r.stdout, "%s is a call" % " ".join(argv), r.stdout)

# --- what is wrong is named with its value ------------------------------------------------------
NUMBER = "SEQ must be a number from 0 to 9223372036854775807, is "
for argv, words in ((["log", "prove", "abc"], NUMBER + '"abc"'), (["log", "prove", "-1"], NUMBER + '"-1"'),
                    (["log", "prove"], "log prove needs SEQ"), (["attach", "--frob", "r"], '"--frob" is not an option'),
                    (["attach", "-x", "r"], '"-x" is not an option'), (["attach", "r", "more\x1b[m"], '"more\\x1b[m" is a word too many'),
                    (["attach", "r", "--state"], "--state wants a value: DIR"), (["attach", "--json=x", "r"], '--json takes no value, is "x"'),
                    (["pause", "--state", "ssh://h", "r"], '--state must be a directory, is "ssh://h"'),
                    (["pause", "--state", "d", "--via", "ssh://h", "r"], "name two brokers"),
                    (["pending", "--json", "--watch"], "--json and --watch"), (["approve", "a", "--as", "p", "--reason", "y"], '--reason "y"'),
                    (["log", "erase", "--subject", "bla", "--reason", "x"],
                     '--subject must be run:ID, owner:PERSON or target:NAME, is "bla"'),
                    (["log", "reconcile", "a", "--done"], "--note TEXT is missing"),
                    (["log", "reconcile", "a", "--note", "x"], "--done or --not-done is missing"),
                    (["log", "reconcile", "a", "--done", "--not-done", "--note", "x"], "--done and --not-done are both given"),
                    (["answer", "r", "t", "--question", "0"], '--question must be a number from 1 to 9007199254740991, is "0"'),
                    (["log", "reconcile", "--done"], "ACTION is missing"), (["log", "verify-proof", "f"], "--keys FILE or --state DIR"),
                    (["log", "verify", "--frob"], '"--frob" is not an option'), (["log", "verify", "a", "b"], '"b" is a word too many'),
                    (["log", "verify", "--resume"], "--resume wants a value: FILE"), (["log", "verify", "--deep=1"], '--deep takes no value, is "1"'),
                    (["log", "verify"] + ["--pin", "p"] * 65, '--pin may be given 64 times at most; "p" is one more'),
                    (["log", "verify", "--deep", "--resume", "f"], '--resume "f"'),
                    (["replay", "timeline", "--html", "p.html"], "RUN is missing"),
                    (["key", "new"], "key new needs FILE"), (["key", "show", "f", "--fd", "3"], '"--fd" is not an option here'),
                    (["key", "new", "f", "--fd", "3", "--no-passphrase"], "--no-passphrase and --fd: give one of them"),
                    (["init", "--state", "st-x"], "init needs --origin NAME"), (["init", "--origin", "a"], "init needs --state DIR"),
                    (["log", "rotate-key", "--last", "7"], "--last 7 needs --revoke REASON"),
                    (["log", "query", "--text", "-"], '--text must be words of letters and digits, none over 64 bytes, no hashes, is "-"'),
                    (["log", "query"] + ["--run", "r"] * 33, '--run must be one of 32 filters and words at most, together, is "r"'),
                    (["policy", "diff", "a"], "policy diff needs NEW"), (["policy", "diff", "a", "b", "c"], '"c" is a word too many'),
                    (["policy", "build", "p", "-o", "a", "--state", "b"], "--output and --state: give one of them"),
                    (["policy", "build", "p", "-o"], "-o wants a value: DIR"), (["policy", "sign", "b"], "policy sign needs --as PERSON"),
                    (["policy", "sign", "b", "--as", "p", "--signature", "p=f"], '"--signature" is not an option here'),
                    (["policy", "sign", "b", "--as", "p", "--before", "a", "--state", "s"], "--before and --state: give one of them"),
                    (["policy", "activate", "b", "--yes"], '"--yes" is not an option here'), (["policy", "test"], "policy test needs POLICY"),
                    (["policy", "calendar", "p", "--month", "2026-13"], '--month must be as 2026-12, is "2026-13"'),
                    (["policy", "calendar", "p", "--month", "2026-00"], '--month must be as 2026-12, is "2026-00"'),
                    (["policy", "calendar", "p", "--month", "2026"], '--month must be as 2026-12, is "2026"'),
                    (["policy", "calendar", "p", "--year", "1969"], '--year must be as 2026, is "1969"'),
                    (["policy", "calendar", "p", "--month", "2026-12", "--year", "2026"], "--month and --year: give one of them"),
                    (["policy", "explain", "p", "--request", "{}", "--sql", "x"], "--request says all of the action"),
                    (["policy", "explain", "p", "--target", "t", "--method", "M", "--path", "/", "--header", "x"],
                     '--header must be NAME: VALUE, is "x"')):
    r = run([CLI, *argv])
    tap.ok(r.returncode == 2 and r.stdout.startswith("cofferdam: ") and words in r.stdout and "usage: cofferdam " in r.stdout,
           "%s: %s" % (ascii(" ".join(argv)), ascii(words)), r.stdout)
witness = temp.path + "/witness"
must([CLI, "witness", "init", witness, "w.example/w1"])
r = run([CLI, "witness", "add", witness, "garb\x1bage"])
tap.eq((r.returncode, r.stdout), (2, 'cofferdam: VKEY "garb\\x1bage": verifier key must read NAME+ID+BASE64\n'), "a key that is none is told with its value")
must([CLI, "witness", "add", witness, text(state + "/keys/log/vkey").strip()])
tap.ok(len(os.listdir(witness + "/log")) == 1, "one that is one is taken")
for argv, said in ((["init", "w2", "a b"], 'NAME must be 1 to 200 bytes without spaces and plus signs, such as witness.example/w1, is "a b"'),
                   (["init", "w2"], "witness init needs NAME"), (["init"], "witness init needs DIR"), (["add", "w2"], "witness add needs VKEY"),
                   (["add", "a", "b", "c"], '"c" is a word too many'), (["init", "--force", "w2", "n"], '"--force" is not an option here'),
                   (["serve"], "DIR is missing"), (["serve", "d", "--cert", "c"], "--cert and --key: give both, or none"),
                   (["serve", "a", "b"], '"b" is a word too many')):
    r = run([CLI, "witness", *argv])
    tap.ok(r.returncode == 2 and said in r.stdout and not os.path.exists("w2"), "witness %s: %s" % (" ".join(argv), said), r.stdout)
r = run([BUILD + "/cofferdam-broker", "x"])
tap.ok(r.returncode == 2 and '"x" is a word too many\nusage: cofferdam-broker' in r.stdout, "the broker takes no word, and says which", r.stdout)
for argv in (["log", "head", "--state=nowhere"], ["log", "head", "--st", "nowhere"], ["log", "head", "--", "nowhere"],
             ["log", "verify", "--resume=f", "--json", "nowhere"], ["log", "verify", "nowhere"] + ["--pin", "p"] * 64,
             ["log", "prove", "1", "--state", "nowhere", "--keys=k"], ["key", "show", "nowhere"], ["policy", "build", "nowhere", "-o", "d"],
             ["log", "query", "--state", "nowhere", "--from", "2h", "--to=2026-12-24"] + ["--run", "r"] * 32,
             ["log", "export", "nowhere", "--type=a", "--type", "b", "--format", "ocsf"], ["log", "index", "nowhere", "--rebuild"],
             ["log", "rotate-key", "--last=7", "--revoke", "x", "--state", "nowhere"], ["policy", "test", "nowhere", "x", "--group", "g"],
             ["policy", "diff", "nowhere", "--markdown", "x", "--at", "2026-12-24"], ["policy", "prove", "nowhere", "t1", "t2"],
             ["policy", "calendar", "nowhere", "a", "b", "--month", "2026-01", "--colour", "never"], ["policy", "calendar", "nowhere", "--year", "1970"],
             ["policy", "import-ics", "nowhere", "--kind=open", "--to", "2027-01-01"], ["policy", "check", "--strict", "nowhere"],
             ["policy", "explain", "nowhere", "--request", "{}", "--json"],
             ["policy", "explain", "nowhere", "--target=t", "--method", "M", "--path", "/", "--header", "a: b", "--at=2026-12-24"]):
    r = run([CLI, *argv])
    tap.eq((r.returncode, r.stdout), (2, "cofferdam: nowhere: No such file or directory\n"), "%s is a call" % " ".join(argv))
r = run([CLI, "log", "head", "--k", "x", "nowhere"])
tap.ok("No such file" in r.stdout, "a beginning that leads to one option alone is that one", r.stdout)

# What was said did not arrive.
for argv in (["version"], ["help"], ["policy", "check", os.path.join(TOP, "docs/examples/policy.json")]):
    with open("/dev/full", "w", encoding="ascii") as full:
        r = subprocess.run([CLI, *argv], stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
    tap.ok(r.returncode == 2 and b"standard output: cannot be written: No space left" in r.stderr, "%s on a full disk is no success" % " ".join(argv), r)
    reader, writer = os.pipe()
    os.close(reader)
    r = subprocess.run([CLI, *argv], stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writer)
    tap.eq((r.returncode, r.stderr), (0, b""), "%s before one who reads no more is" % " ".join(argv))

tap.done()
