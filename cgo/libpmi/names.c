/* The name service, and programs started by programs. */
#include "client.h"

#include <string.h>

enum { port_room = 1024 };	/* of what PMI_Lookup_name fills */

/* word says whether a text may stand in a line as one word. */
static bool word(const char *text)
{
	return text && *text && !strpbrk(text, " \t\r\n");
}

API int PMI_Publish_name(const char service[], const char port[])
{
	char *line;
	if (client.state != joined)
		return client.state == alone ? PMI_FAIL : PMI_ERR_INIT;
	if (!word(service) || !word(port))
		return PMI_ERR_INVALID_ARG;
	return ask("publish_result", &line, "cmd=publish_name service=%s port=%s\n", service, port);
}

API int PMI_Unpublish_name(const char service[])
{
	char *line;
	if (client.state != joined)
		return client.state == alone ? PMI_FAIL : PMI_ERR_INIT;
	if (!word(service))
		return PMI_ERR_INVALID_ARG;
	return ask("unpublish_result", &line, "cmd=unpublish_name service=%s\n", service);
}

API int PMI_Lookup_name(const char service[], char port[])
{
	char *line, *found;
	size_t n;
	if (client.state != joined)
		return client.state == alone ? PMI_FAIL : PMI_ERR_INIT;
	if (!word(service) || !port)
		return PMI_ERR_INVALID_ARG;
	int err = ask("lookup_result", &line, "cmd=lookup_name service=%s\n", service);
	if (err)
		return err;
	found = field(line, "port", &n);
	return found ? copy(port, port_room, found, n) : PMI_FAIL;
}

/* named adds the line name=text of a spawn; what has a line's end in it cannot be said. */
LIKE_PRINTF(2, 3) static bool named(const char *text, const char *format, ...)
{
	va_list args;
	if (!text || strchr(text, '\n'))
		return false;
	va_start(args, format);
	say_list(format, args);
	va_end(args);
	say("=%s\n", text);
	return true;
}

/* pairs adds keys and values, numbered from 0. */
static bool pairs(const char *kind, int count, const PMI_keyval_t *of)
{
	for (int i = 0; i < count; i++)
		if (!named(of[i].key, "%s_key_%d", kind, i) || !named(of[i].val, "%s_val_%d", kind, i))
			return false;
	return true;
}

API int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
			   const int info_keyval_sizes[], const PMI_keyval_t *info_keyval_vectors[],
			   int preput_keyval_size, const PMI_keyval_t preput_keyval_vector[], int errors[])
{
	char *line;
	bool good = count > 0 && cmds && maxprocs && preput_keyval_size >= 0 && (!preput_keyval_size || preput_keyval_vector);
	if (client.state != joined)
		return client.state == alone ? PMI_FAIL : PMI_ERR_INIT;
	for (int i = 0; good && i < count; i++) {
		int args = 0, preput = i ? 0 : preput_keyval_size, hints = info_keyval_sizes && info_keyval_vectors ? info_keyval_sizes[i] : 0;
		say("mcmd=spawn\nnprocs=%d\n", maxprocs[i]);
		good = named(cmds[i], "execname");
		say("totspawns=%d\nspawnssofar=%d\n", count, i + 1);
		for (; good && argvs && argvs[i] && argvs[i][args]; args++)
			good = named(argvs[i][args], "arg%d", args + 1);
		say("argcnt=%d\npreput_num=%d\n", args, preput);
		good = good && pairs("preput", preput, preput_keyval_vector);
		say("info_num=%d\n", hints);
		good = good && pairs("info", hints, hints > 0 ? info_keyval_vectors[i] : NULL);
		say("endcmd\n");
	}
	if (!good) {
		unsay();
		return PMI_ERR_INVALID_ARG;
	}
	int err = ask("spawn_result", &line, "%s", "");
	for (int i = 0; errors && i < count; i++)
		errors[i] = err;
	return err;
}
