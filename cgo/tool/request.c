/* Requests to a job: lines of JSON in the making. */
#include "tool.h"

#include <stdio.h>

void request_verb(struct text *t, const char *verb)
{
	text_put(t, "{\"verb\":");
	text_string(t, verb);
}

void request_field(struct text *t, const char *name)
{
	text_put(t, ",");
	text_string(t, name);
	text_put(t, ":");
}

void request_number(struct text *t, const char *name, long n)
{
	char digits[24];
	snprintf(digits, sizeof digits, "%ld", n);
	request_field(t, name);
	text_put(t, digits);
}

void request_list(struct text *t, const char *name, char *const list[])
{
	request_field(t, name);
	text_put(t, "[");
	for (size_t i = 0; list[i]; i++) {
		text_put(t, i ? "," : "");
		text_string(t, list[i]);
	}
	text_put(t, "]");
}
