/* Collectives for the start of a program, over ibrun's launch tree: no network is opened and no address needed. They
 * are those of MVAPICH's PMGR. A collective costs one message up and one down on each edge of the tree; what is long
 * or frequent belongs elsewhere. Not for several threads at a time, and not together with PMI, which has the same
 * descriptor.
 *
 * All ranks call the same collectives in the same order, with the same count and root. A function returns 0 or, when it
 * failed, -1: pmgr_error says why. A collective that fails fails on all ranks; the next one may succeed. */
#ifndef IBRUN_PMGR_H
#define IBRUN_PMGR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What all parcels of one collective may be together, in bytes, each with 15 for its head. */
#define PMGR_MOST (48u << 20)

/* Joins the job; once per process, before all else. Fails in a process that ibrun did not start. A rank can run several
 * programs that do so, one after the other, if each ends with pmgr_close. */
int pmgr_open(int *rank, int *size);

/* Waits for all ranks. */
int pmgr_barrier(void);

/* count bytes of the root's buf become everybody's. */
int pmgr_bcast(void *buf, size_t count, int root);

/* count bytes of each rank come to the root, by rank; recvbuf of others is not used. */
int pmgr_gather(const void *sendbuf, size_t count, void *recvbuf, int root);

/* Each rank gets its count bytes of the root's, which lie by rank; sendbuf of others is not used. */
int pmgr_scatter(const void *sendbuf, size_t count, void *recvbuf, int root);

/* count bytes of each rank come to all, by rank. */
int pmgr_allgather(const void *sendbuf, size_t count, void *recvbuf);

/* Rank i gets the count bytes at i * count of everybody, by rank. */
int pmgr_alltoall(const void *sendbuf, size_t count, void *recvbuf);

/* Leaves the job: this rank takes part in nothing more, and is not waited for. */
int pmgr_close(void);

/* Ends the job with the low byte of code, or 1 if that is 0, and says why; text may be NULL. Does
   not return. */
void pmgr_abort(int code, const char *text);

/* Why the last call that returned -1 did; for users, good until the next call. */
const char *pmgr_error(void);

#ifdef __cplusplus
}
#endif

#endif
