/*
 * The network: a folder. In it, s<n> is the socket of an open device, d<guid>
 * the folder of a device with a link q<qpn> to the socket that has the queue
 * pair, l<lid> and g<type>-<gid> are links to the device's folder. So the kernel
 * routes: a packet to a LID and number is sent to l<lid>/q<number>. What
 * nobody has is lost.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fake.h"

/* By way of the descriptor, since a socket's path has room for 107 bytes. */
static struct sockaddr_un address(int folder, const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/%s", folder, path);
	return a;
}

void hex(char *out, const union ibv_gid *gid)
{
	for (int i = 0; i < 16; i++)
		sprintf(out + 2 * i, "%02x", gid->raw[i]);
}

bool chance(struct context *c, int percent)
{
	if (percent <= 0)
		return false;
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	c->random ^= c->random << 17;
	return (c->random >> 11) % 100 < (uint64_t)percent;
}

void net_knock(struct context *c)
{
	pthread_mutex_lock(&c->arrival_lock);
	c->knocked = true;
	pthread_cond_signal(&c->knock);
	pthread_mutex_unlock(&c->arrival_lock);
}

static void throw(struct context *c, const char *path, const struct packet *p, const void *payload)
{
	struct sockaddr_un to = address(c->net, path);
	struct iovec parts[2] = {{(void *)p, sizeof *p}, {(void *)payload, p->size}};
	struct msghdr m = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = parts, .msg_iovlen = p->size ? 2 : 1};
	(void)!sendmsg(c->socket, &m, MSG_NOSIGNAL); /* nobody there: lost */
}

static void throw_held(struct context *c)
{
	struct incoming *h = c->held;
	c->held = NULL;
	throw(c, c->held_path, &h->packet, h->payload);
	free(h);
}

/* What a UD network may do to a datagram. */
static void throw_badly(struct context *c, const char *path, struct packet *p, const void *payload)
{
	if (chance(c, settings.lose)) {
		c->counts.lost++;
		return;
	}
	if (!c->held && chance(c, settings.swap)) {
		c->held = calloc(1, sizeof *c->held);
		c->held->packet = *p;
		memcpy(c->held->payload, payload, p->size);
		snprintf(c->held_path, sizeof c->held_path, "%s", path);
		c->held_until = now() + 5000000;
		c->counts.swapped++;
		net_knock(c);
		return;
	}
	throw(c, path, p, payload);
	if (chance(c, settings.twice)) {
		c->counts.twice++;
		throw(c, path, p, payload);
	}
	if (c->held)
		throw_held(c);
}

void net_send(struct context *c, const struct ibv_ah_attr *way, struct packet *p, const void *payload)
{
	struct port *port = port_of(c, way->port_num);
	char path[96], digits[33];
	if (port->state != IBV_PORT_ACTIVE || c->dead)
		return;
	p->magic = MAGIC;
	p->dlid = way->dlid;
	p->slid = port->lid ? port->lid | (way->src_path_bits & ((1 << port->lmc) - 1)) : 0;
	if (p->kind != RC_NAK)
		p->sl = way->sl;
	if (way->is_global) {
		p->flags |= GLOBAL;
		p->sgid = port->gid[way->grh.sgid_index].addr;
		p->gid_type = port->gid[way->grh.sgid_index].type;
		p->dgid = way->grh.dgid;
	}
	if (port->link == IBV_LINK_LAYER_ETHERNET) {
		hex(digits, &p->dgid);
		snprintf(path, sizeof path, "g%d-%s/q%u", p->gid_type, digits, p->to);
	} else {
		snprintf(path, sizeof path, "l%u/q%u", p->dlid, p->to);
	}
	if (p->kind == UD_SEND)
		throw_badly(c, path, p, payload);
	else
		throw(c, path, p, payload);
}

/* The port a packet was sent to; NULL if it is not there or not active. */
static struct port *port_reached(struct context *c, const struct packet *p)
{
	for (int i = 0; i < c->device->ports; i++) {
		struct port *port = &c->ports[i];
		bool mine = port->link != IBV_LINK_LAYER_ETHERNET && p->dlid >= port->lid && p->dlid < port->lid + (1 << port->lmc);
		if (mine && !(p->flags & GLOBAL))
			return port->state == IBV_PORT_ACTIVE ? port : NULL;
		for (int g = 0; p->flags & GLOBAL && g < port->gids; g++)
			if (port->gid[g].type == p->gid_type && !memcmp(port->gid[g].addr.raw, p->dgid.raw, 16) &&
			    (mine || port->link == IBV_LINK_LAYER_ETHERNET))
				return port->state == IBV_PORT_ACTIVE ? port : NULL;
	}
	return NULL;
}

static void command(struct context *c, char *words)
{
	char answer[512] = "", *reply = strsep(&words, " ");
	control(c, words ? words : "", answer, sizeof answer);
	struct sockaddr_un to = address(c->net, reply);
	(void)!sendto(c->socket, answer, strlen(answer), MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof to);
}

static void act(struct context *c, struct incoming *in)
{
	if (in->words) {
		command(c, (char *)in->payload);
		return;
	}
	struct qp *qp = find_qp(c, in->packet.to);
	struct port *port = port_reached(c, &in->packet);
	bool ud = in->packet.kind == UD_SEND;
	if (c->dead || !qp || !port || port != port_of(c, qp->attr.port_num) || ud != (qp->ibv.qp_type == IBV_QPT_UD)) {
		c->counts.dropped++;
		return;
	}
	if (ud)
		ud_arrived(c, qp, in);
	else
		rc_arrived(c, qp, in);
}

static void wait_until(struct context *c, uint64_t t)
{
	struct timespec at = {.tv_sec = t / 1000000000, .tv_nsec = t % 1000000000};
	pthread_mutex_lock(&c->arrival_lock);
	while (!c->arrived && !c->knocked && (t == 0 || now() < t))
		if (t)
			pthread_cond_timedwait(&c->knock, &c->arrival_lock, &at);
		else
			pthread_cond_wait(&c->knock, &c->arrival_lock);
	c->knocked = false;
	pthread_mutex_unlock(&c->arrival_lock);
}

static void *work(void *arg)
{
	struct context *c = arg;
	pthread_mutex_lock(&world);
	while (!c->ending) {
		pthread_mutex_lock(&c->arrival_lock);
		struct incoming *in = c->arrived;
		c->arrived = NULL;
		c->arrived_last = &c->arrived;
		pthread_mutex_unlock(&c->arrival_lock);
		while (in) {
			struct incoming *next = in->next;
			act(c, in);
			free(in);
			in = next;
		}
		uint64_t t = now(), first = 0;
		if (c->held && t >= c->held_until)
			throw_held(c);
		if (c->held)
			first = c->held_until;
		for (struct qp *qp = c->qps; qp; qp = qp->next) {
			uint64_t d = rc_timers(qp, t);
			if (d && (!first || d < first))
				first = d;
		}
		pthread_mutex_unlock(&world);
		wait_until(c, first);
		pthread_mutex_lock(&world);
	}
	pthread_mutex_unlock(&world);
	return NULL;
}

static void *empty(void *arg)
{
	struct context *c = arg;
	for (;;) {
		struct incoming *in = calloc(1, sizeof *in);
		struct iovec parts[2] = {{&in->packet, sizeof in->packet}, {in->payload, sizeof in->payload}};
		struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
		ssize_t n = recvmsg(c->socket, &m, 0);
		char *text = (char *)&in->packet;
		if (n > 0 && text[0] == '!') {
			size_t size = n - 1 < (ssize_t)sizeof in->packet - 1 ? (size_t)n - 1 : sizeof in->packet - 1;
			in->words = true;
			memcpy(in->payload, text + 1, size);
			in->payload[size] = 0;
		} else if (n < (ssize_t)sizeof in->packet || in->packet.magic != MAGIC) {
			free(in);
			if (n == 1) /* of net_close */
				return NULL;
			continue;
		}
		pthread_mutex_lock(&c->arrival_lock);
		*c->arrived_last = in;
		c->arrived_last = &in->next;
		pthread_cond_signal(&c->knock);
		pthread_mutex_unlock(&c->arrival_lock);
	}
}

/* Makes the device's folder and the links of its ports' addresses. */
static int settle_device(struct context *c)
{
	char name[64], link[64], digits[33];
	snprintf(name, sizeof name, "d%016llx", (unsigned long long)c->device->guid);
	if (mkdirat(c->net, name, 0777) && errno != EEXIST)
		return errno;
	c->folder = openat(c->net, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->folder < 0)
		return errno;
	for (int i = 0; i < c->device->ports; i++) {
		struct port *p = &c->ports[i];
		for (int l = 0; p->lid && l < 1 << p->lmc; l++) {
			snprintf(link, sizeof link, "l%d", p->lid + l);
			(void)!symlinkat(name, c->net, link);
		}
		for (int g = 0; g < p->gids; g++) {
			hex(digits, &p->gid[g].addr);
			snprintf(link, sizeof link, "g%d-%s", p->gid[g].type, digits);
			(void)!symlinkat(name, c->net, link);
		}
	}
	return 0;
}

int net_open(struct context *c)
{
	c->net = open(settings.net, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->net < 0)
		return errno;
	int rc = settle_device(c);
	if (rc)
		return rc;
	c->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct timeval patience = {.tv_usec = 500000};
	setsockopt(c->socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* a peer that is stopped */
	for (int i = 0;; i++) {
		snprintf(c->name, sizeof c->name, "s%d", i);
		struct sockaddr_un a = address(c->net, c->name);
		if (!bind(c->socket, (struct sockaddr *)&a, sizeof a))
			break;
		if (errno != EADDRINUSE)
			return errno;
	}
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&c->knock, &monotonic);
	pthread_mutex_init(&c->arrival_lock, NULL);
	c->arrived_last = &c->arrived;
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's */
	rc = pthread_create(&c->reader, NULL, empty, c);
	if (!rc)
		rc = pthread_create(&c->worker, NULL, work, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

void net_close(struct context *c)
{
	struct sockaddr_un self = address(c->net, c->name);
	pthread_mutex_lock(&world);
	c->ending = true;
	pthread_mutex_unlock(&world);
	net_knock(c);
	pthread_join(c->worker, NULL);
	(void)!sendto(c->socket, "", 1, 0, (struct sockaddr *)&self, sizeof self);
	pthread_join(c->reader, NULL);
	unlinkat(c->net, c->name, 0);
	for (struct incoming *in = c->arrived, *next; in; in = next) {
		next = in->next;
		free(in);
	}
	free(c->held);
	close(c->socket);
	close(c->folder);
	close(c->net);
}

/* Whether the process that has a queue pair's number is gone: after kill -9 the link stays. */
static bool stale(struct context *c, const char *name)
{
	struct sockaddr_un a = address(c->folder, name);
	int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool gone = connect(s, (struct sockaddr *)&a, sizeof a) && (errno == ECONNREFUSED || errno == ENOENT);
	close(s);
	return gone;
}

/* Numbers go up from one opening of a device to the next, as those of real devices do. */
static uint32_t last_qpn;

int net_claim(struct context *c, uint32_t *qpn)
{
	char name[16], target[32];
	snprintf(target, sizeof target, "../%s", c->name);
	int rc = 0;
	flock(c->folder, LOCK_EX);
	if (!settings.qpn && c->next_qpn < last_qpn)
		c->next_qpn = last_qpn;
	for (;;) {
		*qpn = c->next_qpn++ & 0xffffff;
		snprintf(name, sizeof name, "q%u", *qpn);
		if (!symlinkat(target, c->folder, name))
			break;
		if (errno == EEXIST && stale(c, name)) {
			unlinkat(c->folder, name, 0);
			c->next_qpn--;
		} else if (errno != EEXIST) {
			rc = errno;
			break;
		}
	}
	last_qpn = c->next_qpn;
	flock(c->folder, LOCK_UN);
	return rc;
}

void net_release(struct context *c, uint32_t qpn)
{
	char name[16];
	snprintf(name, sizeof name, "q%u", qpn);
	unlinkat(c->folder, name, 0);
}
