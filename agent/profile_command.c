/*
 * Shows profiles to a person (process: cofferdam-agent). Reads them with the reader that a run
 * uses, so that what is shown is what a run would do; starts nothing.
 */
#include "agent/profile_command.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "agent/profile_find.h"

#include "common/banned.h"

static int
help(void)
{
	AUTO_FREE char *own = profile_dir_own(), *installed = profile_dir_installed();

	(void)printf(
	    "usage: cofferdam profile list\n"
	    "       cofferdam profile show NAME\n"
	    "What `cofferdam run -- COMMAND` tells agents that people already use, so that "
	    "they find the broker where they expect their provider. A profile adds "
	    "variables and files inside the sandbox and nothing else.\n"
	    "Read from %s%s%s.\n",
	    own != NULL ? own : "", own != NULL ? ", then " : "", installed);
	return 0;
}

static void
models_print(const struct profile *p)
{
	const char *before = "";

	for (size_t i = 0; i < PROFILE_PROVIDERS; i++)
		if (p->speaks[i]) {
			(void)printf(
			    "%s%s", before, profile_provider_name((enum profile_provider)i));
			before = " or ";
		}
	(void)printf("%s\n", before[0] == '\0' ? "none" : "");
}

static int
list(void)
{
	AUTO_PROFILES struct profile_list l;

	profile_list_read(&l);
	for (size_t i = 0; i < l.n; i++)
		(void)printf(
		    "%-16s %s%s\n", l.v[i]->name, l.v[i]->about, l.v[i]->theirs ? " (yours)" : "");
	return l.broken != 0 ? 1 : 0;
}

static void
file_print(const struct profile_item *f)
{
	struct str s = str_z(f->text), line;

	(void)printf("file: " PROFILE_HOME "/%s\n", f->name);
	while (str_cut(&s, '\n', &line))
		(void)printf("  | %.*s\n", STR_ARG(line));
}

static int
show(const char *name)
{
	AUTO(profile) struct profile *p = NULL;
	struct err e = {0};

	if (profile_load(name, &p, &e) != 0) {
		log_error("%s", e.msg);
		return 1;
	}
	(void)printf("%s: %s\nread from: %s\ncommands:", p->name, p->about, p->path);
	for (size_t i = 0; i < p->ncommands; i++)
		(void)printf(" %s", p->commands[i]);
	(void)printf(
	    "%s\nmodel: ", p->ncommands == 0 ? " none: it is taken by --profile alone" : "");
	models_print(p);
	(void)printf("variables:\n  HOME=" PROFILE_HOME "\n");
	for (size_t i = 0; i < p->nvars; i++)
		(void)printf("  %s=%s\n", p->vars[i].name, p->vars[i].text);
	for (size_t i = 0; i < p->nfiles; i++)
		file_print(&p->files[i]);
	return 0;
}

int
profile_command(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "list") == 0)
		return list();
	if (argc == 3 && strcmp(argv[1], "show") == 0 && strcmp(argv[2], "--help") != 0)
		return show(argv[2]);
	if (argc >= 2 && strcmp(argv[argc - 1], "--help") == 0)
		return help();
	(void)fprintf(stderr, "usage: cofferdam profile list|show NAME\n");
	return 2;
}
