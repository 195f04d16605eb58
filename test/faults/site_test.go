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
	dir   string          // of the front's: costs, temporary files, output
	ranks string          // programs, as all hosts see them
	quiet map[int]bool    // processes that belong to no job
	job   *job            // the one that runs
	files map[string]bool // on the nodes, when no job had run
}

func newSite(t *testing.T) (*site, error) {
	if err := buildRanks(); err != nil {
		return nil, err
	}
	c, err := cluster.Up(t.Context(), cluster.Config{Nodes: nodes})
	if err != nil {
		return nil, err
	}
	s := &site{Cluster: c, ctx: t.Context(), dir: t.TempDir(), ranks: c.Shared()}
	s.quiet, s.files = map[int]bool{}, c.Files()
	if err := command("cp", "-r", programs, s.ranks); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	s.ranks = filepath.Join(s.ranks, "ranks")
	all, err := c.AllProcesses()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for _, procs := range all {
		for _, p := range procs {
			s.quiet[p.Pid] = true
		}
	}
	return s, nil
}

func (s *site) close() { _ = s.Close() }

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

// process is one of a job.
type process struct {
	cluster.Proc
	host, role string
}

func (p process) String() string { return fmt.Sprintf("%s on %s (%.120s)", p.role, p.host, p.Proc) }

// processes are all that do not belong to the cluster itself.
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

// roleOf tells what a process is by its own arguments and those of the ones above it.
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
	if is(up, subreaper.Agent) && sessionOf(p.Pid) == sessionOf(up.Pid) { // not one that fell to its agent
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
		return spawned // it has left its session, and is the reaper's or its node's init's now
	}
	return shell
}

// parentOf is the parent of a process, 0 if it is gone.
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

// aim takes hold of a process, so that it is hit and not another that has its number later.
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

// litter are files that were not there before the first job, on the nodes and the front.
func (s *site) litter() []string {
	temporary, _ := filepath.Glob(filepath.Join(s.dir, "tmp", "*"))
	return append(s.Litter(s.files), temporary...)
}

// until polls, since most of what is looked for here tells nobody.
func (s *site) until(most time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(most); !ok(); {
		if time.Now().After(deadline) {
			return false
		}
		select {
		case <-time.After(25 * time.Millisecond):
		case <-s.ctx.Done():
			return false
		}
	}
	return true
}
