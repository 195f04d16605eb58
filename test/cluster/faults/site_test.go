//go:build cluster || soak

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	subreaper "ibrun/bootstrap/reaper"
	"ibrun/test/vcluster/cluster"
)

// command runs a command of the test itself.
func command(words ...string) error {
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, out)
	}
	return nil
}

// site is a cluster on which one job runs at a time.
type site struct {
	*cluster.Cluster
	ctx   context.Context
	dir   string          // a folder of the front for costs, temporary files and output
	quiet map[int]bool    // processes that belong to no job
	job   *job            // the job that was started last
	files map[string]bool // files on the nodes before the first job
}

// newSite returns a cluster that is closed at the end of the test. It skips the test without root.
func newSite(t *testing.T, config cluster.Config) *site {
	t.Helper()
	c := cluster.Require(t, config)
	s := &site{Cluster: c, ctx: t.Context(), dir: t.TempDir(), quiet: map[int]bool{}, files: c.Files()}
	require.NoError(t, os.Link(program, s.unseen()))
	all, err := c.AllProcesses()
	require.NoError(t, err)
	for _, procs := range all {
		for _, p := range procs {
			s.quiet[p.Pid] = true
		}
	}
	return s
}

// unseen returns another name of program, which nodes do not see.
func (s *site) unseen() string { return filepath.Join(s.dir, "ibrun") }

// Roles of a job's processes.
const (
	root    = "root"
	agent   = "agent"
	reaper  = "reaper"
	both    = "reaper and agent" // of one node, in the same instant
	session = "sshd session"
	client  = "ssh client"
	rank    = "rank"
	spawned = "descendant of a rank"
	shell   = "shell"
)

// process is a process of a job.
type process struct {
	cluster.Proc
	host, role string
}

func (p process) String() string { return fmt.Sprintf("%s on %s (%.120s)", p.role, p.host, p.Proc) }

// processes returns all processes that do not belong to the cluster itself.
func (s *site) processes() (found []process) {
	all, err := s.AllProcesses()
	if err != nil {
		return nil
	}
	for host, procs := range all {
		byPid := map[int]cluster.Proc{}
		for _, p := range procs {
			byPid[p.Pid] = p
		}
		for _, p := range procs {
			if !s.quiet[p.Pid] && len(p.Argv) > 0 {
				found = append(found, process{p, host, roleOf(p, byPid)})
			}
		}
	}
	return found
}

func is(p cluster.Proc, role string) bool { return len(p.Argv) > 1 && p.Argv[1] == role }

// roleOf returns the role of a process, by its arguments and those of its ancestors.
func roleOf(p cluster.Proc, all map[int]cluster.Proc) string {
	switch {
	case is(p, subreaper.Role):
		return reaper
	case is(p, subreaper.Agent):
		return agent
	case p.Argv[0] == program:
		return root
	case strings.HasPrefix(p.Argv[0], "sshd"):
		return session
	case p.Argv[0] == "ssh":
		return client
	}
	up := all[parentOf(p.Pid)]
	// An orphan that the agent has adopted may be in another session, and is no rank.
	if is(up, subreaper.Agent) && sessionOf(p.Pid) == sessionOf(up.Pid) {
		return rank
	}
	for ; up.Pid != 0; up = all[parentOf(up.Pid)] {
		if strings.HasPrefix(up.Argv[0], "sshd") && !is(up, subreaper.Agent) {
			break
		}
		if is(up, subreaper.Agent) {
			return spawned
		}
	}
	if strings.Contains(strings.Join(p.Argv, " "), "sleep 1000") {
		return spawned // it has left its session, and the reaper or its node's init is its parent
	}
	return shell
}

// parentOf returns the parent of a process, or 0 if the process has ended.
func parentOf(pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

func sessionOf(pid int) int {
	id, _ := unix.Getsid(pid)
	return id
}

// aim returns a pidfd of a process, or unix.ESRCH if the process has ended. A signal sent by the pidfd cannot reach
// another process that gets the same process id later.
func (s *site) aim(p process) (fd int, err error) {
	if fd, err = unix.PidfdOpen(p.Pid, 0); err != nil {
		return fd, err
	}
	if slices.ContainsFunc(s.processes(), func(q process) bool { return q.Pid == p.Pid && q.host == p.host }) {
		return fd, nil
	}
	return fd, errors.Join(unix.ESRCH, unix.Close(fd))
}

func (s *site) signal(p process, sig unix.Signal) error {
	fd, err := s.aim(p)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// litter returns the files that did not exist before the first job, on the nodes and on the front.
func (s *site) litter() []string {
	temporary, _ := filepath.Glob(filepath.Join(s.dir, "tmp", "*"))
	return append(s.Litter(s.files), temporary...)
}

// until polls, because most conditions here have no event to wait for. It reports whether ok returned true.
func (s *site) until(ok func() bool) bool {
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			return false
		}
		select {
		case <-time.After(150 * time.Millisecond): // a look at all processes costs much
		case <-s.ctx.Done():
			return false
		}
	}
	return true
}

// of returns the processes of a role, on one host or on all hosts.
func (s *site) of(role, host string) []process {
	return slices.DeleteFunc(s.processes(), func(p process) bool {
		return p.role != role || host != "" && host != p.host
	})
}

// at returns the process of a role on a host.
func (s *site) at(role, host string) (process, error) {
	if found := s.of(role, host); len(found) > 0 {
		return found[0], nil
	}
	return process{}, fmt.Errorf("no %s on %s", role, host)
}

// on runs a command on a host, which may be the front.
func (s *site) on(host string, words ...string) error {
	cmd := s.Command(s.ctx, words...)
	if host != cluster.FrontName {
		cmd = s.Exec(s.ctx, host, words...)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s on %s: %w: %s", strings.Join(words, " "), host, err, out)
	}
	return nil
}

// These rules for filter drop or reset TCP packets. Each begins with its nft chain: out for packets that leave the
// host, and in for packets that arrive. dropBelow only affects connections to the sshd of other hosts, which an agent
// uses to reach its children.
const (
	dropOut   = "out meta l4proto tcp drop"
	dropIn    = "in meta l4proto tcp drop"
	dropBelow = "out tcp dport 22 drop"
	reset     = "out meta l4proto tcp reject with tcp reset; in meta l4proto tcp reject with tcp reset"
)

// filter adds rules to a host. unfilter removes them.
func (s *site) filter(host, rules string) error {
	script := "add table inet cut; add chain inet cut out { type filter hook output priority 0; }; " +
		"add chain inet cut in { type filter hook input priority 0; }"
	for rule := range strings.SplitSeq(rules, "; ") {
		script += "; add rule inet cut " + rule
	}
	return s.on(host, "nft", script)
}

func (s *site) unfilter(host string) error { return s.on(host, "nft", "delete table inet cut") }
