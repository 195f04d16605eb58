/* The environment variable FAKEVERBS, and the log. */
#include <fcntl.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

struct settings settings;

void hex_gid(struct gid *g, const char *text)
{
	memset(g, 0, sizeof *g);
	if (*text == '-') {
		g->type = -1;
		return;
	}
	g->type = *text - '0'; /* TYPE:32 hexadecimal digits */
	for (int i = 0; i < 16; i++) {
		unsigned byte = 0;
		sscanf(text + 2 + 2 * i, "%2x", &byte);
		g->addr.raw[i] = byte;
	}
}

/* One word of a device: dev=NAME begins it, port=N begins a port of it. */
static bool device_word(struct device **d, struct port **p, const char *key, const char *value)
{
	if (!strcmp(key, "dev") && settings.devices < MOST_DEVICES) {
		*d = &settings.device[settings.devices++];
		*p = NULL;
		(*d)->guid = 0x02feed0000000000 + settings.devices;
		(*d)->ibv.node_type = IBV_NODE_CA;
		(*d)->ibv.transport_type = IBV_TRANSPORT_IB;
		snprintf((*d)->ibv.name, sizeof (*d)->ibv.name, "%s", value);
		return true;
	}
	if (!*d)
		return false;
	if (!strcmp(key, "guid")) {
		(*d)->guid = strtoull(value, NULL, 16);
		return true;
	}
	if (!strcmp(key, "port") && (*d)->ports < MOST_PORTS) {
		*p = &(*d)->port[(*d)->ports++];
		**p = (struct port){.link = IBV_LINK_LAYER_INFINIBAND, .state = IBV_PORT_ACTIVE, .mtu = IBV_MTU_4096};
		return true;
	}
	if (!*p)
		return false;
	long n = strtol(value, NULL, 0);
	if (!strcmp(key, "lid"))
		(*p)->lid = n;
	else if (!strcmp(key, "sm"))
		(*p)->sm_lid = n;
	else if (!strcmp(key, "lmc"))
		(*p)->lmc = n;
	else if (!strcmp(key, "link"))
		(*p)->link = n;
	else if (!strcmp(key, "state"))
		(*p)->state = n;
	else if (!strcmp(key, "mtu"))
		(*p)->mtu = n;
	else if (!strcmp(key, "gid") && (*p)->gids < MOST_GIDS)
		hex_gid(&(*p)->gid[(*p)->gids++], value);
	else if (!strcmp(key, "pkey") && (*p)->pkeys < MOST_PKEYS)
		(*p)->pkey[(*p)->pkeys++] = n;
	else
		return false;
	return true;
}

static bool setting(const char *key, const char *value)
{
	long n = strtol(value, NULL, 0);
	if (!strcmp(key, "net"))
		snprintf(settings.net, sizeof settings.net, "%s", value);
	else if (!strcmp(key, "log"))
		snprintf(settings.log, sizeof settings.log, "%s", value);
	else if (!strcmp(key, "seed"))
		settings.seed = n;
	else if (!strcmp(key, "lose"))
		settings.lose = n;
	else if (!strcmp(key, "double"))
		settings.twice = n;
	else if (!strcmp(key, "swap"))
		settings.swap = n;
	else if (!strcmp(key, "rclose"))
		settings.rc_lose = n;
	else if (!strcmp(key, "maxqp"))
		settings.max_qp = n;
	else if (!strcmp(key, "memlock"))
		settings.memlock = n;
	else if (!strcmp(key, "open"))
		settings.open_errno = n;
	else if (!strcmp(key, "qpn"))
		settings.qpn = n;
	else
		return false;
	return true;
}

void read_settings(void)
{
	const char *text = getenv("FAKEVERBS");
	char *all = strdup(text ? text : ""), *rest = NULL;
	struct device *d = NULL;
	struct port *p = NULL;
	memset(&settings, 0, sizeof settings);
	settings.max_qp = 1 << 16;
	for (char *word = strtok_r(all, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		char *value = strchr(word, '=');
		if (value)
			*value++ = 0;
		if (!value || (!setting(word, value) && !device_word(&d, &p, word, value))) {
			fprintf(stderr, "fakeverbs: FAKEVERBS has a word that nobody knows: %s\n", word);
			abort();
		}
	}
	free(all);
}

uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

void note(const char *format, ...)
{
	char line[1024];
	va_list args;
	if (!*settings.log)
		return;
	va_start(args, format);
	int n = vsnprintf(line, sizeof line - 1, format, args);
	va_end(args);
	line[n++] = '\n';
	int fd = open(settings.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd >= 0 && write(fd, line, n) < 0)
		perror("fakeverbs: log");
	if (fd >= 0)
		close(fd);
}
