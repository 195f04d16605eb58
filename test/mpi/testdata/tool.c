/* A front end and its members. tool front JOB; tool watch HOW; tool detach -; tool launch, session, release or ends
 * with the arguments of ibrun; as a member: tool member HOW. */
#include "ibrun_tool.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { big = 3000001, patience = 120000 };

#define need(what) \
	do { \
		if (what) { \
			fprintf(stderr, "%s: %s\n", #what, ib_error()); \
			exit(1); \
		} \
	} while (0)

#define expect(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "not %s\n", #what); \
			exit(1); \
		} \
	} while (0)

static unsigned char *pattern(size_t n)
{
	unsigned char *p = malloc(n);
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(i * 7 + i / 251);
	return p;
}

static void collectives(void)
{
	int me = ib_rank(), size = ib_size(), all[64], mine[2] = {me, me * me}, pairs[128], got = -1;
	need(ib_barrier());
	need(ib_allgather(&me, sizeof me, all));
	for (int i = 0; i < size; i++)
		expect(all[i] == i);
	need(ib_gather(mine, sizeof mine, pairs));
	for (int i = 0; !me && i < size; i++) {
		expect(pairs[2 * i] == i && pairs[2 * i + 1] == i * i);
		all[i] = 100 + i;
	}
	need(ib_scatter(all, sizeof *all, &got));
	expect(got == 100 + me);
	got = me ? 0 : 4711;
	need(ib_bcast(&got, sizeof got));
	expect(got == 4711);
	need(ib_bcast(NULL, 0));
	unsigned char *value = pattern(big), *want = pattern(big);
	if (me)
		memset(value, 0, big);
	need(ib_bcast(value, big));
	expect(!memcmp(value, want, big));
	expect(ib_bcast(value, (size_t)IB_MOST + 1) == -1 || me);
	free(value);
	free(want);
}

static int member(const char *how)
{
	const struct ib_process *ranks;
	unsigned n;
	void *buf;
	size_t size;
	need(ib_init(NULL, NULL));
	expect(ib_init(NULL, NULL) == -1);
	need(ib_local_proctable(&ranks, &n));
	if (!strcmp(how, "crash")) {
		if (ib_rank() == 1)
			raise(SIGKILL);
		expect(ib_barrier() == -1);
		printf("%d: %s\n", ib_rank(), ib_error());
		return 0;
	}
	if (!strcmp(how, "stay")) {
		printf("%d\n", getpid());
		fflush(stdout);
		sleep(1000);
	}
	if (!strcmp(how, "per-rank")) { /* its rank: each of these ends with its number */
		int where = n ? ranks[0].rank : -1, all[64];
		expect(n <= 1 && atoi(getenv("IBRUN_RANK")) == (n ? where : 1));
		need(ib_allgather(&where, sizeof where, all));
		printf("member %d of %d on %s: %d, %d ranks\n", ib_rank(), ib_size(), getenv("IBRUN_HOST"), where, (int)n);
		return where == 3 ? 9 : 0;
	}
	printf("member %d of %d:", ib_rank(), ib_size());
	for (unsigned i = 0; i < n; i++)
		printf(" %s/%d/%d/%d", ranks[i].host, ranks[i].rank, ranks[i].local_rank, ranks[i].pid > 0);
	printf(" %s\n", getenv("TOOL"));
	fflush(stdout);
	collectives();
	if (ib_rank()) {
		expect(ib_send(NULL, "x", 1) == -1);
	} else { /* what comes goes back, also nothing */
		for (int i = 0; i < 3; i++) {
			need(ib_recv(NULL, &buf, &size, patience));
			need(ib_send(NULL, buf, size));
			free(buf);
		}
		expect(ib_recv(NULL, &buf, &size, 1) == -1);
	}
	need(ib_finalize());
	expect(ib_barrier() == -1);
	return 7;
}

static void echo(ib_session *s, size_t n)
{
	unsigned char *value = pattern(n);
	void *buf;
	size_t size;
	need(ib_send(s, value, n));
	need(ib_recv(s, &buf, &size, patience));
	expect(size == n && !memcmp(buf, value, n));
	free(buf);
	free(value);
}

static int session(ib_tool *t, char *self)
{
	char *argv[] = {self, "member", "all", NULL}, *env[] = {"TOOL=a \"quoted\" one", NULL}, **hosts;
	struct ib_on on[] = {{"c", 2}, {"a", 1}, {"c", 1}}, nowhere[] = {{"x", 1}};
	const struct ib_process *table;
	ib_session *s, *other;
	unsigned n;
	int code = -1;
	void *buf;
	size_t size;
	need(ib_proctable(t, &table, &n));
	for (unsigned i = 0; i < n; i++)
		printf("%s %d %d %d %s\n", table[i].host, table[i].rank, table[i].local_rank, table[i].pid > 0, table[i].program);
	expect(ib_spawn(t, &s, nowhere, 1, argv, env) == -1);
	printf("%s\n", ib_error());
	need(ib_spawn(t, &s, on, 3, argv, env));
	need(ib_spawn(t, &other, NULL, 0, argv, env));
	need(ib_hosts(s, &hosts, &n));
	for (unsigned i = 0; i < n; i++)
		printf("host %u %s\n", i, hosts[i]);
	fflush(stdout);
	echo(s, big);
	echo(s, 0);
	echo(other, 17);
	echo(s, 1);
	echo(other, 70000);
	echo(other, 0);
	expect(ib_recv(s, &buf, &size, patience) == -1);
	need(ib_wait(s, &code));
	expect(code == 7);
	need(ib_wait(other, &code));
	expect(code == 7 && ib_send(s, "late", 4) == -1);
	return 0;
}

/* per_rank runs members beside each rank, of all hosts and of some. */
static int per_rank(ib_tool *t, char *self)
{
	char *argv[] = {self, "member", "per-rank", NULL};
	struct ib_on some[] = {{"c", 0}, {"b", 0}}, nowhere[] = {{"x", 0}};
	ib_session *s;
	int code = -1;
	expect(ib_spawn_per_rank(t, &s, nowhere, 1, argv, NULL) == -1);
	printf("%s\n", ib_error());
	need(ib_spawn_per_rank(t, &s, NULL, 0, argv, NULL));
	need(ib_wait(s, &code));
	printf("code %d\n", code);
	fflush(stdout);
	need(ib_spawn_per_rank(t, &s, some, 2, argv, NULL));
	need(ib_wait(s, &code));
	printf("code %d\n", code);
	return 0;
}

/* watch runs a session of members that are not asked for anything. */
static int watch(ib_tool *t, char *self, char *how)
{
	char *argv[] = {self, "member", how, NULL};
	ib_session *s;
	int code;
	need(ib_spawn(t, &s, NULL, 0, argv, NULL));
	need(ib_wait(s, &code));
	printf("code %d\n", code);
	return 0;
}

int main(int argc, char **argv)
{
	ib_tool *t;
	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "member"))
		return member(argv[2]);
	if (!strcmp(argv[1], "front")) {
		need(ib_open(&t, *argv[2] ? argv[2] : NULL));
		int err = session(t, argv[0]);
		ib_close(t);
		return err;
	}
	if (!strcmp(argv[1], "watch")) {
		need(ib_open(&t, NULL));
		int err = watch(t, argv[0], argv[2]);
		ib_close(t);
		return err;
	}
	if (!strcmp(argv[1], "per-rank")) {
		need(ib_open(&t, NULL));
		int err = per_rank(t, argv[0]);
		ib_close(t);
		return err;
	}
	if (!strcmp(argv[1], "detach")) {
		char *args[] = {argv[0], "member", "stay", NULL};
		ib_session *s;
		need(ib_open(&t, NULL));
		need(ib_spawn(t, &s, NULL, 0, args, NULL));
		need(ib_detach(t));
		return 0;
	}
	int ends = !strcmp(argv[1], "ends");
	if (!ends && strcmp(argv[1], "launch") && strcmp(argv[1], "session") && strcmp(argv[1], "release"))
		return 2;
	need(ib_launch(&t, argv + 2, ends ? ib_then_end : ib_then_release));
	if (!strcmp(argv[1], "session")) {
		char *args[] = {argv[0], "member", "stay", NULL};
		ib_session *s;
		need(ib_spawn(t, &s, NULL, 0, args, NULL));
	}
	printf("held\n");
	fflush(stdout);
	if (getchar() == EOF) /* until then ranks are held */
		return 3;
	if (!strcmp(argv[1], "release")) {
		need(ib_release(t));
		pause(); /* the tool stays */
	}
	raise(SIGKILL);
	return 0;
}
