/* Tools beside a parallel job that ibrun runs: debuggers, samplers, trees of communication processes. A front end, any
 * process on the host on which ibrun was started, opens a job or launches one, and starts sessions in it: groups of
 * daemons on the job's nodes, over the job's own tree, with no new connection between nodes. The daemons are the
 * members of their session. They have ranks of their own, collectives, and data to and from the front end.
 *
 * A function returns 0 or, when it failed, -1: ib_error says why. The library starts no thread, handles no signal, and
 * is not for several threads at a time. */
#ifndef IBRUN_TOOL_H
#define IBRUN_TOOL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ib_tool ib_tool;		/* a job, as a front end has it */
typedef struct ib_session ib_session;	/* a group of daemons, as a front end has it */

/* A process of a rank. */
struct ib_process {
	const char *host, *program;	/* of a member's table: program is NULL */
	int rank, local_rank, pid;
};

/* Members on a host of the job. */
struct ib_on {
	const char *host;
	unsigned members;
};

/* What all values of one collective may be together, in bytes, each with 15 for its head. */
#define IB_MOST (48u << 20)

/* What ib_launch does with ranks that are held when this process ends: they are released, or the job is ended. Either
 * waits for sessions that ib_detach has left behind. */
enum { ib_then_release = 0, ib_then_end = 1 };

/* ---- the front end ---- */

/* Opens a job of this user on this host: the beginning of its ID, or the process of its ibrun; NULL: the only one. */
int ib_open(ib_tool **t, const char *job);

/* Runs "ibrun argv..." ($IBRUN in place of ibrun, if it is set), and returns when each rank is stopped before the first
 * instruction of its program. It is a child of this process with the same standard output and error, and no input. */
int ib_launch(ib_tool **t, char *const argv[], int then);

/* Starts a session. on: n hosts with their members; n is 0: one member on each node that has ranks. Members are numbered
 * node by node, in the job's order of nodes. env: NAME=value, in addition to what ranks have; NULL: nothing. */
int ib_spawn(ib_tool *t, ib_session **s, const struct ib_on *on, unsigned n, char *const argv[], char *const env[]);

/* The same with one member beside each rank of these hosts, or of all, on the rank's CPUs: how many members a host has
 * is not looked at. The table of such a member has its rank alone, or nothing if that has ended. */
int ib_spawn_per_rank(ib_tool *t, ib_session **s, const struct ib_on *on, unsigned n, char *const argv[], char *const env[]);

/* The host of each member, by rank. The list belongs to the session. */
int ib_hosts(ib_session *s, char ***list, unsigned *n);

/* The processes of all ranks that run. The table belongs to the tool, until the next call. */
int ib_proctable(ib_tool *t, const struct ib_process **table, unsigned *n);

/* Waits until all members have ended; code is the largest exit code, as ibrun ctl exec has it, or NULL. What members
 * write comes to this process's standard output and error, during calls with their session. */
int ib_wait(ib_session *s, int *code);

/* Lets held ranks go on. */
int ib_release(ib_tool *t);

/* Sends a signal to all ranks. */
int ib_kill(ib_tool *t, int sig);

/* Ends the job, as SIGTERM to its ibrun does. */
int ib_end(ib_tool *t);

/* Leaves the job; t and its sessions are freed. Members of its sessions live on. */
int ib_detach(ib_tool *t);

/* Leaves the job; t and its sessions are freed. Members of its sessions are killed. */
void ib_close(ib_tool *t);

/* ---- a member ---- */

/* Once, before all else of a member. Arguments are left as they are. Fails in a process that is no member. */
int ib_init(int *argc, char ***argv);

int ib_rank(void);
int ib_size(void);

/* The ranks of the job that run on this node. The table belongs to the library. */
int ib_local_proctable(const struct ib_process **table, unsigned *n);

/* Collectives. All members call the same in the same order with the same n; the root is member 0. */
int ib_barrier(void);
int ib_bcast(void *buf, size_t n);
int ib_gather(const void *send, size_t n, void *recv);		/* recv: size * n bytes of member 0 */
int ib_scatter(const void *send, size_t n, void *recv);		/* send: size * n bytes of member 0 */
int ib_allgather(const void *send, size_t n, void *recv);

/* Leaves the session: this member takes part in nothing more, and is not waited for. */
int ib_finalize(void);

/* ---- both ---- */

/* Messages between the front end and member 0, which keep their order. The front end names the session; member 0 says
 * NULL. Sending waits while the other side takes nothing of 256 KiB before. */
int ib_send(ib_session *s, const void *buf, size_t n);

/* Takes the next message, which the caller frees. timeout: in milliseconds, -1 for ever. */
int ib_recv(ib_session *s, void **buf, size_t *n, int timeout);

/* Why the last call that returned -1 did; for users, good until the next call. */
const char *ib_error(void);

#ifdef __cplusplus
}
#endif
#endif
