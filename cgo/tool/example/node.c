/* tree-node comm | back: a process of the tree (README.md). */
#include "ibrun_tool.h"
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { patience = 120000 }; /* ms */

static void need(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "tree-node: %s: %s\n", what, ib_error());
	exit(1);
}

/* receive gives all members what the front end has sent to member 0: its size first, since only that one knows it. */
static void *receive(size_t *size)
{
	void *buf = NULL;
	*size = 0;
	if (ib_rank() == 0)
		need(ib_recv(NULL, &buf, size, patience), "the front end is silent");
	need(ib_bcast(size, sizeof *size), "cannot share a size");
	if (ib_rank() != 0)
		buf = malloc(*size + 1);
	need(ib_bcast(buf, *size), "cannot share a message");
	return buf;
}

static const char *nth(const char *hosts, unsigned n)
{
	while (n--)
		hosts += strlen(hosts) + 1;
	return hosts;
}

/* share_ports lets the front end know where each communication process listens. */
static int share_ports(uint32_t *port)
{
	int fd = listen_anywhere(port);
	uint32_t *all = ib_rank() == 0 ? calloc((size_t)ib_size(), sizeof *all) : NULL;
	need(fd < 0 || ib_gather(port, sizeof *port, all), "cannot gather ports");
	if (ib_rank() == 0)
		need(ib_send(NULL, all, (size_t)ib_size() * sizeof *all), "cannot send the ports");
	free(all);
	return fd;
}

int main(int argc, char **argv)
{
	size_t size;
	uint32_t port, sum = 0;
	int listener = -1, up;
	need(ib_init(&argc, &argv), "not started by tree-front");
	int is_comm = argc > 1 && !strcmp(argv[1], "comm");
	unsigned me = (unsigned)ib_rank();
	struct topology *t = receive(&size);
	char *hosts = receive(&size);
	if (is_comm)
		listener = share_ports(&port);
	uint32_t *ports = receive(&size);
	unsigned parent = is_comm ? (me - 1) / t->fanout : me % t->comms;
	if (is_comm && me == 0)
		up = connect_to(t->front, t->front_port);
	else
		up = connect_to(nth(hosts, parent), ports[parent]);
	if (up < 0) {
		fprintf(stderr, "tree-node: no connection to the parent of %s %u\n", argv[1], me);
		return 1;
	}
	need(ib_barrier(), "not all are connected");
	if (me == 0)
		need(ib_send(NULL, "a", 1), "cannot say that all are connected");

	const struct ib_process *ranks;
	unsigned count = 0;
	if (is_comm) {
		for (unsigned left = children(t, me); left; left--) {
			uint32_t n = 0;
			int child = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
			if (child < 0 || read_number(child, &n))
				return 1;
			sum += n;
			close(child);
		}
		close(listener);
	} else {
		need(ib_local_proctable(&ranks, &count), "no table of ranks");
		sum = count;
	}
	int err = write_number(up, sum);
	close(up);
	need(ib_finalize(), "cannot leave");
	free(t);
	free(hosts);
	free(ports);
	return err ? 1 : 0;
}
