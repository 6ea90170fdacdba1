/*
 * A profile becomes variables and files of one sandbox (process: cofferdam-agent). Whatever it
 * says, the plan decides what there is: places come from the broker, and of a key there is nothing
 * but the run's placeholder.
 */
#include "agent/profile_use.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/xalloc.h"
#include "agent/agent_env.h"

#include "common/banned.h"

#define KEY_END 20 /* by so many Claude Code knows a key that it was told to use */

/* --- templates ------------------------------------------------------------------- */

static bool
is_asked(const struct profile_use *u, const char *target)
{
	for (size_t i = 0; i < u->ntargets; i++)
		if (strcmp(u->targets[i], target) == 0)
			return true;
	return false;
}

/* NULL: the run has none that speaks so. */
static const struct broker_model *
model_of(const struct profile_use *u, const struct broker_plan *p, enum profile_provider provider)
{
	const struct broker_model *first = NULL;

	for (size_t i = 0; i < p->nmodels; i++) {
		const struct broker_model *m = &p->models[i];

		if (strcmp(m->provider, profile_provider_name(provider)) != 0)
			continue;
		if (is_asked(u, m->target))
			return m;
		if (first == NULL)
			first = m;
	}
	return first;
}

/* A target without a credential needs none; clients want some key all the same. */
static const char *
key_of(const struct broker_model *m)
{
	return m->key[0] != '\0' ? m->key : "none";
}

static void
part_put(const struct broker_model *m, enum profile_part part, struct buf *out)
{
	const char *key = key_of(m), *host = strstr(m->url, "://");
	size_t n = strlen(key);

	switch (part) {
	case PROFILE_URL: buf_put_z(out, m->url); return;
	case PROFILE_HOST: buf_put_z(out, host != NULL ? host + 3 : m->url); return;
	case PROFILE_KEY: buf_put_z(out, key); return;
	case PROFILE_KEY_END: buf_put_z(out, n > KEY_END ? key + n - KEY_END : key); return;
	case PROFILE_PARTS: return;
	}
}

/* NULL: it names a provider that the run has not. */
static char *
filled(const struct profile_use *u, const struct broker_plan *p, const char *text)
{
	AUTO_BUF struct buf b = BUF(PROFILE_TEXT_MAX * 8);
	struct str s = str_z(text), before;
	enum profile_provider provider;
	enum profile_part part;
	int rc;

	while (profile_template_next(&s, &before, &provider, &part, &rc)) {
		const struct broker_model *m = model_of(u, p, provider);

		if (m == NULL)
			return NULL;
		buf_put_str(&b, before);
		part_put(m, part, &b);
	}
	buf_put_str(&b, before);
	return buf_dup_z(&b);
}

/* --- the run --------------------------------------------------------------------- */

int
profile_use_check(const struct profile_use *u, const struct broker_plan *p, struct err *err)
{
	AUTO_BUF struct buf names = BUF(256);

	for (size_t i = 0; i < PROFILE_PROVIDERS; i++) {
		if (!u->profile->speaks[i])
			continue;
		if (model_of(u, p, (enum profile_provider)i) != NULL)
			return 0;
		buf_printf(&names, "%s%s", names.n != 0 ? " or " : "",
		    profile_provider_name((enum profile_provider)i));
	}
	if (names.n == 0)
		return 0;
	return err_set(err, ERR_NOT_FOUND,
	    "profile %s needs a model, and this run has none for it: the policy must have an http "
	    "target with \"model\": %.*s and \"wrapped\": true (--no-profile runs the command "
	    "without)",
	    u->profile->name, STR_ARG(buf_str(&names)));
}

static bool
is_set(char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; env[i] != NULL; i++)
		if (strncmp(env[i], name, n) == 0 && env[i][n] == '=')
			return true;
	return false;
}

char **
profile_use_env(const struct profile_use *u, const struct broker_plan *p)
{
	AUTO(agent_env) char **plan = agent_env_make(p);
	char **env = xcalloc(u->profile->nvars + 2, sizeof(*env));
	size_t n = 0;

	env[n++] = xstrdup("HOME=" PROFILE_HOME);
	for (size_t i = 0; i < u->profile->nvars; i++) {
		const struct profile_item *v = &u->profile->vars[i];
		AUTO_FREE char *value = is_set(plan, v->name) ? NULL : filled(u, p, v->text);

		if (value != NULL)
			env[n++] = xasprintf("%s=%s", v->name, value);
	}
	return env;
}

static int
file_put(struct sandbox *sb, const char *path, struct str s, struct err *err)
{
	AUTO_FD int fd = memfd_create("profile", MFD_CLOEXEC);
	size_t size = s.n;

	while (fd >= 0 && s.n != 0) {
		ssize_t n = write(fd, s.p, s.n);

		if (n < 0 && errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "room for %s", path);
		if (n > 0)
			s = str_mem(s.p + n, s.n - (size_t)n);
	}
	if (fd < 0 || lseek(fd, 0, SEEK_SET) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "room for %s", path);
	return sandbox_file_write(sb, path, fd, size, 0600, err);
}

int
profile_use_files(
    const struct profile_use *u, const struct broker_plan *p, struct sandbox *sb, struct err *err)
{
	int rc = sandbox_file_mkdir(sb, PROFILE_HOME, err);

	for (size_t i = 0; rc == 0 && i < u->profile->nfiles; i++) {
		const struct profile_item *f = &u->profile->files[i];
		AUTO_FREE char *path = xasprintf("%s/%s", PROFILE_HOME, f->name);
		AUTO_FREE char *text = filled(u, p, f->text);

		if (text != NULL)
			rc = file_put(sb, path, str_z(text), err);
	}
	return rc == 0 ? 0 : err_wrap(err, "profile %s", u->profile->name);
}
