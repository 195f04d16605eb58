// A front end and its members in the names of LIBI. They start as networks of processes do that LIBI was made for:
// topology and hosts go to all, each member's port goes to the front end, and the ports go to all. libi, or as a
// member: libi member NAME.
#include "libi/libi_api.h"

#include <string>
#include <vector>

#define expect(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "line %d: not %s\n", __LINE__, #what); \
			exit(1); \
		} \
	} while (0)
#define need(what) expect((what) == LIBI_OK)

static void bcast(std::string &text)
{
	int size = static_cast<int>(text.size());
	need(LIBI_broadcast(&size, sizeof size));
	text.resize(static_cast<size_t>(size));
	need(LIBI_broadcast(&text[0], size));
}

// received is a message of the front end, at each member.
static std::string received()
{
	void *buf = nullptr;
	int size = 0;
	need(LIBI_recvUsrData(&buf, &size));
	std::string text(static_cast<char *>(buf), static_cast<size_t>(size));
	free(buf);
	bcast(text);
	return text;
}

static int member(int argc, char **argv)
{
	int rank = -1, size = 0;
	expect(LIBI_amIMaster() == LIBI_EINIT && LIBI_barrier() == LIBI_EINIT && LIBI_finalize() == LIBI_EINIT);
	need(LIBI_init(LIBI_VERSION, &argc, &argv));
	expect(LIBI_init(LIBI_VERSION, &argc, &argv) == LIBI_EINIT);
	need(LIBI_getMyRank(&rank));
	need(LIBI_getSize(&size));
	expect(LIBI_amIMaster() == (rank ? LIBI_NO : LIBI_YES));
	std::string hosts = received();
	const char *variable = getenv("LIBI_TEST");
	printf("%s %d/%d on %s job %s: %s %s\n", argv[2], rank, size, getenv("IBRUN_HOST"), getenv("IBRUN_JOB_ID"),
	       hosts.c_str(), variable ? variable : "-");
	fflush(stdout);
	std::vector<int> ports(static_cast<size_t>(size));
	int port = 1000 + rank, mine = -1, bytes = static_cast<int>(ports.size() * sizeof(int));
	need(LIBI_gather(&port, sizeof port, ports.data()));
	need(LIBI_scatter(ports.data(), sizeof port, &mine));
	expect(mine == port);
	need(LIBI_barrier());
	need(LIBI_sendUsrData(ports.data(), &bytes));
	std::string all = received();
	const int *other = reinterpret_cast<const int *>(all.data());
	for (int i = 0; i < size; i++)
		expect(other[i] == 1000 + i);
	std::string big = received();
	bytes = LIBI_MAX_BUFFER_LENGTH;
	expect(big == std::string(LIBI_MAX_BUFFER_LENGTH, 'x'));
	need(LIBI_sendUsrData(&big[0], &bytes));
	bytes++;
	expect(LIBI_sendUsrData(&big[0], &bytes) == (rank ? LIBI_OK : LIBI_EIO));
	need(LIBI_finalize());
	expect(LIBI_barrier() == LIBI_EINIT);
	return 0;
}

// serve gives the members of a session what they want.
static void serve(libi_sess_handle_t session)
{
	char **hosts;
	unsigned count, again;
	void *buf;
	int bytes, most;
	std::string text, big;
	need(LIBI_fe_getHostlist(session, &hosts, &count));
	need(LIBI_fe_getHostlistSize(session, &again));
	expect(count == again);
	for (unsigned i = 0; i < count; i++) {
		text += hosts[i];
		free(hosts[i]);
	}
	free(hosts);
	need(LIBI_fe_sendUsrData(session, &text[0], static_cast<int>(text.size())));
	need(LIBI_fe_recvUsrData(session, &buf, &bytes));
	expect(bytes == static_cast<int>(count * sizeof(int)));
	need(LIBI_fe_sendUsrData(session, buf, bytes));
	free(buf);
	need(LIBI_fe_getMaxMsgBufLen(&most));
	big.assign(static_cast<size_t>(most) + 1, 'x');
	expect(LIBI_fe_sendUsrData(session, &big[0], most + 1) == LIBI_EIO);
	need(LIBI_fe_sendUsrData(session, &big[0], most));
	need(LIBI_fe_recvUsrData(session, &buf, &bytes));
	expect(bytes == most && !memcmp(buf, big.data(), static_cast<size_t>(most)));
	free(buf);
}

static char text_of[][16] = {"member", "comm", "back", "it's", "late", "fresh", "LIBI_TEST", "a \"b\" c", "a", "b", "c", "d"};
enum { MEMBER, COMM, BACK, QUOTED, LATE, FRESH, NAME, VALUE, HOST_A, HOST_B, HOST_C, HOST_D };

// network starts two sessions at a time, one of them of two programs, and then one on the same hosts, one on another,
// and one that has ended before.
static void network(char *self)
{
	libi_sess_handle_t comm, back, late, fresh, stray = nullptr;
	unsigned size;
	char *comms[] = {text_of[MEMBER], text_of[COMM], nullptr}, *backs[] = {text_of[MEMBER], text_of[BACK], nullptr};
	char *quoted[] = {text_of[MEMBER], text_of[QUOTED], nullptr}, *lates[] = {text_of[MEMBER], text_of[LATE], nullptr};
	char *freshes[] = {text_of[MEMBER], text_of[FRESH], nullptr};
	host_dist_t on_a = {text_of[HOST_A], 1, nullptr}, on_c = {text_of[HOST_C], 2, nullptr}, on_d = {text_of[HOST_D], 2, nullptr};
	host_dist_t on_bc = {text_of[HOST_B], 2, &on_c};
	libi_env_t variable = {text_of[NAME], text_of[VALUE], nullptr};
	expect(LIBI_fe_createSession(comm) == LIBI_EINIT);
	expect(LIBI_fe_getHostlistSize(stray, &size) == LIBI_EINIT);
	need(LIBI_fe_init(LIBI_VERSION));
	for (libi_sess_handle_t *s : {&comm, &back, &late, &fresh})
		need(LIBI_fe_createSession(*s));
	need(LIBI_fe_addToSessionEnvironment(comm, &variable));
	expect(LIBI_fe_getHostlistSize(stray, &size) == LIBI_ESESS);
	expect(LIBI_fe_getHostlistSize(comm, &size) == LIBI_ELAUNCH);
	expect(LIBI_fe_sendUsrData(comm, text_of[NAME], 1) == LIBI_EINIT);

	proc_dist_req_t none[] = {{comm, self, comms, nullptr}}, unknown[] = {{stray, self, comms, &on_a}};
	expect(LIBI_fe_launch(none, 1) == LIBI_ELAUNCH && LIBI_fe_launch(unknown, 1) == LIBI_ESESS);
	proc_dist_req_t both[] = {{comm, self, comms, &on_a}, {back, self, backs, &on_bc}, {back, self, quoted, &on_c}};
	need(LIBI_fe_launch(both, 3));
	expect(LIBI_fe_launch(both, 1) == LIBI_ESESSALREADYLAUNCHED);
	serve(comm);
	proc_dist_req_t same[] = {{late, self, lates, &on_c}}, another[] = {{fresh, self, freshes, &on_d}};
	need(LIBI_fe_launch(same, 1));
	need(LIBI_fe_launch(another, 1));
	serve(fresh);
	serve(late);
	serve(back);
	need(LIBI_fe_finalize(comm));
	need(LIBI_fe_finalize(comm));
	proc_dist_req_t again[] = {{comm, self, lates, &on_a}};
	need(LIBI_fe_launch(again, 1));
	serve(comm);
	for (libi_sess_handle_t s : {comm, back, late, fresh})
		need(LIBI_fe_finalize(s));
	expect(LIBI_fe_getHostlistSize(late, &size) == LIBI_ELAUNCH);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return member(argc, argv);
	network(argv[0]);
	return 0;
}
