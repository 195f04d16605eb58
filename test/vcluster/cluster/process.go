package cluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Proc is a process on a host.
type Proc struct {
	Pid     int // the process id on the machine, as in syscall.Kill
	NodePid int // the process id that processes on the host see, or 0 if the process has ended
	Argv    []string
}

// String returns p.Pid and the arguments, separated by spaces.
func (p Proc) String() string { return fmt.Sprintf("%d %s", p.Pid, strings.Join(p.Argv, " ")) }

// Processes returns all live processes of a host except for its init.
func (c *Cluster) Processes(name string) (procs []Proc, err error) {
	err = c.fault(name, func(h *host) (err error) {
		procs, err = processes(h.pid(), h.pid())
		return err
	})
	return procs, err
}

// AllProcesses returns the processes of each host except for its init. The keys of the map are host names. AllProcesses
// reads /proc once, and so is faster than a call of Processes for each host.
func (c *Cluster) AllProcesses() (map[string][]Proc, error) {
	names := map[string]string{} // of hosts, by their network namespaces
	inits := map[int]bool{}
	for _, h := range c.hosts {
		network, err := networkOf(h.pid())
		if err != nil {
			return nil, fmt.Errorf("vcluster: %s: %w", h.name, err)
		}
		names[network], inits[h.pid()] = h.name, true
	}
	all := map[string][]Proc{}
	err := eachProcess(func(pid int, network string) {
		if name, ok := names[network]; ok && !inits[pid] {
			all[name] = append(all[name], newProc(pid))
		}
	})
	return all, err
}

// processes returns all processes in the network namespace of the process holder, except for the process except. It
// does not return zombies, because they are in no namespace.
func processes(holder, except int) (procs []Proc, err error) {
	want, err := networkOf(holder)
	if err != nil {
		return nil, err
	}
	err = eachProcess(func(pid int, network string) {
		if network == want && pid != except {
			procs = append(procs, newProc(pid))
		}
	})
	return procs, err
}

func networkOf(pid int) (string, error) { return os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid)) }

// eachProcess calls f for each process of the machine that is in a network namespace.
func eachProcess(f func(pid int, network string)) error {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		if network, err := networkOf(pid); err == nil {
			f(pid, network)
		}
	}
	return nil
}

func newProc(pid int) Proc {
	p := Proc{Pid: pid, NodePid: nodePid(pid)}
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
		p.Argv = strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	}
	return p
}

// nodePid returns the id of a process in its innermost PID namespace, or 0 if the process has ended.
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

// signalAll sends sig once to each process in the network namespace of the process holder, except for the process
// except. It repeats this for processes that have been started in the meantime, until there are none.
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
