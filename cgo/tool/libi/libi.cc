#include "libi/libi_api.h"

#include "ibrun_tool.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace {
// Job is one on the hosts of a launch. Its ranks are held and do nothing: the sessions are what runs.
struct Job {
	ib_tool *tool = nullptr;
	std::vector<std::string> hosts;
	unsigned open = 0; // sessions that are not finalized

	bool on(const std::string &host) const { return std::find(hosts.begin(), hosts.end(), host) != hosts.end(); }
};
}

namespace LIBI {
// A session before and after its launch, which may be repeated when it has been finalized.
struct ProcessGroup {
	ib_session *session = nullptr; // nullptr: it is not launched
	Job *job = nullptr;
	std::vector<std::string> variables;
};
}

namespace {
typedef std::vector<std::string> texts;
typedef std::vector<proc_dist_req_t> requests_t;

bool ready, joined;
std::vector<std::unique_ptr<ProcessGroup>> groups; // handles are good to the end
std::vector<std::unique_ptr<Job>> jobs;

// said prints why, and returns the code.
libi_rc_e said(libi_rc_e code)
{
	fprintf(stderr, "LIBI: %s\n", ib_error());
	return code;
}

bool known(libi_sess_handle_t handle)
{
	for (const std::unique_ptr<ProcessGroup> &g : groups)
		if (g.get() == handle)
			return true;
	return false;
}

// usable is LIBI_OK for a session that is launched, and not otherwise for one that is not.
libi_rc_e usable(libi_sess_handle_t handle, libi_rc_e otherwise)
{
	return !ready ? LIBI_EINIT : !known(handle) ? LIBI_ESESS : handle->session ? LIBI_OK : otherwise;
}

std::vector<char *> pointers(texts &list)
{
	std::vector<char *> all;
	for (std::string &t : list)
		all.push_back(&t[0]);
	all.push_back(nullptr);
	return all;
}

// words are those of a text with blanks.
void words(const char *text, texts &to)
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

// command is a program with its arguments.
texts command(const proc_dist_req_t &r)
{
	texts all = {r.proc_path};
	for (char **a = r.proc_argv; a && *a; a++)
		all.push_back(*a);
	return all;
}

// each_host calls f with a host and its processes.
template <class F> void each_host(const proc_dist_req_t &r, F f)
{
	for (host_dist_t *h = r.hd; h; h = h->next)
		f(h->hostname, h->nproc);
}

// forget leaves a job in which no session is open. Its members live as long as they like.
int forget(Job *job)
{
	int err = ib_detach(job->tool);
	jobs.erase(std::find_if(jobs.begin(), jobs.end(), [job](std::unique_ptr<Job> &j) { return j.get() == job; }));
	return err;
}

// job_on is a job that has all hosts of some requests, a new one if none has; nullptr: none can be started.
Job *job_on(const requests_t &requests)
{
	std::unique_ptr<Job> fresh(new Job);
	for (const proc_dist_req_t &r : requests)
		each_host(r, [&](const char *host, unsigned) {
			if (!fresh->on(host))
				fresh->hosts.push_back(host);
		});
	for (const std::unique_ptr<Job> &j : jobs)
		if (std::all_of(fresh->hosts.begin(), fresh->hosts.end(), [&](std::string &h) { return j->on(h); }))
			return j.get();
	texts args = {"--hosts", "", "--ppn", "1", "--bind-to", "none"};
	for (const std::string &host : fresh->hosts)
		args[1] += (args[1].empty() ? "" : ",") + host;
	words(getenv("IBRUN_LIBI_ARGS"), args);
	args.push_back("--");
	args.push_back("true");
	if (ib_launch(&fresh->tool, pointers(args).data(), ib_then_release))
		return nullptr;
	jobs.push_back(std::move(fresh));
	return jobs.back().get();
}

void quote(std::string &to, const std::string &word)
{
	to += " '";
	for (char c : word)
		to += c == '\'' ? std::string("'\\''") : std::string(1, c);
	to += "'";
}

// chosen is a command that becomes one of several programs by the number of the member. On a host the
// processes of the first request come first, and hosts come in the order of the job's.
texts chosen(const requests_t &requests, const Job &job)
{
	std::vector<std::string> numbers(requests.size());
	unsigned next = 0;
	for (const std::string &host : job.hosts)
		for (size_t i = 0; i < requests.size(); i++)
			each_host(requests[i], [&](const char *name, unsigned n) {
				for (; host == name && n > 0; n--)
					numbers[i] += (numbers[i].empty() ? "" : "|") + std::to_string(next++);
			});
	std::string script = "case $IBRUN_MEMBER in";
	for (size_t i = 0; i < requests.size(); i++) {
		if (numbers[i].empty())
			continue;
		script += " " + numbers[i] + ") exec";
		for (const std::string &word : command(requests[i]))
			quote(script, word);
		script += ";;";
	}
	return {"/bin/sh", "-c", script + " esac"};
}

// start begins a session with the processes of some requests.
libi_rc_e start(ProcessGroup *g, const requests_t &requests, Job *job)
{
	std::vector<ib_on> on;
	bool one = true;
	for (const proc_dist_req_t &r : requests) {
		one = one && command(r) == command(requests[0]);
		each_host(r, [&](const char *host, unsigned n) { on.push_back({host, n}); });
	}
	texts argv = one ? command(requests[0]) : chosen(requests, *job);
	if (ib_spawn(job->tool, &g->session, on.data(), static_cast<unsigned>(on.size()), pointers(argv).data(),
		     pointers(g->variables).data()))
		return said(LIBI_ELAUNCH);
	g->job = job;
	job->open++;
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
	groups.emplace_back(new ProcessGroup);
	session = groups.back().get();
	return LIBI_OK;
}

libi_rc_e LIBI_fe_addToSessionEnvironment(libi_sess_handle_t session, libi_env_t *variables)
{
	if (!known(session))
		return LIBI_ESESS;
	for (libi_env_t *v = variables; v; v = v->next)
		session->variables.push_back(std::string(v->name) + "=" + v->value);
	return LIBI_OK;
}

libi_rc_e LIBI_fe_launch(proc_dist_req_t distributions[], int count)
{
	if (!ready)
		return LIBI_EINIT;
	requests_t all(distributions, distributions + std::max(count, 0));
	for (const proc_dist_req_t &r : all) {
		if (!known(r.sessionHandle))
			return LIBI_ESESS;
		if (r.sessionHandle->session)
			return LIBI_ESESSALREADYLAUNCHED;
		if (!r.hd || !r.proc_path)
			return LIBI_ELAUNCH;
	}
	if (all.empty())
		return LIBI_OK;
	Job *job = job_on(all);
	if (!job)
		return said(LIBI_ELAUNCH);
	libi_rc_e code = LIBI_OK;
	for (const proc_dist_req_t &r : all) {
		if (r.sessionHandle->session || code != LIBI_OK)
			continue;
		requests_t same;
		std::copy_if(all.begin(), all.end(), std::back_inserter(same),
			     [&](const proc_dist_req_t &other) { return other.sessionHandle == r.sessionHandle; });
		code = start(r.sessionHandle, same, job);
	}
	if (!job->open)
		forget(job);
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
	libi_rc_e code = usable(session, LIBI_ELAUNCH);
	if (code == LIBI_OK)
		ib_hosts(session->session, &list, size);
	return code;
}

libi_rc_e LIBI_fe_getHostlist(libi_sess_handle_t session, char ***hosts, unsigned int *size)
{
	char **list;
	libi_rc_e code = usable(session, LIBI_ELAUNCH);
	if (code != LIBI_OK)
		return code;
	ib_hosts(session->session, &list, size);
	*hosts = static_cast<char **>(malloc((*size + 1) * sizeof **hosts));
	for (unsigned i = 0; i < *size; i++)
		(*hosts)[i] = strdup(list[i]);
	return LIBI_OK;
}

libi_rc_e LIBI_fe_sendUsrData(libi_sess_handle_t session, void *buf, int bytes)
{
	libi_rc_e code = usable(session, LIBI_EINIT);
	if (code != LIBI_OK)
		return code;
	if (bytes < 0 || bytes > LIBI_MAX_BUFFER_LENGTH)
		return LIBI_EIO;
	return ib_send(session->session, buf, static_cast<size_t>(bytes)) ? said(LIBI_EIO) : LIBI_OK;
}

libi_rc_e LIBI_fe_recvUsrData(libi_sess_handle_t session, void **buf, int *bytes)
{
	size_t n;
	libi_rc_e code = usable(session, LIBI_EINIT);
	if (code != LIBI_OK)
		return code;
	if (ib_recv(session->session, buf, &n, -1))
		return said(LIBI_EIO);
	*bytes = static_cast<int>(n);
	return LIBI_OK;
}

libi_rc_e LIBI_fe_finalize(libi_sess_handle_t session)
{
	libi_rc_e code = usable(session, LIBI_OK);
	if (code != LIBI_OK || !session->session)
		return code;
	session->session = nullptr;
	if (--session->job->open == 0 && forget(session->job))
		code = said(LIBI_EIO);
	session->job = nullptr;
	return code;
}

libi_rc_e LIBI_init(int, int *argc, char ***argv)
{
	if (joined)
		return LIBI_EINIT;
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
	if (joined && (*bytes < 0 || *bytes > LIBI_MAX_BUFFER_LENGTH))
		return LIBI_EIO;
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
