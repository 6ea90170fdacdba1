/*
 * The help of every command, as one table. Runs as the person who types it; prints, and does
 * nothing else. tests/system/22-command-line.t holds it and the man pages to the option tables.
 */
#include "cmd/cmd_help.h"

#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"

#include "common/banned.h"

#define STATE "  --state DIR         state directory (default: /var/lib/cofferdam)\n"
#define VIA STATE "  --via URL           a broker elsewhere: ssh://[USER@]HOST[:PORT][/STATE-DIR]\n"
#define REASON "  --reason TEXT       why; signed with it, and recorded\n"
#define HELP "  --help              print this\n"
#define LOG_DIR \
	"  DIR                 a state directory or a log directory, instead of --state\n" STATE
#define LOG_KEYS                                                                             \
	"  --keys FILE         keys to trust (default: those of the state directory); also " \
	"--vkey\n"
#define SECRET                                                         \
	"  --fd N              read the secret from this descriptor\n" \
	"  --command CMD       the secret is the output of sh -c CMD, run once now\n"
#define AT "  --at TIME           as if it were then (default: now)\n"
#define CASES "  --cases-policy      FILE holds \"policy\" and \"cases\" together\n"
#define KEY                                                                                      \
	"  --key FILE          that person's key, of SSH (its public half if an agent has it)\n" \
	"                      or of `cofferdam key new` (default: ~/.ssh/id_ed25519)\n"
#define SIGN                                                                                 \
	"  ID                  the request, as `cofferdam pending` prints it\n"              \
	"  --as PERSON         who signs, a person of the policy\n" KEY                      \
	"  --role ROLE         which of the person's roles (default: one that is missing)\n" \
	"  --yes               do not ask before signing\n" VIA

#define LIFT_SIGN                                                                      \
	"  --as PERSON         who signs, a person of the policy (needed)\n" KEY       \
	"  --role ROLE         which of the person's roles (default: one that fits)\n" \
	"  --yes               do not ask before signing\n" VIA
#define TOLD                                                               \
	"  RUN                 the run, as `cofferdam status` prints it\n" \
	"  --reason TEXT       why; recorded\n"
#define NOTE                                                      \
	"  ID                  as `cofferdam status` prints it\n" \
	"  --note TEXT         words that are signed with it\n"

static const struct help {
	const char *words, *args, *what, *options;
} helps[] = {
    {"init", "--state DIR --origin NAME [--policy FILE]",
	"Make a state directory; one that exists is refused.",
	"  --state DIR         where (needed)\n"
	"  --origin NAME       name of the log in every checkpoint, as ops.example/log (needed)\n"
	"  --policy FILE       build this policy and make it active\n"},
    {"credential add", "NAME --kind KIND --url https://HOST[:PORT] [options]",
	"Put a secret into the vault, bound to one place. It is read from a terminal, standard\n"
	"input, --fd or --command; never from an argument.",
	"  --kind KIND         bearer, basic (with --user), header or query (with --field), or\n"
	"                      postgresql-password (the default when there is no --url)\n"
	"  --url URL           origin of the target, as the policy says it; http for loopback "
	"alone\n"
	"  --target-host HOST  of postgresql-password: the target's host, as the policy says it\n"
	"  --port N            and its port\n"
	"  --user USER         user of postgresql-password (as the policy says it) and basic\n"
	"  --field FIELD       header's or query parameter's name\n" SECRET STATE},
    {"credential list", "[--state DIR]",
	"Name, kind, version, binding and when it was set; never a secret.", STATE},
    {"credential rotate", "NAME [options]",
	"Give a credential a new secret; it stays bound as it is, its version goes up by one.",
	SECRET STATE},
    {"credential test", "NAME [--run [--path PATH]]",
	"Which targets of the active policy use it. Ends with 0 when there is one and all fit.",
	"  --run               also ask each target through the broker, in a run of its own: psql\n"
	"                      with SELECT current_user, or curl with GET\n"
	"  --path PATH         what curl asks for (default: /)\n" STATE},
    {"credential remove", "NAME [--state DIR]", "Take a secret out of the vault.", STATE},
    {"key new", "FILE [--no-passphrase | --fd N]",
	"Make a key that signs approvals, for people without SSH keys. The secret half goes to "
	"FILE,\n"
	"sealed by a passphrase; the line for the policy to FILE.pub and to standard output.",
	"  --no-passphrase     leave the file open: for tests\n"
	"  --fd N              read the passphrase from this descriptor, once\n"},
    {"key show", "FILE", "Its line for the policy, and its fingerprint.", ""},
    {"policy check", "FILE [--strict] [--json]",
	"Read a policy, say what is wrong or does nothing, and prove its theorems. Ends with 0 "
	"when\n"
	"nothing is refused, 1 when something is or a theorem does not hold, 2 usage or files.",
	"  --strict            a warning ends with 1, too\n"
	"  --json              for programs\n" AT CASES},
    {"policy build", "FILE [-o DIR | --state DIR]",
	"Write the bundle that the broker loads; without a directory, to standard output.",
	"  -o, --output DIR    write DIR/<digest>.json and DIR/active\n"
	"  --state DIR         the same in DIR/policy, where a broker looks\n"},
    {"policy sign", "BUNDLE --as PERSON [--state DIR | --before BUNDLE] [options]",
	"Sign, as an owner of the active policy, that a bundle may follow it. BUNDLE is its "
	"digest,\n"
	"or a file.",
	"  --as PERSON         who signs (needed)\n"
	"  --key FILE          their private key (default: ~/.ssh/id_ed25519)\n"
	"  --before BUNDLE     the bundle before it, a file: the signature goes to standard "
	"output\n"
	"  --yes               sign without being asked\n" STATE},
    {"policy activate", "BUNDLE [--state DIR] [--signature PERSON=FILE]...",
	"Make a bundle active that the owners of the active one have signed.",
	"  --signature P=FILE  a signature that P made elsewhere; may be repeated\n" STATE},
    {"policy test", "POLICY [CASES]... [--group NAME]...",
	"Judge the cases of a policy, and those of case files by it; TAP.",
	"  --cases-policy      each file is a case file, judged by the policy inside it\n"
	"  --group NAME        only cases of this group\n"},
    {"policy explain", "FILE --target T {--sql TEXT | --method M --path P} [options]",
	"Judge one statement or one HTTP request and say why. FILE is a policy or a bundle.",
	"  --target T          a target of the policy (needed)\n"
	"  --sql TEXT          the statement, of a postgres target\n"
	"  --method M          the request's method, of an http target\n"
	"  --path P            its path, with the query if it has one\n"
	"  --header 'N: V'     one of its fields; may be repeated\n"
	"  --body FILE         its body; - is standard input\n"
	"  --at TIME           2026-12-24T12:00:00Z or 2026-12-24 (default: now)\n"
	"  --owner PERSON      whose run it is\n"
	"  --agent NAME        which agent's\n"
	"  --run RUN           which run\n"
	"  --request JSON      the action as effects, as prove and diff print it; @FILE, or - for\n"
	"                      standard input\n"
	"  --json              for programs\n" CASES},
    {"policy calendar", "FILE [NAME]... [options]",
	"When windows begin and end: what holds now, months, the next changes. FILE is a policy or "
	"a\n"
	"bundle.",
	"  --month 2026-12     this month (default: the one of --at and the next)\n"
	"  --year 2026         all of a year\n"
	"  --next N            how many changes are listed (default: 8)\n"
	"  --colour WHEN       auto, always or never (default: auto: not in a pipe)\n"
	"  --list              every window as instants and in its zone\n"
	"  --from TIME         the same without what ends before\n"
	"  --to TIME           and without what begins after\n"
	"  --ics               an iCalendar file, UTC\n"
	"  --json              for programs\n" AT CASES},
    {"policy prove", "FILE [--json] [THEOREM]...",
	"Prove what \"prove\" says must hold, or show an action that refutes it. Ends with 0 when "
	"all\n"
	"hold, 1 when one does not, 2 when it is not decided.",
	"  --json              for programs\n" AT CASES},
    {"policy diff", "OLD NEW [--markdown | --json]",
	"What a change lets pass, with examples. Ends with 0 no new access, 1 there may be, 2 not\n"
	"decided.",
	"  --markdown          for a pull request\n"
	"  --json              for programs\n" AT},
    {"policy import-ics", "FILE [--kind freeze|open] [--tz ZONE] [--to TIME] [--json]",
	"Windows of an iCalendar file, to check and to paste into a policy. What it cannot be sure "
	"of\n"
	"is refused. Ends with 0 when all was read, 1 when it is refused, 2 usage or files.",
	"  --kind KIND         freeze (default: the longer reading is taken) or open (the "
	"shorter)\n"
	"  --tz ZONE           in which whole days are, as Europe/London\n"
	"  --to TIME           where rules end that have no end of their own\n"
	"  --json              the calendar alone\n"},
    {"run", NULL, NULL, NULL},
    {"sandboxd", NULL, NULL, NULL},
    {"mcp", NULL, NULL, NULL},
    {"status", "[--json]", "The broker, its policy and its runs. Ends with 0 when it serves.",
	"  --json              as the broker says it\n" VIA},
    {"pending", "[--json | --watch]",
	"Requests that wait for people, or to be used, and what nobody can approve.",
	"  --json              as the broker says it\n"
	"  --watch             draw it again every 2 seconds, until interrupted\n" VIA},
    {"show", "[--json] ID",
	"One request, the action in full. Of a run that is over: how the log says that it ended.",
	"  --json              as the broker says it\n" VIA},
    {"control-pipe", "[--state DIR]",
	"Copy between standard input and output and the control socket: what sshd\n"
	"runs for who approves from elsewhere.",
	STATE},
    {"approve", "ID --as PERSON [options]", "Sign for a request.", SIGN},
    {"deny", "ID --as PERSON [options]", "Sign against a request: it ends.", REASON SIGN},
    {"revoke", "RUN [--reason TEXT] | REQUEST --as PERSON [options]",
	"End a run at once: nothing more of it passes, its sandbox ends. Or sign that a request "
	"is\n"
	"void.",
	"  RUN                 the run, as `cofferdam status` prints it\n" REASON SIGN},
    {"attach", "RUN [--json]",
	"Watch a run: what its model says, its code, its output, its actions and their verdicts, "
	"as\n"
	"they come on the record. For its owner, and for roles that the policy's \"watch\" names.",
	"  RUN                 the run, as `cofferdam status` prints it\n"
	"  --json              one JSON object a line, as docs/runs.md says\n" VIA},
    {"pause", "RUN [--reason TEXT]",
	"Hold a run: what runs in its sandbox stands still, and no turn begins until `resume`.",
	TOLD VIA},
    {"resume", "RUN [--reason TEXT]", "Let a paused run go on.", TOLD VIA},
    {"message", "RUN TEXT",
	"Tell a run's model something, at its next turn, as a person's words. Who does that "
	"cannot\n"
	"sign for what the run does.",
	"  RUN                 the run, as `cofferdam status` prints it\n"
	"  TEXT                up to 4096 bytes\n" VIA},
    {"stop", "RUN [--reason TEXT]",
	"End a run in order: its program is ended, its end recorded, and its agent says what was\n"
	"done so far.",
	TOLD VIA},
    {"freeze start", "--reason TEXT --as PERSON [options]",
	"Refuse changes from now on: one signature. It holds until two people lift it.",
	"  --effects LIST      effects that are refused (default: @change,@destructive,@escape)\n"
	"  --target T          on this target only\n"
	"  --env E             on targets of this environment only\n"
	"  --reason TEXT       why, for everybody who is refused (needed)\n" LIFT_SIGN},
    {"freeze lift", "ID --as PERSON [options]",
	"Sign that a freeze is to end; it ends with the second person's signature.",
	NOTE LIFT_SIGN},
    {"freeze status", "[--json]", "Emergency freezes, and who signed.",
	"  --json              as the broker says it\n" VIA},
    {"exception request",
	"--rule R --target T --effects LIST --uses N --ticket X --reason TEXT {--to TIME | --for "
	"TIME}",
	"Ask for an exception from one rule with \"override\":\"exception\"; prints its id.",
	"  --rule R            the rule (needed)\n"
	"  --target T          the target (needed)\n"
	"  --effects LIST      the effects that may pass, besides @data (needed)\n"
	"  --run RUN           in this run only\n"
	"  --from TIME         2026-12-24T12:00:00Z (default: now)\n"
	"  --to TIME           the end, at most 24 hours later\n"
	"  --for TIME          instead of --to: 30m, 2h\n"
	"  --uses N            how many actions (needed)\n"
	"  --ticket X          the change it is for (needed)\n"
	"  --reason TEXT       why (needed)\n" VIA},
    {"exception sign", "ID --as PERSON [options]", "Sign for an exception.", NOTE LIFT_SIGN},
    {"exception revoke", "ID --as PERSON [options]", "End an exception: one signature.",
	NOTE LIFT_SIGN},
    {"exception list", "[--json]", "Exceptions that wait or are in force.",
	"  --json              as the broker says it\n" VIA},
    {"breakglass start", "--target T --effects LIST --for TIME --reason TEXT --as PERSON",
	"Lift rules with \"override\":\"breakglass\" for a short time. It must be reviewed after.",
	"  --target T          the target (needed)\n"
	"  --effects LIST      the effects that may pass, besides @data (needed)\n"
	"  --for TIME          how long, at most 60m (needed)\n"
	"  --run RUN           in this run only\n"
	"  --reason TEXT       why (needed)\n" LIFT_SIGN},
    {"breakglass confirm", "ID --as PERSON [options]",
	"A second person agrees: it then helps the run of the one who began it, too.",
	NOTE LIFT_SIGN},
    {"breakglass end", "ID --as PERSON [options]", "End it now: one signature of anybody.",
	NOTE LIFT_SIGN},
    {"breakglass review", "ID --as PERSON --note TEXT [options]",
	"Close what has ended, as another person than the one who began it.", NOTE LIFT_SIGN},
    {"breakglass list", "[--json]", "Break-glass that waits, is in force or is to be reviewed.",
	"  --json              as the broker says it\n" VIA},
    {"invite", "PERSON --as OWNER [options]",
	"A link with which PERSON enrols a passkey at the console; what comes out is a line for\n"
	"the policy.",
	"  --as OWNER          who signs, an owner of the policy; where it has none, any person\n"
	"  --key FILE          that person's ssh key (default: ~/.ssh/id_ed25519)\n"
	"  --yes               do not ask before signing\n" VIA},
    {"answer", "RUN TEXT",
	"Answer what the agent of a run asks (`cofferdam pending` shows it). It approves nothing.",
	"  --question N        only if it asks that still, as `cofferdam pending` numbers "
	"it\n" VIA},
    {"run-end", "RUN", "End a run now: nothing more of it passes.", VIA},
    {"log verify",
	"[DIR] [--keys FILE] [--pin CHECKPOINT]... [--deep | --resume FILE] [--json] [--progress]",
	"Check the whole log. Ends with 0 verified, 1 tampered with, 2 usage or keys, 3 whole but\n"
	"with an unsigned or torn end, or not all looked into that --deep asks for.",
	LOG_KEYS "  --pin CHECKPOINT    a file with a checkpoint kept elsewhere; up to 64\n"
		 "  --deep              open what is sealed, and hold people's signatures against "
		 "statements\n"
		 "                      built anew from the records\n"
		 "  --resume FILE       keep in FILE how far it came, and go on there if it was "
		 "ended\n"
		 "  --json              the verdict as JSON\n"
		 "  --progress          tell how far it is, as on a terminal\n" LOG_DIR},
    {"log show", "[DIR] [--run RUN] [--type TYPE] [--json]", "Print records.",
	"  --run RUN           of this run only\n"
	"  --type TYPE         of this type only, as action\n"
	"  --json              the records as they are\n" LOG_DIR},
    {"log query", "[DIR] [filters] [--limit N] [--oldest] [--json]",
	"Find records, newest first. The index says where to look, and is brought up to date "
	"first;\n"
	"what is shown is what the log's own line says. A filter is held against what a record "
	"says\n"
	"itself; one given twice means either.",
	"  --run RUN           --agent AGENT       --type TYPE         --target TARGET\n"
	"  --effect EFFECT     --verdict VERDICT   --rule RULE         --status STATUS\n"
	"  --person PERSON     who owned, asked, or signed\n"
	"  --action ID         the action, its outcome, its requests\n"
	"  --id ID             a request, and the actions under it\n"
	"  --src SRC           broker, agent, human or operator\n"
	"  --text WORDS        whole words, all of them, anywhere in the record\n"
	"  --from TIME, --to TIME\n"
	"                      as 2026-11-29T14:00:00Z, 2026-11-29, or 90s, 15m, 2h, 7d ago\n"
	"  --first SEQ, --last SEQ\n"
	"                      by number\n"
	"  --limit N           so many at most (default: 100; 0: all)\n"
	"  --oldest            oldest first\n"
	"  --json              the log's own lines\n"
	"  --index FILE        the index (default: index/log.db of the state directory)\n"
	"  --scan              without an index: reads all of the log\n" LOG_DIR},
    {"log index", "[DIR] [--index FILE] [--rebuild]",
	"Make the index that log query uses, or bring it up to date. It may be deleted at any "
	"time.",
	"  --index FILE        the index (default: index/log.db of the state directory)\n"
	"  --rebuild           make it anew\n" LOG_DIR},
    {"log export", "[DIR] [--format FORM] [--output FILE] [--cursor NAME] [--follow]",
	"What may leave of each record, a line each, for other systems. docs/export.md.",
	"  --format FORM       json (default), ocsf, otlp, or lines: the log's own\n"
	"  --type TYPE         of that type or family (approval.*) alone; may stand several times\n"
	"  --text              names of tables and paths, too\n"
	"  --from SEQ          begin with that record\n"
	"  --output FILE       append to it (default: standard output)\n"
	"  --cursor NAME|PATH  go on where the last one ended, and keep where this one does\n"
	"  --follow            go on as the log grows\n" LOG_KEYS LOG_DIR},
    {"log head", "[DIR] [--keys FILE]", "Print the newest checkpoint, to be kept elsewhere.",
	LOG_KEYS LOG_DIR},
    {"log checkpoint", "[DIR] [--keys FILE]", "The same as log head.", LOG_KEYS LOG_DIR},
    {"log prove", "SEQ [DIR] [--keys FILE] [--checkpoint FILE] [--line FILE]",
	"Print the proof of one record: a file (C2SP tlog-proof) that holds the record and stands\n"
	"alone. Ends with 0, 1 for what is not covered or was changed, 2 usage or keys.",
	"  SEQ                 its number\n"
	"  --checkpoint FILE   prove it against this one (default: the newest)\n"
	"  --line FILE         the record's line as you have it, for one that was pruned\n" LOG_KEYS
	    LOG_DIR},
    {"log verify-proof", "FILE --keys FILE | --state DIR",
	"Check such a file, without the log. Ends with 0 verified, 1 not, 2 usage or keys.",
	"  --keys FILE         the log's keys; also --vkey\n" STATE},
    {"log prune",
	"--before TIME | --keep-days N | --before-seq SEQ [--yes --reason TEXT] | --cancel",
	"Order the oldest segments to be taken away: the broker does it, running or when it\n"
	"starts, on the record; each record's hash stays, and all proofs hold. Without --yes it\n"
	"only says what would go, and what stays.",
	"  --before TIME       whose records are all older: 2026-11-29T00:00:00Z, 2026-11-29, 7d "
	"ago\n"
	"  --keep-days N       the same: older than so many days\n"
	"  --before-seq SEQ    whose records all have lower numbers\n"
	"  --reason TEXT       why, up to 256 bytes; recorded\n"
	"  --yes               order it\n"
	"  --cancel            take an order away that is not done\n" STATE},
    {"log verify-receipt", "RECEIPT [DIR] [--keys FILE]",
	"Does the log hold the record that an answer was given for (field Cofferdam-Receipt), as "
	"it\n"
	"was? Ends with 0 it does, 1 it does not, 2 usage or keys.",
	"  RECEIPT             ORIGIN#SEQ:HASH:SIZE\n" LOG_KEYS LOG_DIR},
    {"log erase", "--subject WHOSE --reason TEXT [--yes]",
	"Destroy the keys of what was sealed of a subject's runs: texts, statements, bodies and\n"
	"answers. The records stay and verify. Without --yes it only says what would be erased.",
	"  --subject WHOSE     run:ID, owner:PERSON (all runs of that owner), or target:NAME (all\n"
	"                      runs that asked for something at that target), each run whole\n"
	"  --reason TEXT       why, up to 256 bytes; recorded\n"
	"  --yes               do it\n" STATE},
    {"log keys", "[DIR] [--keys FILE]",
	"The keys that may sign the log and the sizes of each, as a file for --keys.",
	"  --keys FILE         keys to begin with (default: the first of the state "
	"directory)\n" LOG_DIR},
    {"log rotate-key", "[--revoke REASON [--last SIZE]]",
	"A new signing key, from the broker's next start on; stop the broker first. The old one "
	"is\n"
	"destroyed; verifiers who have it follow to the new one.",
	"  --revoke REASON     the old key is not to be believed beyond the log's size, or SIZE\n"
	"  --last SIZE         the last size that you know from elsewhere, as by a pin\n" STATE},
    {"log reconcile", "[ACTION (--done | --not-done) --note TEXT]",
	"Without ACTION: actions that were sent and of which nobody knows what became of them. "
	"With\n"
	"it: say, by your name and on the record, whether it was done.",
	"  --done              it was done\n"
	"  --not-done          it was not\n"
	"  --note TEXT         how you know, up to 256 bytes; recorded\n" VIA},
    {"witness init", "DIR NAME",
	"Make a witness of logs, and print the key by which its cosignatures are verified.",
	"  DIR                 where; one that exists is refused\n"
	"  NAME                its name in each cosignature, as witness.example/w1\n"},
    {"witness add", "DIR VKEY",
	"From now on it cosigns that log's heads, each of which must extend the last.",
	"  VKEY                the log's verifier key itself, the line in keys/log/vkey of a "
	"state\n"
	"                      directory\n"},
    {"witness serve", "DIR [--listen ADDRESS:PORT] [--cert FILE --key FILE]",
	"Answer C2SP tlog-witness add-checkpoint until a signal ends it.",
	"  --listen ADDRESS:PORT  default 127.0.0.1:2099; without TLS loopback alone\n"
	"  --cert FILE         certificate chain, PEM\n"
	"  --key FILE          its key, PEM\n"},
    {"replay timeline", "[--vkey FILE] [--full] [--no-pager] [--html FILE] [RUN]",
	"What happened, and why; what the agent claims beside what was recorded.",
	"  --vkey FILE         keys to trust (default: those of the state directory)\n"
	"  --full              long texts in full\n"
	"  --no-pager          straight to the terminal\n"
	"  --html FILE         of one run, a page that needs nothing else\n" STATE},
    {"replay report", "[--vkey FILE] [--policy FILE] [--html] [--out FILE] RUN",
	"A document on one run for after an incident, with proofs.",
	"  --vkey FILE         keys to trust (default: those of the state directory)\n"
	"  --policy FILE       ask this policy as well what it would have stopped\n"
	"  --html              HTML (default: Markdown)\n"
	"  --out FILE          where to (default: standard output)\n" STATE},
    {"replay whatif", "[--policy FILE] [--at TIME] [--reclassify] [--all] [RUN]",
	"Judge every recorded action again. Ends with 0 when every verdict is the recorded one.",
	"  --policy FILE       a policy or a bundle (default: the recorded one)\n"
	"  --at TIME           as if all of it were done then, 2026-11-30T12:00:00Z (default: when "
	"it was)\n"
	"  --reclassify        by what today's classifiers say of the recorded bytes\n"
	"  --all               print unchanged actions, too\n" STATE},
    {"replay rerun", "[--vkey FILE] [--workspace DIR] RUN",
	"Run its code again in a fresh sandbox against what was answered then, and name where it "
	"first "
	"parts. Ends with 0 the same, 1 diverged, 3 undecided.",
	"  --vkey FILE         keys to trust (default: those of the state directory)\n"
	"  --workspace DIR     becomes /work, as the run had one: a copy, since it is written "
	"to\n" STATE},
};

bool
cmd_help_asked(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help") == 0)
			return true;
	return false;
}

/* `words` begins with the word w: the rest behind the blank, "" if it is all. */
static const char *
behind(const char *words, const char *w)
{
	size_t n = strlen(w);

	if (strncmp(words, w, n) != 0 || (words[n] != '\0' && words[n] != ' '))
		return NULL;
	return words[n] == ' ' ? words + n + 1 : words + n;
}

int
cmd_usage(const char *words)
{
	const char *lead = "usage:";

	for (size_t i = 0; i < ARRAY_LEN(helps); i++) {
		if (behind(helps[i].words, words) == NULL)
			continue;
		(void)fprintf(
		    stderr, "%-6s cofferdam %s %s\n", lead, helps[i].words, helps[i].args);
		lead = "";
	}
	(void)fprintf(stderr, "       --help tells all options\n");
	return CMD_USAGE;
}

static void
print_one(const struct help *h)
{
	if (h->args == NULL)
		return;
	(void)printf(
	    "usage: cofferdam %s %s\n%s\n%s%s", h->words, h->args, h->what, h->options, HELP);
}

/* An option before the second word hides it: then all of the first word's are printed. */
bool
cmd_help(int argc, char **argv)
{
	const char *second = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
	bool found = false;

	for (int pass = 0; pass < 2 && !found; pass++) {
		for (size_t i = 0; i < ARRAY_LEN(helps); i++) {
			const char *rest = behind(helps[i].words, argv[0]);

			if (rest == NULL || (pass == 0 && rest[0] != '\0' &&
						(second == NULL || strcmp(rest, second) != 0)))
				continue;
			if (found)
				(void)printf("\n");
			print_one(&helps[i]);
			found = true;
		}
	}
	return found;
}
