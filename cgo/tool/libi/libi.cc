#include "libi/libi_api.h"

#include "ibrun_tool.h"

#include <string>
#include <vector>

namespace LIBI {
// A session before and after its launch.
struct ProcessGroup {
	ib_session *session = nullptr;
	std::vector<std::string> variables;
	bool finalized = false;
};
}

namespace {
ib_tool *job;
bool ready, joined;
std::vector<ProcessGroup *> groups;

// said tells the user why, and returns the code.
libi_rc_e said(libi_rc_e code)
{
	fprintf(stderr, "LIBI: %s\n", ib_error());
	return code;
}

ProcessGroup *launched(libi_sess_handle_t handle)
{
	for (ProcessGroup *g : groups)
		if (g == handle && g->session && !g->finalized)
			return g;
	return nullptr;
}

std::vector<char *> pointers(std::vector<std::string> &texts)
{
	std::vector<char *> all;
	for (std::string &t : texts)
		all.push_back(&t[0]);
	all.push_back(nullptr);
	return all;
}

// words are those of a text with blanks.
void words(const char *text, std::vector<std::string> &to)
{
	for (std::string word; text && *text; text++) {
		if (*text != ' ')
			word += *text;
		if (!word.empty() && (*text == ' ' || !text[1])) {
			to.push_back(word);
			word.clear();
		}
	}
}

// hold_hosts launches a job with a rank on each host, which is held: the sessions are what runs.
bool hold_hosts(proc_dist_req_t requests[], int count)
{
	std::vector<std::string> hosts, args = {"--hosts", "", "--ppn", "1", "--bind-to", "none"};
	for (int i = 0; i < count; i++)
		for (host_dist_t *h = requests[i].hd; h; h = h->next) {
			bool known = false;
			for (const std::string &host : hosts)
				known = known || host == h->hostname;
			if (known)
				continue;
			args[1] += (hosts.empty() ? "" : ",") + std::string(h->hostname);
			hosts.push_back(h->hostname);
		}
	words(getenv("IBRUN_LIBI_ARGS"), args);
	args.push_back("--");
	args.push_back("true");
	return !hosts.empty() && ib_launch(&job, pointers(args).data(), ib_then_release) == 0;
}

libi_rc_e start(proc_dist_req_t &r)
{
	std::vector<ib_on> on;
	std::vector<char *> argv = {r.proc_path};
	for (host_dist_t *h = r.hd; h; h = h->next)
		on.push_back({h->hostname, h->nproc});
	for (char **a = r.proc_argv; a && *a; a++)
		argv.push_back(*a);
	argv.push_back(nullptr);
	std::vector<char *> env = pointers(r.sessionHandle->variables);
	if (ib_spawn(job, &r.sessionHandle->session, on.data(), on.size(), argv.data(), env.data()))
		return said(LIBI_ELAUNCH);
	return LIBI_OK;
}
}

libi_rc_e LIBI_fe_init(int)
{
	ready = true;
	return LIBI_OK;
}

libi_rc_e LIBI_fe_createSession(libi_sess_handle_t &session)
{
	if (!ready)
		return LIBI_EINIT;
	session = new ProcessGroup;
	groups.push_back(session);
	return LIBI_OK;
}

libi_rc_e LIBI_fe_addToSessionEnvironment(libi_sess_handle_t session, libi_env_t *variables)
{
	if (!session)
		return LIBI_ESESS;
	if (session->session)
		return LIBI_ESESSALREADYLAUNCHED;
	for (libi_env_t *v = variables; v; v = v->next)
		session->variables.push_back(std::string(v->name) + "=" + v->value);
	return LIBI_OK;
}

libi_rc_e LIBI_fe_launch(proc_dist_req_t requests[], int count)
{
	if (!ready)
		return LIBI_EINIT;
	for (int i = 0; i < count; i++) {
		if (!requests[i].sessionHandle)
			return LIBI_ESESS;
		if (requests[i].sessionHandle->session)
			return LIBI_ESESSALREADYLAUNCHED;
	}
	if (job)
		return LIBI_NOTIMPL; // the hosts of the first launch are the job's
	if (!hold_hosts(requests, count))
		return said(LIBI_ELAUNCH);
	libi_rc_e code = LIBI_OK;
	for (int i = 0; i < count && code == LIBI_OK; i++)
		code = start(requests[i]);
	return code;
}

libi_rc_e LIBI_fe_getMaxMsgBufLen(int *bytes)
{
	*bytes = LIBI_MAX_BUFFER_LENGTH;
	return LIBI_OK;
}

libi_rc_e LIBI_fe_getHostlistSize(libi_sess_handle_t session, unsigned int *size)
{
	char **list;
	ProcessGroup *g = launched(session);
	return g ? (ib_hosts(g->session, &list, size), LIBI_OK) : LIBI_ESESS;
}

libi_rc_e LIBI_fe_getHostlist(libi_sess_handle_t session, char ***hosts, unsigned int *size)
{
	char **list;
	ProcessGroup *g = launched(session);
	if (!g)
		return LIBI_ESESS;
	ib_hosts(g->session, &list, size);
	*hosts = static_cast<char **>(malloc((*size + 1) * sizeof **hosts));
	for (unsigned i = 0; i < *size; i++)
		(*hosts)[i] = strdup(list[i]);
	return LIBI_OK;
}

libi_rc_e LIBI_fe_sendUsrData(libi_sess_handle_t session, void *buf, int bytes)
{
	ProcessGroup *g = launched(session);
	if (!g)
		return LIBI_ESESS;
	if (bytes < 0 || bytes > LIBI_MAX_BUFFER_LENGTH)
		return LIBI_EIO;
	return ib_send(g->session, buf, static_cast<size_t>(bytes)) ? said(LIBI_EIO) : LIBI_OK;
}

libi_rc_e LIBI_fe_recvUsrData(libi_sess_handle_t session, void **buf, int *bytes)
{
	size_t n;
	ProcessGroup *g = launched(session);
	if (!g)
		return LIBI_ESESS;
	if (ib_recv(g->session, buf, &n, -1))
		return said(LIBI_EIO);
	*bytes = static_cast<int>(n);
	return LIBI_OK;
}

libi_rc_e LIBI_fe_finalize(libi_sess_handle_t session)
{
	ProcessGroup *g = launched(session);
	if (!g)
		return LIBI_ESESS;
	g->finalized = true;
	for (ProcessGroup *other : groups)
		if (other->session && !other->finalized)
			return LIBI_OK;
	// Members live as long as they like. When the last has ended the job does.
	int err = ib_detach(job);
	job = nullptr;
	for (ProcessGroup *other : groups)
		delete other;
	groups.clear();
	return err ? said(LIBI_EIO) : LIBI_OK;
}

libi_rc_e LIBI_init(int, int *argc, char ***argv)
{
	if (ib_init(argc, argv))
		return said(LIBI_EINIT);
	joined = true;
	return LIBI_OK;
}

libi_rc_e LIBI_amIMaster()
{
	return !joined ? LIBI_EINIT : ib_rank() == 0 ? LIBI_YES : LIBI_NO;
}

libi_rc_e LIBI_getMyRank(int *rank)
{
	*rank = ib_rank();
	return joined ? LIBI_OK : LIBI_EINIT;
}

libi_rc_e LIBI_getSize(int *size)
{
	*size = ib_size();
	return joined ? LIBI_OK : LIBI_EINIT;
}

static libi_rc_e done(int err)
{
	return !joined ? LIBI_EINIT : err ? said(LIBI_EIO) : LIBI_OK;
}

libi_rc_e LIBI_broadcast(void *buf, int bytes)
{
	return done(ib_bcast(buf, static_cast<size_t>(bytes)));
}

libi_rc_e LIBI_gather(void *send, int bytes_of_each, void *recv)
{
	return done(ib_gather(send, static_cast<size_t>(bytes_of_each), recv));
}

libi_rc_e LIBI_scatter(void *send, int bytes_of_each, void *recv)
{
	return done(ib_scatter(send, static_cast<size_t>(bytes_of_each), recv));
}

libi_rc_e LIBI_barrier()
{
	return done(ib_barrier());
}

libi_rc_e LIBI_sendUsrData(void *buf, int *bytes)
{
	if (joined && ib_rank() != 0)
		return LIBI_OK;
	return done(ib_send(nullptr, buf, static_cast<size_t>(*bytes)));
}

libi_rc_e LIBI_recvUsrData(void **buf, int *bytes)
{
	size_t n = 0;
	if (joined && ib_rank() != 0)
		return LIBI_OK;
	libi_rc_e code = done(ib_recv(nullptr, buf, &n, -1));
	*bytes = static_cast<int>(n);
	return code;
}

libi_rc_e LIBI_finalize()
{
	libi_rc_e code = done(ib_finalize());
	joined = false;
	return code;
}
