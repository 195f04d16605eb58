#include "net.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

unsigned children(const struct topology *t, unsigned comm)
{
	unsigned n = 0;
	for (unsigned i = 1; i < t->comms; i++)
		n += (i - 1) / t->fanout == comm;
	for (unsigned i = 0; i < t->backs; i++)
		n += i % t->comms == comm;
	return n;
}

int listen_anywhere(uint32_t *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
	socklen_t n = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 128) || getsockname(fd, (struct sockaddr *)&at, &n))
		return -1;
	*port = ntohs(at.sin_port);
	return fd;
}

/* dial makes a socket of a type that is connected to a port of a host. */
static int dial(const char *host, uint32_t port, int type)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = type}, *found;
	char text[16];
	int fd = -1;
	snprintf(text, sizeof text, "%u", port);
	if (getaddrinfo(host, text, &hints, &found))
		return -1;
	for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(found);
	return fd;
}

int connect_to(const char *host, uint32_t port)
{
	return dial(host, port, SOCK_STREAM);
}

void address_towards(const char *host, char *to, unsigned room)
{
	struct sockaddr_in at = {.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof at;
	int fd = dial(host, 9, SOCK_DGRAM); /* nothing is sent */
	if (fd >= 0) {
		getsockname(fd, (struct sockaddr *)&at, &n);
		close(fd);
	}
	inet_ntop(AF_INET, &at.sin_addr, to, room);
}

int read_number(int fd, uint32_t *n)
{
	uint8_t b[4];
	if (recv(fd, b, sizeof b, MSG_WAITALL) != sizeof b)
		return -1;
	*n = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
	return 0;
}

int write_number(int fd, uint32_t n)
{
	uint8_t b[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
	return send(fd, b, sizeof b, MSG_NOSIGNAL) == sizeof b ? 0 : -1;
}
