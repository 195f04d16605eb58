// posix PROGRAM [ARG...] starts processes by posix_spawn. make bench-spawn compares
// it with ibrun. Each line of standard input is a number of processes. posix starts
// that many processes of PROGRAM, one after the other, and waits until all have
// ended. Like a rank, each process has its own process group, /dev/null and two
// pipes as descriptors 0 to 2, and a socket as descriptor 3. posix then prints a
// line of four times in nanoseconds: the sum over all calls of posix_spawn, the
// time from the first start until all processes have ended, and the CPU times of
// posix and of the processes since the previous line.
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void check(int failed, const char *what) {
	if (failed) {
		perror(what);
		exit(1);
	}
}

static long long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static long long used(int who) {
	struct rusage r;
	getrusage(who, &r);
	return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000000LL + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000LL;
}

static long long start(char **argv, char **env) {
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), out[2], err[2], control[2];
	check(null < 0, "/dev/null");
	check(pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), "pipe2");
	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control), "socketpair");
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, null, 0);
	posix_spawn_file_actions_adddup2(&files, out[1], 1);
	posix_spawn_file_actions_adddup2(&files, err[1], 2);
	posix_spawn_file_actions_adddup2(&files, control[1], 3);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	pid_t pid;
	long long began = now();
	check(posix_spawn(&pid, argv[0], &files, &attr, argv, env), "posix_spawn");
	long long took = now() - began;
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	int fds[] = {null, out[0], out[1], err[0], err[1], control[0], control[1]};
	for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++)
		close(fds[i]);
	return took;
}

int main(int argc, char **argv, char **env) {
	int count;
	long long own = used(RUSAGE_SELF), theirs = used(RUSAGE_CHILDREN);
	while (argc > 1 && scanf("%d", &count) == 1) {
		long long took = 0, began = now();
		for (int i = 0; i < count; i++)
			took += start(argv + 1, env);
		for (int i = 0; i < count; i++)
			check(wait(NULL) < 0, "wait");
		long long all = now() - began;
		printf("%lld %lld %lld %lld\n", took, all, used(RUSAGE_SELF) - own, used(RUSAGE_CHILDREN) - theirs);
		fflush(stdout);
		own = used(RUSAGE_SELF), theirs = used(RUSAGE_CHILDREN);
	}
}
