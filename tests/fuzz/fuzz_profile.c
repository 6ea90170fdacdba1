/* Fuzzes the reader of profiles: it does not crash, and what it takes holds to its own rules. */
#include <assert.h>
#include <string.h>

#include "agent/profile.h"
#include "agent/profile_check.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(profile) struct profile *p = NULL;
	struct err e = {0};

	if (profile_parse(str_mem(data, size), "f", &p, &e) != 0) {
		assert(e.msg[0] != '\0');
		return 0;
	}
	assert(profile_check_name(str_z(p->name)));
	for (size_t i = 0; i < p->nvars; i++)
		assert(profile_check_variable(str_z(p->vars[i].name), str_z(p->vars[i].text)) ==
			   NULL &&
		       profile_check_text(str_z(p->vars[i].text)) == NULL);
	for (size_t i = 0; i < p->nfiles; i++)
		assert(profile_check_path(str_z(p->files[i].name)) &&
		       profile_check_text(str_z(p->files[i].text)) == NULL);
	return 0;
}
