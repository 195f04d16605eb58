package reaper

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"ibrun/internal/safefile"
)

// The first arguments of a reaper that is process 1 of a PID namespace of its own
// (docs/dev/decisions/0022-containment.md): when it ends, however, the kernel kills all others there.
const (
	Contain = ":contain" // makes the namespaces, and waits outside of them
	Inside  = ":inside"  // process 1: becomes the reaper when it has a /proc of its own
)

// capSysAdmin is CAP_SYS_ADMIN of capabilities(7), which mount(2) wants.
const capSysAdmin = 21

// KilledCode is the exit code of ContainMain if a signal killed the reaper. The agent dies together with the reaper, so
// the agent cannot report the signal.
const KilledCode = 123

// ContainMain starts a reaper as process 1, with this process's descriptors 0, 1 and 2, and
// returns its exit code.
func ContainMain(args []string) int {
	runtime.LockOSThread() // the parent-death signal comes when the thread that forked dies
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(20)
	shrug()
	signals := catchPassed()
	first, err := startFirst(args, os.Geteuid() != 0)
	if os.Geteuid() == 0 && errors.Is(err, unix.EPERM) { // root of a container that may not mount
		first, err = startFirst(args, true)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "ibrun: --contain: this node gives the user no PID namespace: %v; "+
			"hint: unshare --user --pid --fork --mount-proc true\n", err)
		return 125
	}
	signals.passOn(first.Process.Pid, func(s syscall.Signal) syscall.Signal { return s })
	letGo(0, 1, 2) // whoever reads them is to see the end of the agent
	_ = first.Wait()
	safefile.SweepNode() // the agent has ended, and its reaper may have been killed before it called SweepNode
	ended := first.ProcessState.Sys().(syscall.WaitStatus)
	if ended.Signaled() {
		return KilledCode
	}
	return ended.ExitStatus()
}

// startFirst starts process 1 of new namespaces. Without privilege it needs a user namespace,
// in which only this user's own numbers exist.
func startFirst(args []string, asUser bool) (*exec.Cmd, error) {
	c := exec.Command("/proc/self/exe")
	c.Args = append([]string{os.Args[0], Inside}, args...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if asUser {
		c.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		c.SysProcAttr.AmbientCaps = []uintptr{capSysAdmin} // an exec by another user than root ends all others
	}
	return c, c.Start()
}

// InsideMain is process 1 until it becomes the reaper. What is mounted here is seen nowhere else.
func InsideMain(args []string) int {
	runtime.LockOSThread() // capabilities are a thread's
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
	if err == nil {
		err = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
	if err == nil {
		err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	}
	if err == nil {
		err = syscall.Exec("/proc/self/exe", append([]string{os.Args[0], Role}, args...), os.Environ())
	}
	fmt.Fprintf(os.Stderr, "ibrun: --contain: no /proc for the PID namespace of this node: %v; "+
		"hint: unshare --user --pid --fork --mount-proc true\n", err)
	return 125
}
