/*
 * The help of every command, as one table. Runs as the person who types it; prints, and does
 * nothing else. tests/system/22-command-line.t holds it and the man pages to the option tables.
 */
#include "cmd/cmd_help.h"

#include <stdio.h>
#include <string.h>

#include "common/xalloc.h"

#include "common/banned.h"

static const struct help {
	const char *words, *args;
	const char *what; /* NULL: another program is it, and says so itself */
} helps[] = {
    {"init", "--state DIR --origin NAME [--policy FILE]",
	"Make a state directory; one that exists is refused."},
    {"credential add",
	"NAME {--kind KIND --url https://HOST[:PORT] | --target-host HOST --port N --user USER} "
	"[options]",
	"Put a secret into the vault, bound to one place. It is read from a terminal, standard\n"
	"input, --fd or --command; never from an argument."},
    {"credential list", "[--state DIR]",
	"Name, kind, version, binding and when it was set; never a secret."},
    {"credential rotate", "NAME [options]",
	"Give a credential a new secret; it stays bound as it is, its version goes up by one."},
    {"credential test", "NAME [--run [--path PATH]]",
	"Which targets of the active policy use it. Ends with 0 when there is one and all fit."},
    {"credential remove", "NAME [--state DIR]", "Take a secret out of the vault."},
    {"key new", "FILE [--no-passphrase | --fd N]",
	"Make a key that signs approvals, for people without SSH keys. The secret half goes to "
	"FILE,\nsealed by a passphrase; the line for the policy to FILE.pub and to standard "
	"output."},
    {"key show", "FILE", "Its line for the policy, and its fingerprint."},
    {"policy check", "FILE [--strict] [--json]",
	"Read a policy, say what is wrong or does nothing, and prove its theorems. Ends with 0 "
	"when\nnothing is refused, 1 when something is or a theorem does not hold, 2 usage or "
	"files."},
    {"policy build", "FILE [-o DIR | --state DIR]",
	"Write the bundle that the broker loads; without a directory, to standard output."},
    {"policy sign", "BUNDLE --as PERSON [--state DIR | --before BUNDLE] [options]",
	"Sign, as an owner of the active policy, that a bundle may follow it. BUNDLE is its "
	"digest,\nor a file."},
    {"policy activate", "BUNDLE [--state DIR] [--signature PERSON=FILE]...",
	"Make a bundle active that the owners of the active one have signed."},
    {"policy test", "POLICY [CASES]... [--group NAME]...",
	"Judge the cases of a policy, and those of case files by it; TAP."},
    {"policy explain", "FILE --target T {--sql TEXT | --method M --path P} [options]",
	"Judge one statement or one HTTP request and say why. FILE is a policy or a bundle."},
    {"policy calendar", "FILE [NAME]... [options]",
	"When windows begin and end: what holds now, months, the next changes. FILE is a policy or "
	"a\nbundle."},
    {"policy prove", "FILE [--json] [THEOREM]...",
	"Prove what \"prove\" says must hold, or show an action that refutes it. Ends with 0 when "
	"all\nhold, 1 when one does not, 2 when it is not decided."},
    {"policy diff", "OLD NEW [--markdown | --json]",
	"What a change lets pass, with examples. Ends with 0 no new access, 1 there may be, 2 "
	"not\ndecided."},
    {"policy import-ics", "FILE [--kind freeze|open] [--tz ZONE] [--to TIME] [--json]",
	"Windows of an iCalendar file, to check and to paste into a policy. What it cannot be sure "
	"of\nis refused. Ends with 0 when all was read, 1 when it is refused, 2 usage or files."},
    {"run", NULL, NULL},
    {"profile", NULL, NULL},
    {"sandboxd", NULL, NULL},
    {"mcp", NULL, NULL},
    {"status", "[--json]", "The broker, its policy and its runs. Ends with 0 when it serves."},
    {"pending", "[--json | --watch]",
	"Requests that wait for people, or to be used, and what nobody can approve."},
    {"show", "[--json] ID",
	"One request, the action in full. Of a run that is over: how the log says that it ended."},
    {"control-pipe", "[--state DIR]",
	"Copy between standard input and output and the control socket: what sshd\nruns for who "
	"approves from elsewhere."},
    {"approve", "ID --as PERSON [options]", "Sign for a request."},
    {"deny", "ID --as PERSON [options]", "Sign against a request: it ends."},
    {"revoke", "RUN [--reason TEXT] | REQUEST --as PERSON [options]",
	"End a run at once, as `cofferdam status` prints it: nothing more of it passes, its "
	"sandbox\nends. Or sign that a request is void."},
    {"attach", "RUN [--json]",
	"Watch a run: what its model says, its code, its output, its actions and their verdicts, "
	"as\nthey come on the record. For its owner, and for roles that the policy's \"watch\" "
	"names."},
    {"pause", "RUN [--reason TEXT]",
	"Hold a run: what runs in its sandbox stands still, and no turn begins until `resume`."},
    {"resume", "RUN [--reason TEXT]", "Let a paused run go on."},
    {"message", "RUN TEXT",
	"Tell a run's model something, at its next turn, as a person's words. Who does that "
	"cannot\nsign for what the run does."},
    {"stop", "RUN [--reason TEXT]",
	"End a run in order: its program is ended, its end recorded, and its agent says what "
	"was\ndone so far."},
    {"freeze start", "--reason TEXT --as PERSON [options]",
	"Refuse changes from now on: one signature. It holds until two people lift it."},
    {"freeze lift", "ID --as PERSON [options]",
	"Sign that a freeze is to end; it ends with the second person's signature."},
    {"freeze status", "[--json]", "Emergency freezes, and who signed."},
    {"exception request",
	"--rule R --target T --effects LIST --uses N --ticket X --reason TEXT {--to TIME | --for "
	"TIME}",
	"Ask for an exception from one rule with \"override\":\"exception\"; prints its id."},
    {"exception sign", "ID --as PERSON [options]", "Sign for an exception."},
    {"exception revoke", "ID --as PERSON [options]", "End an exception: one signature."},
    {"exception list", "[--json]", "Exceptions that wait or are in force."},
    {"breakglass start", "--target T --effects LIST --for TIME --reason TEXT --as PERSON",
	"Lift rules with \"override\":\"breakglass\" for a short time. It must be reviewed after."},
    {"breakglass confirm", "ID --as PERSON [options]",
	"A second person agrees: it then helps the run of the one who began it, too."},
    {"breakglass end", "ID --as PERSON [options]", "End it now: one signature of anybody."},
    {"breakglass review", "ID --as PERSON --note TEXT [options]",
	"Close what has ended, as another person than the one who began it."},
    {"breakglass list", "[--json]", "Break-glass that waits, is in force or is to be reviewed."},
    {"invite", "PERSON --as OWNER [options]",
	"A link with which PERSON enrols a passkey at the console; what comes out is a line "
	"for\nthe policy."},
    {"answer", "RUN TEXT",
	"Answer what the agent of a run asks (`cofferdam pending` shows it). It approves nothing."},
    {"run-end", "RUN", "End a run now: nothing more of it passes."},
    {"log verify",
	"[DIR] [--keys FILE] [--pin CHECKPOINT]... [--deep | --resume FILE] [--json] [--progress]",
	"Check the whole log. Ends with 0 verified, 1 tampered with, 2 usage or keys, 3 whole but\n"
	"with an unsigned or torn end, or not all looked into that --deep asks for."},
    {"log show", "[DIR] [--run RUN] [--type TYPE] [--json]", "Print records."},
    {"log query", "[DIR] [filters] [--limit N] [--oldest] [--json]",
	"Find records, newest first. The index says where to look, and is brought up to date "
	"first;\nwhat is shown is what the log's own line says. A filter is held against what a "
	"record says\nitself; one given twice means either."},
    {"log index", "[DIR] [--index FILE] [--rebuild]",
	"Make the index that log query uses, or bring it up to date. It may be deleted at any "
	"time."},
    {"log export", "[DIR] [--format FORM] [--output FILE] [--cursor NAME] [--follow]",
	"What may leave of each record, a line each, for other systems. docs/export.md."},
    {"log head", "[DIR] [--keys FILE]", "Print the newest checkpoint, to be kept elsewhere."},
    {"log checkpoint", "[DIR] [--keys FILE]", "The same as log head."},
    {"log prove", "SEQ [DIR] [--keys FILE] [--checkpoint FILE] [--line FILE]",
	"Print the proof of one record: a file (C2SP tlog-proof) that holds the record and "
	"stands\nalone. Ends with 0, 1 for what is not covered or was changed, 2 usage or keys."},
    {"log verify-proof", "FILE --keys FILE | --state DIR",
	"Check such a file, without the log. Ends with 0 verified, 1 not, 2 usage or keys."},
    {"log prune",
	"--before TIME | --keep-days N | --before-seq SEQ [--yes --reason TEXT] | --cancel",
	"Order the oldest segments to be taken away: the broker does it, running or when "
	"it\nstarts, on the record; each record's hash stays, and all proofs hold. Without --yes "
	"it\nonly says what would go, and what stays."},
    {"log verify-receipt", "RECEIPT [DIR] [--keys FILE]",
	"Does the log hold the record that an answer was given for (field Cofferdam-Receipt), as "
	"it\nwas? Ends with 0 it does, 1 it does not, 2 usage or keys."},
    {"log erase", "--subject WHOSE --reason TEXT [--yes]",
	"Destroy the keys of what was sealed of a subject's runs: texts, statements, bodies "
	"and\nanswers. The records stay and verify. Without --yes it only says what would be "
	"erased."},
    {"log keys", "[DIR] [--keys FILE]",
	"The keys that may sign the log and the sizes of each, as a file for --keys."},
    {"log rotate-key", "[--revoke REASON [--last SIZE]]",
	"A new signing key, from the broker's next start on; stop the broker first. The old one "
	"is\ndestroyed; verifiers who have it follow to the new one."},
    {"log reconcile", "[ACTION (--done | --not-done) --note TEXT]",
	"Without ACTION: actions that were sent and of which nobody knows what became of them. "
	"With\nit: say, by your name and on the record, whether it was done."},
    {"witness init", "DIR NAME",
	"Make a witness of logs, and print the key by which its cosignatures are verified."},
    {"witness add", "DIR VKEY",
	"From now on it cosigns that log's heads, each of which must extend the last."},
    {"witness serve", "DIR [--listen ADDRESS:PORT] [--cert FILE --key FILE]", NULL},
    {"replay timeline", "[--vkey FILE] [--full] [--no-pager] [--html FILE] [RUN]",
	"What happened, and why; what the agent claims beside what was recorded."},
    {"replay report", "[--vkey FILE] [--policy FILE] [--html] [--out FILE] RUN",
	"A document on one run for after an incident, with proofs."},
    {"replay whatif", "[--policy FILE] [--at TIME] [--reclassify] [--all] [RUN]",
	"Judge every recorded action again. Ends with 0 when every verdict is the recorded one."},
    {"replay rerun", "[--vkey FILE] [--workspace DIR] RUN",
	"Run its code again in a fresh sandbox against what was answered then, and name where it "
	"first parts. Ends with 0 the same, 1 diverged, 3 undecided."},
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

/* The command itself prints its options, by the table that reads them. */
static void
print_one(const struct help *h, int (*run)(int argc, char **argv))
{
	AUTO_FREE char *first = xstrdup(h->words);
	char asked[] = "--help", *second = strchr(first, ' ');
	char *argv[] = {first, asked, NULL, NULL};

	if (h->what != NULL)
		(void)printf("usage: cofferdam %s %s\n%s\n", h->words, h->args, h->what);
	if (second != NULL) {
		*second = '\0';
		argv[1] = second + 1;
		argv[2] = asked;
	}
	(void)run(second != NULL ? 3 : 2, argv);
}

/* An option before the second word hides it: then all of the first word's are printed. */
bool
cmd_help(int argc, char **argv, int (*run)(int argc, char **argv))
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
			print_one(&helps[i], run);
			found = true;
		}
	}
	return found;
}
