package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Proc is a process on a host.
type Proc struct {
	Pid     int // as the machine counts: signals can be sent to it
	NodePid int // as the node counts
	Argv    []string
}

// String is the process as ps would show it.
func (p Proc) String() string { return fmt.Sprintf("%d %s", p.Pid, strings.Join(p.Argv, " ")) }

// Processes lists what runs on a host: all processes but its init and those that are dead already.
func (c *Cluster) Processes(name string) (procs []Proc, err error) {
	err = c.fault(name, func(h *host) (err error) {
		procs, err = processes(h.pid(), h.pid())
		return err
	})
	return procs, err
}

// processes finds all members of a process's network namespace but one process. A dead process is in none.
func processes(holder, except int) ([]Proc, error) {
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", holder))
	if err != nil {
		return nil, err
	}
	return inNamespace(want, except)
}

func inNamespace(want string, except int) ([]Proc, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var procs []Proc
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil || pid == except {
			continue
		}
		if ns, err := os.Readlink(filepath.Join("/proc", name.Name(), "ns/net")); err != nil || ns != want {
			continue
		}
		p := Proc{Pid: pid, NodePid: nodePid(pid)}
		if text, err := os.ReadFile(filepath.Join("/proc", name.Name(), "cmdline")); err == nil {
			p.Argv = strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
		}
		procs = append(procs, p)
	}
	return procs, nil
}

// nodePid reads the innermost process id.
func nodePid(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(rest)
			inner, _ := strconv.Atoi(fields[len(fields)-1])
			return inner
		}
	}
	return 0
}

// signalAll signals all processes of a host but one until a round meets none that is new.
func signalAll(holder int, sig syscall.Signal, except int) error {
	met := map[int]bool{}
	for {
		procs, err := processes(holder, except)
		if err != nil {
			return err
		}
		fresh := false
		for _, p := range procs {
			if !met[p.Pid] {
				met[p.Pid], fresh = true, true
				_ = syscall.Kill(p.Pid, sig)
			}
		}
		if !fresh {
			return nil
		}
	}
}

// killAll kills all processes of a host but one and returns when none is left.
func killAll(holder, except int) error {
	for deadline := time.Now().Add(stopDeadline); ; time.Sleep(time.Millisecond) {
		procs, err := processes(holder, except)
		if err != nil || len(procs) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("still there after SIGKILL: %v", procs)
		}
		for _, p := range procs {
			_ = syscall.Kill(p.Pid, syscall.SIGKILL)
		}
	}
}

// killListed kills the processes that a cgroup.procs file lists.
func killListed(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	for _, word := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 1 && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
