/* As much JSON as the control socket speaks (docs/control.md). What comes is one line, which is cut into values without
 * copies; what is no JSON is a value that is not there. */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *blank(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
		at++;
	return at;
}

/* skip is the end of the value at a place; NULL: there is none. */
static const char *skip(const char *at, const char *end)
{
	int depth = 0;
	for (bool quoted = false; at < end; at++) {
		if (quoted) {
			if (*at == '\\')
				at++;
			else if (*at == '"')
				quoted = false;
			if (!quoted && !depth)
				return at + 1;
			continue;
		}
		switch (*at) {
		case '"':
			quoted = true;
			break;
		case '{':
		case '[':
			depth++;
			break;
		case '}':
		case ']':
			if (!depth)
				return at;
			if (!--depth)
				return at + 1;
			break;
		case ',':
		case ':':
			if (!depth)
				return at;
		}
	}
	return depth ? NULL : end;
}

bool json_next(struct json *array, struct json *element)
{
	const char *at = blank(array->at, array->end);
	if (at < array->end && (*at == '[' || *at == ','))
		at = blank(at + 1, array->end);
	if (at >= array->end || *at == ']')
		return false;
	const char *end = skip(at, array->end);
	if (!end || end == at)
		return false;
	*element = (struct json){at, end};
	array->at = blank(end, array->end);
	return true;
}

bool json_get(struct json object, const char *name, struct json *value)
{
	const char *at = blank(object.at, object.end);
	size_t n = strlen(name);
	if (at == object.end || *at != '{')
		return false;
	for (at++;;) {
		at = blank(at, object.end);
		const char *end = at < object.end && *at == '"' ? skip(at, object.end) : NULL;
		if (!end)
			return false;
		const char *colon = blank(end, object.end);
		if (colon == object.end || *colon != ':')
			return false;
		const char *from = blank(colon + 1, object.end), *to = skip(from, object.end);
		if (!to || to == from)
			return false;
		if ((size_t)(end - at) == n + 2 && !memcmp(at + 1, name, n)) {
			*value = (struct json){from, to};
			return true;
		}
		at = blank(to, object.end);
		if (at == object.end || *at != ',')
			return false;
		at++;
	}
}

/* rune puts a character as UTF-8, and is how many bytes it took. */
static size_t rune(char *to, unsigned c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	to[0] = (char)(0xe0 | c >> 12);
	to[1] = (char)(0x80 | (c >> 6 & 0x3f));
	to[2] = (char)(0x80 | (c & 0x3f));
	return 3;
}

char *json_string(struct json v)
{
	if (v.end - v.at < 2 || *v.at != '"' || v.end[-1] != '"')
		return NULL;
	char *text = malloc((size_t)(v.end - v.at)), *to = text;
	if (!text)
		return NULL;
	for (const char *at = v.at + 1; at < v.end - 1; at++) {
		if (*at != '\\') {
			*to++ = *at;
			continue;
		}
		static const char letters[] = "bfnrt", means[] = "\b\f\n\r\t";
		if (++at == v.end - 1)
			break;
		const char *letter = strchr(letters, *at);
		if (*at == 'u' && v.end - 1 - at > 4) {
			char digits[5] = {at[1], at[2], at[3], at[4], 0};
			to += rune(to, (unsigned)strtoul(digits, NULL, 16));
			at += 4;
		} else {
			*to++ = letter ? means[letter - letters] : *at;
		}
	}
	*to = 0;
	return text;
}

long json_number(struct json v, long otherwise)
{
	char text[24], *end;
	size_t n = (size_t)(v.end - v.at);
	if (!n || n >= sizeof text)
		return otherwise;
	memcpy(text, v.at, n);
	text[n] = 0;
	long number = strtol(text, &end, 10);
	return *end ? otherwise : number;
}

bool json_true(struct json object, const char *name)
{
	struct json v;
	return json_get(object, name, &v) && v.end - v.at == 4 && !memcmp(v.at, "true", 4);
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

uint8_t *json_bytes(struct json v, size_t *n)
{
	uint8_t *bytes = malloc((size_t)(v.end - v.at) + 1);
	uint32_t bits = 0;
	int have = 0;
	*n = 0;
	if (!bytes || v.at == v.end || *v.at != '"')
		return bytes;
	for (const char *at = v.at + 1; at < v.end - 1 && *at != '='; at++) {
		const char *digit = memchr(digits, *at, 64);
		if (!digit)
			break;
		bits = bits << 6 | (uint32_t)(digit - digits);
		if ((have += 6) >= 8) {
			have -= 8;
			bytes[(*n)++] = (uint8_t)(bits >> have);
		}
	}
	return bytes;
}

static void put(struct text *t, const char *s, size_t n)
{
	if (t->used + n + 1 > t->room) {
		size_t room = 2 * (t->used + n) + 256;
		char *at = t->lost ? NULL : realloc(t->at, room);
		if (!at) {
			t->lost = true;
			return;
		}
		t->at = at;
		t->room = room;
	}
	memcpy(t->at + t->used, s, n);
	t->used += n;
	t->at[t->used] = 0;
}

void text_put(struct text *t, const char *s)
{
	put(t, s, strlen(s));
}

void text_string(struct text *t, const char *s)
{
	put(t, "\"", 1);
	for (; *s; s++) {
		char escaped[8];
		if (*s == '"' || *s == '\\' || (unsigned char)*s < ' ')
			put(t, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)*s));
		else
			put(t, s, 1);
	}
	put(t, "\"", 1);
}

void text_base64(struct text *t, const uint8_t *at, size_t n)
{
	put(t, "\"", 1);
	for (size_t i = 0; i < n; i += 3) {
		uint32_t bits = (uint32_t)at[i] << 16 | (uint32_t)(i + 1 < n ? at[i + 1] : 0) << 8 | (i + 2 < n ? at[i + 2] : 0);
		char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63], i + 1 < n ? digits[bits >> 6 & 63] : '=',
				i + 2 < n ? digits[bits & 63] : '='};
		put(t, four, 4);
	}
	put(t, "\"", 1);
}
