/*
 * A model that plays a recorded conversation from a readable file (docs/model-script.md): for
 * the demo, for tests and for running a recording again. Runs in cofferdam-agent. The file
 * comes from a person; a section that is not understood is an error with its line, so that
 * a misspelt one does not silently become speech.
 */
#include "agent/model_call.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define SCRIPT_BYTES_MAX ((size_t)1 << 20)
#define SCRIPT_TURNS_MAX 1000

enum section { SECTION_NONE, SECTION_SAY, SECTION_CALL, SECTION_DONE };

/* What stands in a section with a call: code of a language, or the JSON of a tool's arguments. */
enum form { FORM_NONE = 0, FORM_PROGRAM, FORM_CELL, FORM_CALL };

struct turn {
	struct buf words, code;
	enum form form;
	char *name; /* of the language or the tool */
	struct model_call call;
	struct json_doc *args;
	bool done;
};

struct script {
	struct model model; /* first: the vtable's object is this one */
	struct turn *turns;
	size_t n, at;
};

static void
script_free(struct model *m)
{
	struct script *s = (struct script *)(void *)m;

	for (size_t i = 0; i < s->n; i++) {
		buf_free(&s->turns[i].words);
		buf_free(&s->turns[i].code);
		free(s->turns[i].name);
		model_call_drop(&s->turns[i].call, &s->turns[i].args);
	}
	free(s->turns);
	free(s);
}

void
model_free(struct model *m)
{
	if (m != NULL)
		m->free(m);
}

/* Blank lines at both ends are layout, not content; code keeps one newline at its end. */
static struct str
content(const struct buf *b)
{
	struct str s = buf_str(b);

	while (s.n != 0 && (s.p[0] == '\n' || s.p[0] == '\r')) {
		s.p++;
		s.n--;
	}
	while (s.n != 0 && (s.p[s.n - 1] == '\n' || s.p[s.n - 1] == '\r'))
		s.n--;
	return s;
}

/* As a model would have written it; a program's language may be one that no model is offered. */
static void
call_make(struct turn *t)
{
	struct tool_args *a = &t->call.args;

	model_call_drop(&t->call, &t->args);
	if (t->form == FORM_CALL) {
		model_call_read(str_z(t->name), content(&t->code), &t->call, &t->args);
		return;
	}
	t->call.tool = tool_of(t->form == FORM_CELL ? TOOL_RUN_CODE : TOOL_RUN_COMMAND);
	a->text[0] = content(&t->code);
	a->text[1] = str_z(t->name);
	a->given[0] = a->given[1] = true;
}

static int
script_next(
    struct model *m, const struct model_ask *ask UNUSED, struct model_turn *ret, struct err *err)
{
	struct script *s = (struct script *)(void *)m;
	struct turn *t;

	if (s->at == s->n)
		return err_set(err, ERR_STATE, "the script is at its end and has no \"## done\"");
	t = &s->turns[s->at++];
	*ret = (struct model_turn){.done = t->done, .words = content(&t->words)};
	if (t->form != FORM_NONE) {
		call_make(t);
		ret->calls = &t->call;
		ret->ncalls = 1;
	}
	return 0;
}

static struct turn *
turn_add(struct script *s)
{
	s->turns = xreallocarray(s->turns, s->n + 1, sizeof(*s->turns));
	s->turns[s->n] =
	    (struct turn){.words = BUF(SCRIPT_BYTES_MAX), .code = BUF(SCRIPT_BYTES_MAX)};
	return &s->turns[s->n++];
}

static bool
word_is_plain(struct str w)
{
	for (size_t i = 0; i < w.n; i++)
		if (strchr("abcdefghijklmnopqrstuvwxyz0123456789_", w.p[i]) == NULL)
			return false;
	return w.n != 0 && w.n <= 32;
}

static enum form
form_of(struct str head)
{
	return str_eqz(head, "code")   ? FORM_PROGRAM
	       : str_eqz(head, "cell") ? FORM_CELL
	       : str_eqz(head, "call") ? FORM_CALL
				       : FORM_NONE;
}

/* Words and the call that follows them are one turn; all else begins a new one. */
static int
header_take(struct script *s, struct str line, const char *name, unsigned at, enum section *sec,
    struct err *err)
{
	struct turn *last = s->n != 0 ? &s->turns[s->n - 1] : NULL;
	struct str head = str_trim(line), word, rest = STR_NONE;

	if (last != NULL && last->done)
		return err_set(err, ERR_SYNTAX, "%s:%u: a section after \"## done\"", name, at);
	if (s->n >= SCRIPT_TURNS_MAX)
		return err_set(
		    err, ERR_TOO_LARGE, "%s:%u: more than %d turns", name, at, SCRIPT_TURNS_MAX);
	head.p += 2;
	head.n -= 2;
	head = str_trim(head);
	rest = head;
	if (str_cut(&rest, ' ', &word)) {
		head = word;
		rest = str_trim(rest);
	} else {
		rest = STR_NONE;
	}
	if (str_eqz(head, "say") && rest.n == 0) {
		(void)turn_add(s);
		*sec = SECTION_SAY;
	} else if (str_eqz(head, "done") && rest.n == 0) {
		turn_add(s)->done = true;
		*sec = SECTION_DONE;
	} else if (form_of(head) != FORM_NONE && word_is_plain(rest)) {
		if (last == NULL || last->form != FORM_NONE || *sec != SECTION_SAY)
			last = turn_add(s);
		last->form = form_of(head);
		last->name = str_dup(rest);
		*sec = SECTION_CALL;
	} else {
		return err_set(err, ERR_SYNTAX,
		    "%s:%u: \"## %.*s\" is not \"## say\", \"## code LANGUAGE\", \"## cell "
		    "LANGUAGE\", \"## call TOOL\" or \"## done\" "
		    "(write \\## for a line that begins so)",
		    name, at, STR_ARG(head));
	}
	return 0;
}

static int
line_take(struct script *s, struct str line, const char *name, unsigned at, enum section *sec,
    struct err *err)
{
	struct turn *t;
	struct buf *to;

	if (str_has_prefix(line, "## "))
		return header_take(s, line, name, at, sec, err);
	if (*sec == SECTION_NONE)
		return 0; /* title and remarks before the first section */
	if (str_has_prefix(line, "\\## ")) {
		line.p++;
		line.n--;
	}
	t = &s->turns[s->n - 1];
	to = *sec == SECTION_CALL ? &t->code : &t->words;
	buf_put_str(to, line);
	buf_put_c(to, '\n');
	return 0;
}

int
model_script_parse(struct str text, const char *name, struct model **ret, struct err *err)
{
	AUTO(model) struct model *m = NULL;
	struct script *s = xcalloc(1, sizeof(*s));
	enum section sec = SECTION_NONE;
	unsigned at = 0;

	s->model = (struct model){.name = "script", .next = script_next, .free = script_free};
	m = &s->model;
	if (text.n > SCRIPT_BYTES_MAX)
		return err_set(
		    err, ERR_TOO_LARGE, "%s: %zu bytes, limit %zu", name, text.n, SCRIPT_BYTES_MAX);
	if (!str_is_utf8(text) || (text.n != 0 && memchr(text.p, '\0', text.n) != NULL))
		return err_set(err, ERR_SYNTAX, "%s: not UTF-8 text", name);
	while (text.n != 0) {
		struct str line;
		int rc;

		if (!str_cut(&text, '\n', &line)) {
			line = text;
			text = STR_NONE;
		}
		if ((rc = line_take(s, line, name, ++at, &sec, err)) != 0)
			return rc;
	}
	if (s->n == 0)
		return err_set(err, ERR_SYNTAX, "%s: no section (\"## say\" ...)", name);
	*ret = TAKE_PTR(m);
	return 0;
}

int
model_script_open(const char *path, struct model **ret, struct err *err)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	AUTO_BUF struct buf b = BUF(SCRIPT_BYTES_MAX + 1);
	struct stat st;
	ssize_t k = 0;

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(err, ERR_NOT_FOUND, errno, "script %s", path);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > SCRIPT_BYTES_MAX)
		return err_set(err, ERR_TOO_LARGE, "script %s: not a file of at most %zu bytes",
		    path, SCRIPT_BYTES_MAX);
	do {
		uint8_t room[8192];

		k = read(fd, room, sizeof(room));
		if (k < 0)
			return err_sys(err, ERR_SYSTEM, errno, "script %s", path);
		buf_put(&b, room, (size_t)k);
	} while (k > 0);
	return model_script_parse(buf_str(&b), path, ret, err);
}
