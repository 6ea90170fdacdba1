/*
 * The drivers of contexts, each in a plain process: what cells see and say, what an interrupt does.
 * No sandbox is here; 47-contexts.t has one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "agent/sandbox/sandbox_context.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define HANGS_MS 60000
#define AGAIN_MS 500 /* as CONTEXT_AGAIN_MS */
#define INTERRUPT_AT_MS 300

struct talk {
	pid_t pid;
	int wire, out;
	struct cell_reader reader;
	struct buf said; /* displays, the end, then the output */
	bool ended;
};

static void
on_bundle(void *arg, bool result, struct str json)
{
	struct talk *t = arg;

	buf_printf(&t->said, "%s%.*s\n", result ? "= " : "+ ", STR_ARG(json));
}

static void
on_end(void *arg, enum cell_status s, struct str name, struct str value, struct str trace)
{
	static const char *const words[] = {"ok", "error", "interrupted"};
	struct talk *t = arg;

	buf_printf(&t->said, "%s %.*s|%.*s|%.*s\n", words[s], STR_ARG(name), STR_ARG(value),
	    STR_ARG(trace));
	t->ended = true;
}

static const struct cell_ops ops = {on_bundle, on_end};

static void
child(const struct context_driver *d, int wire, int out)
{
	AUTO_FREE char *text = str_dup(str_mem(d->text, *d->size));
	char *argv[8] = {NULL};
	size_t n = 0;

	for (; d->argv[n] != NULL; n++)
		argv[n] = xstrdup(d->argv[n]);
	argv[n] = text;
	(void)setpgid(0, 0);
	(void)signal(SIGINT, SIG_DFL); /* who was started in the background has it ignored, and bash
					  cannot trap it */
	(void)dup2(open("/dev/null", O_RDONLY), 0);
	(void)dup2(out, 1);
	(void)dup2(out, 2);
	(void)dup2(wire, SANDBOX_FIRST_FD);
	(void)setenv("PATH", "/usr/bin:/bin", 1);
	(void)execvp(argv[0], argv);
	_exit(127);
}

/* Takes what comes until the cell, or the interpreter, has ended. */
static void
listen_to(struct talk *t, int interrupt_ms)
{
	struct err e = {0};
	char room[8192];
	int waited = 0;

	while (!t->ended) {
		struct pollfd p = {.fd = t->wire, .events = POLLIN};
		int n = poll(&p, 1, interrupt_ms != 0 ? interrupt_ms : HANGS_MS);
		ssize_t k;

		if (n == 0 && (interrupt_ms == 0 || waited >= HANGS_MS))
			fail_msg(
			    "the interpreter hangs; so far:\n%.*s", STR_ARG(buf_str(&t->said)));
		if (n == 0) {
			/* Again and again, as the caller does: bash may just have begun a program.
			 */
			(void)kill(-t->pid, SIGINT);
			waited += interrupt_ms;
			interrupt_ms = AGAIN_MS;
			continue;
		}
		k = read(t->wire, room, sizeof(room));
		if (k <= 0) {
			buf_put_z(&t->said, "gone\n");
			t->ended = true;
		} else if (cell_feed(&t->reader, str_mem(room, (size_t)k), &e) != 0) {
			fail_msg("%s", e.msg);
		}
		if (t->reader.greeted && !t->reader.open)
			t->ended = true;
	}
	while (read(t->out, room, 1) == 1)
		buf_put(&t->said, room, 1);
}

/* What comes late comes with the end of the last cell, or after it. */
static void
printed(struct talk *t, const char *want)
{
	char c;

	for (;;) {
		AUTO_FREE char *got = buf_dup_z(&t->said);

		if (strstr(got, want) != NULL)
			return;
		if (poll(&(struct pollfd){.fd = t->out, .events = POLLIN}, 1, HANGS_MS) != 1 ||
		    read(t->out, &c, 1) != 1)
			fail_msg("not printed: %s; so far:\n%s", want, got);
		buf_put(&t->said, &c, 1);
	}
}

static void
talk_begin(struct talk *t, const char *language)
{
	const struct context_driver *d = context_driver(language);
	int pair[2], out[2];

	*t = (struct talk){.said = BUF((size_t)8 << 20)};
	cell_reader_init(&t->reader, &ops, t);
	assert_non_null(d);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	t->pid = fork();
	if (t->pid == 0)
		child(d, pair[1], out[1]);
	(void)close(pair[1]);
	(void)close(out[1]);
	(void)fcntl(out[0], F_SETFL, O_NONBLOCK);
	t->wire = pair[0];
	t->out = out[0];
	listen_to(t, 0);
}

static void
talk_end(struct talk *t)
{
	int st;

	(void)close(t->wire);
	assert_int_equal(waitpid(t->pid, &st, 0), t->pid);
	(void)close(t->out);
	cell_reader_free(&t->reader);
	buf_free(&t->said);
}

static void
cell(struct talk *t, const char *code, int interrupt_ms, const char *want)
{
	AUTO_BUF struct buf b = BUF((size_t)1 << 20);
	AUTO_FREE char *got = NULL;

	buf_reset(&t->said);
	t->ended = false;
	cell_begin(&t->reader, str_z(code), &b);
	assert_int_equal(write(t->wire, b.p, b.n), (ssize_t)b.n);
	listen_to(t, interrupt_ms);
	got = buf_dup_z(&t->said);
	if (strstr(got, want) == NULL)
		fail_msg("%s\nsays:\n%s\nwanted:\n%s", code, got, want);
}
#define SAYS(code, want) cell(&t, code, 0, want)
#define STOPS(code, want) cell(&t, code, INTERRUPT_AT_MS, want)

static bool
missing(const char *program)
{
	AUTO_FREE char *path = xasprintf("/usr/bin/%s", program);

	if (access(path, X_OK) == 0)
		return false;
	print_message("# skipped: no %s\n", path);
	return true;
}

static void
python_keeps_state_and_answers(void **state UNUSED)
{
	struct talk t;

	talk_begin(&t, "python");
	SAYS("x = 5", "ok ||\n");
	SAYS("x + 1", "= {\"text/plain\":\"6\"}\nok");
	SAYS("_ + 1", "= {\"text/plain\":\"7\"}\nok");
	SAYS("x + 1;", "ok ||\n");
	SAYS("", "ok ||\n");
	SAYS("def f():\n\traise ValueError('no')", "ok");
	/* Lines of the cell that defined it, none of the driver's. */
	SAYS("f()",
	    "error ValueError|no|Traceback (most recent call last):\n"
	    "  File \"<cell 7>\", line 1, in <module>\n    f()\n"
	    "  File \"<cell 6>\", line 2, in f\n    raise ValueError('no')\nValueError: no\n\n");
	SAYS("a b",
	    "error SyntaxError|invalid syntax (<cell 8>, line 1)|  File \"<cell 8>\", line 1\n");
	SAYS("import sys; sys.exit(3)", "error SystemExit|3|");
	SAYS("input()", "error EOFError|");
	SAYS("raise BaseException('b')", "error BaseException|b|");
	SAYS("class R:\n\tdef __repr__(s): raise KeyError(1)\nR()", "error KeyError|1|");
	SAYS("import asyncio\nawait asyncio.sleep(0)\nx", "= {\"text/plain\":\"5\"}\nok");
	SAYS("async def g(): return 8\nawait g()", "= {\"text/plain\":\"8\"}\nok");
	SAYS("from __future__ import annotations", "ok");
	SAYS("def h(a: nothing): pass", "ok");
	SAYS("import pickle\nclass P: pass\ntype(pickle.loads(pickle.dumps(P()))) is P",
	    "= {\"text/plain\":\"True\"}");
	SAYS("import os; os.fork(); 7", "= {\"text/plain\":\"7\"}\nok");
	SAYS("x", "= {\"text/plain\":\"5\"}\nok");
	SAYS("'\\ud800\\0'", "= {\"text/plain\":\"'\\\\ud800\\\\x00'\"}");
	SAYS("import os; os._exit(3)", "gone");
	talk_end(&t);
}

static void
python_output_is_whole_and_in_order(void **state UNUSED)
{
	struct talk t;

	talk_begin(&t, "python");
	SAYS("print('a', end='-'); import os; os.system('echo b'); print('c')", "ok ||\na-b\nc\n");
	SAYS("import ctypes; ctypes.CDLL(None).printf(b'C '); os.write(1, b'fd '); print('p')",
	    "ok ||\nC fd p\n");
	SAYS("import sys; sys.stdout.buffer.write(b'\\xff\\0'); sys.stderr.write('e')",
	    "ok ||\n\xff");
	/* What looks like a frame is output. */
	SAYS("print('E0000000042\\n0000000002ok')", "ok ||\nE0000000042\n");
	talk_end(&t);
}

static void
python_shows_bundles(void **state UNUSED)
{
	struct talk t;

	talk_begin(&t, "python");
	SAYS("class H:\n\tdef _repr_html_(s): return '<b>'\n\tdef _repr_png_(s): return b'png'\n"
	     "\tdef _repr_json_(s): return {'a': 1}\n\tdef _repr_svg_(s): return None\n"
	     "\tdef __repr__(s): return 'H'\nH()",
	    "= {\"application/json\":\"{\\\"a\\\": "
	    "1}\",\"image/png\":\"cG5n\",\"text/html\":\"<b>\","
	    "\"text/plain\":\"H\"}\nok");
	SAYS("display(H(), 2); 3", "+ {\"text/plain\":\"2\"}\n= {\"text/plain\":\"3\"}\nok");
	SAYS("display({'text/html': 'x', 'Bad Type': 1}, raw=True)", "+ {\"text/html\":\"x\"}\nok");
	SAYS("H", "= {\"text/plain\":\"<class '__main__.H'>\"}");
	SAYS("'x' * (2 << 20)", " ... (cut)\"}\nok");
	SAYS("for i in range(2000): display(i)", "left out: more displays");
	SAYS("1", "= {\"text/plain\":\"1\"}\nok");
	talk_end(&t);
}

static void
python_is_interrupted_and_goes_on(void **state UNUSED)
{
	struct talk t;

	talk_begin(&t, "python");
	SAYS("import time, asyncio, os; x = 1", "ok");
	STOPS("while True: time.sleep(0.01)", "interrupted KeyboardInterrupt|");
	STOPS("while True: pass", "interrupted KeyboardInterrupt|");
	STOPS("await asyncio.sleep(99)", "interrupted KeyboardInterrupt|");
	STOPS("while True: display(1)", "interrupted KeyboardInterrupt|");
	STOPS("os.system('sleep 99')", "ok");
	/* One that comes between cells is nobody's. */
	(void)kill(-t.pid, SIGINT);
	(void)usleep(50000);
	SAYS("x", "= {\"text/plain\":\"1\"}\nok");
	SAYS("raise KeyboardInterrupt", "interrupted KeyboardInterrupt|");
	talk_end(&t);
}

static void
bash_keeps_state_and_answers(void **state UNUSED)
{
	struct talk t;

	talk_begin(&t, "bash");
	SAYS("x=5; declare -A m=([a]=1); cd /; f() { echo \"f $1\"; return 3; }", "ok ||\n");
	SAYS("echo \"$x ${m[a]} $PWD\"", "ok ||\n5 1 /\n");
	SAYS("f 2", "error exit|3|\nf 2\n");
	SAYS("false", "error exit|1|");
	SAYS("return 4", "error exit|4|");
	SAYS("echo $?", "ok ||\n");
	SAYS("nothing-of-this-name", "error exit|127|\n/dev/fd/211: line 1: nothing-of-this-name: "
				     "command not found\n");
	SAYS("if then", "error exit|2|");
	SAYS("break 9; echo no", "ok ||\n");
	SAYS("for i in 1 2; do continue 2; done; echo \"i $i\"", "ok ||\n");
	SAYS("cat; read -r z; echo \"r$?\"", "ok ||\nr1\n");
	SAYS("exec 9>/dev/null; echo a", "ok ||\na\n");
	SAYS("echo b >&9; echo $?", "ok ||\n0\n");
	SAYS("set -x; echo t", "+ echo t\nt\n");
	SAYS("echo u; set +x", "+ echo u\nu\n");
	SAYS("set -uf; echo \"$-\"", "ok");
	SAYS("echo *; echo \"${nope-n}\"; set +uf", "ok ||\n*\nn\n");
	SAYS("set -- a b", "ok");
	SAYS("echo $#", "ok ||\n2\n");
	SAYS("printf 'a\\0b\\xff'; echo äö", "ok ||\n");
	SAYS("trap 'echo bye' EXIT", "ok");
	SAYS("LC_ALL=C.UTF-8; IFS=x; y=äöü", "ok");
	SAYS("echo \"$y\"", "ok ||\näöü\n");
	SAYS("exit 3", "gone\nbye\n");
	talk_end(&t);
}

static void
bash_is_interrupted_and_goes_on(void **state UNUSED)
{
	struct talk t;

	talk_begin(&t, "bash");
	SAYS("x=1; f() { while :; do :; done; echo never; }", "ok");
	STOPS("sleep 99; echo never", "interrupted ||\n");
	STOPS("f; echo never", "interrupted ||\n");
	STOPS("while true; do f; echo never; done", "interrupted ||\n");
	STOPS("for ((;;)); do y=$(sleep 99); done", "interrupted ||\n");
	STOPS("sleep 99 | cat; echo never", "interrupted ||\n");
	(void)kill(-t.pid, SIGINT);
	(void)usleep(50000);
	SAYS("echo \"$x $-\"; shopt extdebug", "\n1 hBc\nextdebug       \toff\n");
	talk_end(&t);
}

static void
javascript_keeps_state_and_answers(void **state UNUSED)
{
	struct talk t;

	if (missing("node"))
		return;
	talk_begin(&t, "javascript");
	SAYS("let x = 5; const k = 1; class A {}; function f() { throw new Error('no') }",
	    "ok ||\n");
	SAYS("x + k", "= {\"text/plain\":\"6\"}\nok");
	SAYS("new A()", "= {\"text/plain\":\"A {}\"}\nok");
	SAYS("f()", "error Error|no|Error: no\n    at f (cell1:1:");
	SAYS("let x = 6", "error SyntaxError|Identifier 'x' has already been declared|");
	SAYS("const y = await Promise.resolve(3)", "ok");
	SAYS("y", "= {\"text/plain\":\"3\"}");
	SAYS("await Promise.reject(new TypeError('t'))", "error TypeError|t|TypeError: t\n");
	SAYS("if (true) {", "error SyntaxError|Unexpected end of input|");
	SAYS("throw null", "error thrown|null|");
	SAYS("undefined", "ok ||\n");
	SAYS("require('os').EOL.length", "= {\"text/plain\":\"1\"}");
	SAYS("console.log('a'); require('child_process').execSync('echo b', {stdio: 'inherit'}); "
	     "console.error('c')",
	    "ok ||\na\nb\nc\n");
	SAYS("display({'text/html': '<b>', 'image/png': Buffer.from('png')}); ({a: 1})",
	    "+ {\"image/png\":\"cG5n\",\"text/html\":\"<b>\"}\n= {\"text/plain\":\"{ a: 1 "
	    "}\"}\nok");
	SAYS("setTimeout(() => { throw new Error('late') }, 1); 1", "= {\"text/plain\":\"1\"}\nok");
	printed(&t, "Uncaught Error: late\n");
	SAYS("2", "= {\"text/plain\":\"2\"}\nok ||\n");
	SAYS("process.exit(3)", "gone");
	talk_end(&t);
}

static void
javascript_is_interrupted_and_goes_on(void **state UNUSED)
{
	struct talk t;

	if (missing("node"))
		return;
	talk_begin(&t, "javascript");
	SAYS("let x = 1", "ok");
	STOPS("while (true) {}", "interrupted Interrupted|");
	STOPS("await new Promise(() => {})", "interrupted Interrupted|");
	for (int i = 0; i < 3; i++) {
		(void)kill(-t.pid, SIGINT);
		(void)usleep(50000);
	}
	SAYS("x", "= {\"text/plain\":\"1\"}\nok");
	talk_end(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(python_keeps_state_and_answers),
	    cmocka_unit_test(python_output_is_whole_and_in_order),
	    cmocka_unit_test(python_shows_bundles),
	    cmocka_unit_test(python_is_interrupted_and_goes_on),
	    cmocka_unit_test(bash_keeps_state_and_answers),
	    cmocka_unit_test(bash_is_interrupted_and_goes_on),
	    cmocka_unit_test(javascript_keeps_state_and_answers),
	    cmocka_unit_test(javascript_is_interrupted_and_goes_on),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
