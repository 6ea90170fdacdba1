/* Which part cofferdam-inside is this time. Runs inside; its arguments come from the caller. */
#include "agent/sandbox/inside_part.h"

#include "common/banned.h"

static const struct {
	const char *name;
	int args; /* behind the name */
	int (*run)(char **argv, struct err *err);
} parts[] = {
    {"read", 2, inside_read},
    {"list", 2, inside_list},
    {"stat", 1, inside_stat},
    {"write", 2, inside_write},
    {"mkdir", 1, inside_mkdir},
    {"rename", 2, inside_rename},
    {"remove", 2, inside_remove},
    {"watch", 2, inside_watch},
    {"snapshot", 1, inside_snapshot},
    {"restore", 1, inside_restore},
    {"nothing", 0, NULL},
};

static int
part_run(int argc, char **argv, struct err *err)
{
	for (size_t i = 0; argc > 0 && i < ARRAY_LEN(parts); i++) {
		if (strcmp(parts[i].name, argv[0]) != 0)
			continue;
		if (argc != parts[i].args + 1)
			return err_set(err, ERR_INVALID,
			    "cofferdam-inside %s: %d arguments, not %d", argv[0], parts[i].args,
			    argc - 1);
		return parts[i].run != NULL ? parts[i].run(argv, err) : 0;
	}
	return err_set(err, ERR_INVALID, "cofferdam-inside: no part %s", argc > 0 ? argv[0] : "");
}

int
inside_part(int argc, char **argv)
{
	AUTO_BUF struct buf b = BUF(FRAME_BODY_MAX);
	struct err err = {0}, ignored;

	if (part_run(argc, argv, &err) == 0 && inside_end(&err) == 0)
		return 0;
	buf_u32(&b, (uint32_t)-err.code);
	buf_lz(&b, err.msg);
	(void)inside_put(FRAME_ERROR, buf_str(&b), &ignored);
	return 1;
}
