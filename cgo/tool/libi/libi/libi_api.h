// The names of LIBI, the Lightweight Infrastructure-Bootstrapping Infrastructure of Goehner, Arnold and
// others (University of New Mexico), over libibruntool: what is written for LIBI starts through ibrun. The
// front end of LIBI has no job of its own: LIBI_fe_launch starts one on the hosts that are asked for, whose
// ranks do nothing, and the sessions in it. IBRUN names the binary, and IBRUN_LIBI_ARGS more options of it.
#ifndef IBRUN_LIBI_API_H
#define IBRUN_LIBI_API_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBI_VERSION 0100               // 0.1.0
#define LIBI_MAX_BUFFER_LENGTH 4194304  // bytes of a message

enum libi_rc_e {
	LIBI_OK = 0,
	LIBI_YES,
	LIBI_NO,
	LIBI_NOTIMPL,
	LIBI_EINIT,                // a call before init or after finalize, or data for a session that is not launched
	LIBI_ELAUNCH,              // it was not started, or is not yet
	LIBI_ESESS,                // no such session
	LIBI_EFRONTENDONLY,
	LIBI_ESESSALREADYLAUNCHED,
	LIBI_EIO                   // the other side is gone, or a collective failed
};

namespace LIBI {
struct host_t {
	char *hostname;
	unsigned int nproc;
	host_t *next;
};

struct env_t {
	char *name;
	char *value;
	env_t *next;
};

struct dist_req_t {
	char *proc_path;
	char **proc_argv;
	host_t *hd;
};

struct ProcessGroup;
}

using namespace LIBI;

typedef LIBI::ProcessGroup *libi_sess_handle_t;
typedef LIBI::host_t host_dist_t;
typedef LIBI::env_t libi_env_t;

struct sess_env_t {
	libi_sess_handle_t sessionHandle;
	libi_env_t *env;
};

struct proc_dist_req_t {
	libi_sess_handle_t sessionHandle;
	char *proc_path;   // of the program
	char **proc_argv;  // its arguments, with NULL at the end; may be NULL
	host_dist_t *hd;   // hosts, and how many processes each
};

// The front end.
libi_rc_e LIBI_fe_init(int version);
libi_rc_e LIBI_fe_createSession(libi_sess_handle_t &session);
libi_rc_e LIBI_fe_addToSessionEnvironment(libi_sess_handle_t session, libi_env_t *variables);

// Starts all sessions that are named. A session may have several requests: its processes are numbered host by
// host, and on each in the order of the requests. A later launch on hosts of an earlier one starts no new job.
libi_rc_e LIBI_fe_launch(proc_dist_req_t distributions[], int count);

libi_rc_e LIBI_fe_getMaxMsgBufLen(int *bytes);
libi_rc_e LIBI_fe_getHostlistSize(libi_sess_handle_t session, unsigned int *size);
libi_rc_e LIBI_fe_getHostlist(libi_sess_handle_t session, char ***hosts, unsigned int *size);  // by rank; the caller's
libi_rc_e LIBI_fe_sendUsrData(libi_sess_handle_t session, void *buf, int bytes);
libi_rc_e LIBI_fe_recvUsrData(libi_sess_handle_t session, void **buf, int *bytes);             // the caller's

// Leaves the processes of a session to themselves. The session may be launched again.
libi_rc_e LIBI_fe_finalize(libi_sess_handle_t session);

// A member. The root of each collective is the master, rank 0.
libi_rc_e LIBI_init(int version, int *argc, char ***argv);
libi_rc_e LIBI_amIMaster();
libi_rc_e LIBI_getMyRank(int *rank);
libi_rc_e LIBI_getSize(int *size);
libi_rc_e LIBI_broadcast(void *buf, int bytes);
libi_rc_e LIBI_gather(void *send, int bytes_of_each, void *recv);
libi_rc_e LIBI_scatter(void *send, int bytes_of_each, void *recv);
libi_rc_e LIBI_barrier();
libi_rc_e LIBI_sendUsrData(void *buf, int *bytes);   // of the master; others return at once
libi_rc_e LIBI_recvUsrData(void **buf, int *bytes);  // the same; the caller's
libi_rc_e LIBI_finalize();

#endif
