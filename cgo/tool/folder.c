#include "folder.h"
#include "line.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char suffix[] = ".sock";

/* folder is the name of it, if it is this user's and closed to others. */
static int folder(char *path, size_t room)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	struct stat st;
	int memory = !lstat("/dev/shm", &st) && S_ISDIR(st.st_mode) && (st.st_mode & S_ISVTX);
	int n = runtime && *runtime == '/' ? snprintf(path, room, "%s/ibrun", runtime) : snprintf(path, room, "%s/ibrun-%u", memory ? "/dev/shm" : "/tmp", (unsigned)geteuid());
	if (n < 0 || (size_t)n >= room)
		return ib_fail("the name of the folder of jobs is too long");
	if (lstat(path, &st))
		return errno == ENOENT ? ib_fail("no job of yours runs on this machine") : ib_fail("%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return ib_fail("%s is not a folder of yours alone", path);
	return 0;
}

static int dial(const char *dir, const char *name)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct ucred peer;
	socklen_t length = sizeof peer;
	int n = snprintf(to.sun_path, sizeof to.sun_path, "%s/%s", dir, name);
	if (n < 0 || (size_t)n >= sizeof to.sun_path || strchr(name, '/'))
		return ib_fail("%s is no job", name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return ib_fail("no socket: %s", strerror(errno));
	if (connect(fd, (struct sockaddr *)&to, sizeof to)) {
		ib_fail("%s: %s", to.sun_path, strerror(errno));
	} else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) || peer.uid != geteuid()) {
		ib_fail("%s is another user's", to.sun_path);
	} else {
		return fd;
	}
	close(fd);
	return -1;
}

int folder_dial(const char *id)
{
	char dir[PATH_MAX], name[NAME_MAX + 1];
	int n = snprintf(name, sizeof name, "%s%s", id, suffix);
	if (n < 0 || (size_t)n >= sizeof name)
		return ib_fail("%s is no job", id);
	return folder(dir, sizeof dir) ? -1 : dial(dir, name);
}

/* pid_of is the process of a job's ibrun; 0: it does not say. */
static long pid_of(int fd)
{
	struct lines l = {.fd = dup(fd)};
	struct text t = {0};
	struct json line, job, pid;
	long n = 0;
	text_put(&t, "{\"verb\":\"job\"}\n");
	if (l.fd >= 0 && !line_send(&l, &t) && !line_next(&l, &line, 5000) && json_get(line, "job", &job) && json_get(job, "pid", &pid))
		n = json_number(pid, 0);
	line_close(&l);
	return n;
}

int folder_find(const char *word)
{
	char dir[PATH_MAX], *end;
	int found = -1, count = 0, all = 0;
	if (folder(dir, sizeof dir))
		return -1;
	DIR *d = opendir(dir);
	if (!d)
		return ib_fail("%s: %s", dir, strerror(errno));
	long pid = word ? strtol(word, &end, 10) : 0;
	if (!word || !*word || *end)
		pid = 0;
	for (struct dirent *e; (e = readdir(d));) {
		size_t n = strlen(e->d_name);
		if (n < sizeof suffix || strcmp(e->d_name + n - (sizeof suffix - 1), suffix))
			continue;
		int fd = dial(dir, e->d_name);
		if (fd < 0)
			continue; /* of a job that has ended */
		all++;
		if (word && strncmp(e->d_name, word, strlen(word)) && !(pid && pid_of(fd) == pid)) {
			close(fd);
			continue;
		}
		if (count++)
			close(found);
		found = fd;
	}
	closedir(d);
	if (count == 1)
		return found;
	if (count > 1) {
		close(found);
		return ib_fail("%d jobs run: say which", count);
	}
	return all ? ib_fail("no job is %s", word) : ib_fail("no job of yours runs on this machine");
}
