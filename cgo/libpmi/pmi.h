/* PMI-1, as programs of C know it: how the ranks of a job find each other. The names and numbers are those that
 * MPI libraries expect; docs/mpi.md says which of them use this. Not for several threads at a time. */
#ifndef IBRUN_PMI_H
#define IBRUN_PMI_H

#ifdef __cplusplus
extern "C" {
#endif

/* What the functions return. */
#define PMI_SUCCESS 0
#define PMI_FAIL (-1)              /* refused, or the launcher is lost */
#define PMI_ERR_INIT 1             /* PMI_Init was not called, or PMI_Finalize was */
#define PMI_ERR_NOMEM 2
#define PMI_ERR_INVALID_ARG 3
#define PMI_ERR_INVALID_KEY 4      /* empty, or with a space, an = or a line's end */
#define PMI_ERR_INVALID_KEY_LENGTH 5
#define PMI_ERR_INVALID_VAL 6      /* with a line's end */
#define PMI_ERR_INVALID_VAL_LENGTH 7
#define PMI_ERR_INVALID_LENGTH 8   /* the caller's buffer is too short */
#define PMI_ERR_INVALID_NUM_ARGS 9
#define PMI_ERR_INVALID_ARGS 10
#define PMI_ERR_INVALID_NUM_PARSED 11
#define PMI_ERR_INVALID_KEYVALP 12
#define PMI_ERR_INVALID_SIZE 13

#define PMI_TRUE 1
#define PMI_FALSE 0

typedef int PMI_BOOL;

typedef struct PMI_keyval_t {
	const char *key;
	char *val;
} PMI_keyval_t;

/* Joins the job. Without a launcher (no PMI_FD) this is rank 0 of a job of one, whose values stay in the process.
 * spawned is never true yet. */
int PMI_Init(int *spawned);
int PMI_Initialized(PMI_BOOL *initialized);
int PMI_Finalize(void);

int PMI_Get_size(int *size);
int PMI_Get_rank(int *rank);
int PMI_Get_universe_size(int *size); /* -1: not known */
int PMI_Get_appnum(int *appnum);      /* which of the job's programs, from 0 */

/* Waits for all ranks. What they have put before is seen by all after it. */
int PMI_Barrier(void);

/* Ends the job with a code, which may be 0. Does not return. */
int PMI_Abort(int exit_code, const char error_msg[]);

/* The largest sizes, with their ending NUL. */
int PMI_KVS_Get_name_length_max(int *length);
int PMI_KVS_Get_key_length_max(int *length);
int PMI_KVS_Get_value_length_max(int *length);
int PMI_Get_id_length_max(int *length);

/* The job has one key-value space. What was put may be sent on at once or with the next barrier; Commit is for those
 * who expect it. Get copies at most length bytes with the NUL, and fails for a key that nobody has put. */
int PMI_KVS_Get_my_name(char kvsname[], int length);
int PMI_KVS_Put(const char kvsname[], const char key[], const char value[]);
int PMI_KVS_Commit(const char kvsname[]);
int PMI_KVS_Get(const char kvsname[], const char key[], char value[], int length);

/* A space of one's own: not there, they fail. */
int PMI_KVS_Create(char kvsname[], int length);
int PMI_KVS_Destroy(const char kvsname[]);

/* What older programs ask: the job's name, and the ranks of this node, this one included. */
int PMI_Get_id(char id[], int length);
int PMI_Get_kvs_domain_id(char id[], int length);
int PMI_Get_clique_size(int *size);
int PMI_Get_clique_ranks(int ranks[], int length);

/* Named ports, seen by all ranks of the job. */
int PMI_Publish_name(const char service[], const char port[]);
int PMI_Unpublish_name(const char service[]);
int PMI_Lookup_name(const char service[], char port[]); /* port: 1024 bytes long */

/* Starts further programs. argvs[i] ends with NULL, or is NULL; errors[i] is 0 for each that runs. */
int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
		       const int info_keyval_sizes[], const PMI_keyval_t *info_keyval_vectors[],
		       int preput_keyval_size, const PMI_keyval_t preput_keyval_vector[], int errors[]);

#ifdef __cplusplus
}
#endif

#endif
