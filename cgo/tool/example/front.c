/* tree-front FANOUT NODE COMM-HOSTS BACK-HOSTS PROGRAM [ARGUMENTS]: see README.md. Hosts are lists with commas. */
#include "ibrun_tool.h"
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { hosts_most = 4096, patience = 120000 }; /* ms */

static void need(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "tree-front: %s: %s\n", what, ib_error());
	exit(1);
}

/* split makes a request of a list of hosts: one member on each. */
static unsigned split(char *list, struct ib_on *on)
{
	unsigned n = 0;
	for (char *host = strtok(list, ","); host && n < hosts_most; host = strtok(NULL, ","))
		on[n++] = (struct ib_on){host, 1};
	return n;
}

/* hand_out sends a session the topology, and the host of each communication process with a NUL behind it. */
static void hand_out(ib_session *s, const struct topology *t, ib_session *comms)
{
	char **list, *text = NULL;
	unsigned n;
	size_t size = 0;
	ib_hosts(comms, &list, &n);
	for (unsigned i = 0; i < n; i++) {
		size_t more = strlen(list[i]) + 1;
		text = realloc(text, size + more);
		memcpy(text + size, list[i], more);
		size += more;
	}
	need(ib_send(s, t, sizeof *t) || ib_send(s, text, size), "cannot hand out the topology");
	free(text);
}

/* expect takes a message of a given size. */
static void *expect(ib_session *s, size_t size, const char *what)
{
	void *buf;
	size_t n;
	need(ib_recv(s, &buf, &n, patience), what);
	if (n != size) {
		fprintf(stderr, "tree-front: %s: %zu bytes, not %zu\n", what, n, size);
		exit(1);
	}
	return buf;
}

static ib_tool *launch(const char *comms, const char *backs, unsigned rank_hosts, char **program)
{
	char hosts[hosts_most], number[16], *argv[64];
	int n = 0;
	ib_tool *t;
	/* The job is on all hosts, since members are; its ranks are where the back ends are. So those come first. */
	snprintf(hosts, sizeof hosts, "%s,%s", backs, comms);
	snprintf(number, sizeof number, "%u", rank_hosts);
	char *fixed[] = {"--hosts", hosts, "--ppn", "1", "--bind-to", "none", "--", NULL};
	for (char **a = fixed; *a; a++)
		argv[n++] = *a;
	for (char **a = program; *a && n < 63; a++)
		argv[n++] = *a;
	argv[n] = NULL;
	need(ib_launch(&t, argv, ib_then_end), "cannot launch the program");
	return t;
}

int main(int argc, char **argv)
{
	static struct ib_on comm_on[hosts_most], back_on[hosts_most];
	struct topology topology = {0};
	if (argc < 6) {
		fprintf(stderr, "usage: tree-front FANOUT NODE COMM-HOSTS BACK-HOSTS PROGRAM [ARGUMENTS]\n");
		return 2;
	}
	char *all_comms = strdup(argv[3]), *all_backs = strdup(argv[4]);
	topology.fanout = (uint32_t)atoi(argv[1]);
	topology.comms = split(argv[3], comm_on);
	topology.backs = split(argv[4], back_on);
	if (!topology.fanout || !topology.comms || !topology.backs) {
		fprintf(stderr, "tree-front: a fan-out of 1 at least, and hosts for both\n");
		return 2;
	}
	ib_tool *t = launch(all_comms, all_backs, topology.backs, argv + 5);

	ib_session *comms, *backs;
	char *as_comm[] = {argv[2], "comm", NULL}, *as_back[] = {argv[2], "back", NULL};
	need(ib_spawn(t, &comms, comm_on, topology.comms, as_comm, NULL), "cannot start communication processes");
	need(ib_spawn(t, &backs, back_on, topology.backs, as_back, NULL), "cannot start back ends");

	int listener = listen_anywhere(&topology.front_port);
	address_towards(comm_on[0].host, topology.front, sizeof topology.front);
	hand_out(comms, &topology, comms);
	hand_out(backs, &topology, comms);
	size_t size = topology.comms * sizeof(uint32_t);
	void *ports = expect(comms, size, "the ports do not come");
	need(ib_send(comms, ports, size) || ib_send(backs, ports, size), "cannot hand out the ports");
	free(ports);
	free(expect(comms, 1, "the communication processes are not connected"));
	free(expect(backs, 1, "the back ends are not connected"));

	const struct ib_process *table;
	unsigned ranks;
	uint32_t counted;
	need(ib_proctable(t, &table, &ranks), "no table of processes");
	unsigned below = 0;
	for (unsigned i = 0; i < ranks; i++)
		for (unsigned k = 0; k < topology.backs; k++)
			below += !strcmp(table[i].host, back_on[k].host);
	int root = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (root < 0 || read_number(root, &counted)) {
		fprintf(stderr, "tree-front: the root of the tree is gone\n");
		return 1;
	}
	printf("%u processes in the tree; ranks below it: %u of %u\n", topology.comms + topology.backs, counted, below);
	fflush(stdout); /* before the program prints */
	close(root);
	close(listener);
	int code[2];
	need(ib_wait(comms, code) || ib_wait(backs, code + 1), "the tree does not end");
	need(ib_release(t), "the program is not released");
	ib_close(t);
	free(all_comms);
	free(all_backs);
	return counted == below && !code[0] && !code[1] ? 0 : 1;
}
