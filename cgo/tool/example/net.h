/* What the processes of the tree have in common: who is whose parent, and TCP. */
#ifndef TREE_NET_H
#define TREE_NET_H

#include <stdint.h>

/* The topology. Communication process i is the child of (i - 1) / fanout, and 0 that of the front end. Back ends are
 * dealt to the communication processes in turn. */
struct topology {
	uint32_t fanout, comms, backs;
	char front[64]; /* address of the front end */
	uint32_t front_port;
};

/* children counts what a communication process waits for. */
unsigned children(const struct topology *t, unsigned comm);

int listen_anywhere(uint32_t *port);			/* on each address; a port of the kernel's choice */
int connect_to(const char *host, uint32_t port);
void address_towards(const char *host, char *to, unsigned room);	/* by which a host sees us */
int read_number(int fd, uint32_t *n);
int write_number(int fd, uint32_t n);

#endif
