//go:build !amd64

package proc

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// birth is over when fork returns: nobody but the kernel can wait for it here.
type birth struct{}

// fork stops this process for as long as an exec takes. One that hangs leaves an agent
// that hangs, which its reaper ends.
func fork(c Cmd, files []int) (pid int, b *birth, err error) {
	attr := &syscall.ProcAttr{Dir: c.Dir, Env: c.Env, Sys: &syscall.SysProcAttr{Setsid: c.Setsid || c.Terminal,
		Setctty: c.Terminal, Setpgid: c.Setpgid && !c.Terminal, Ptrace: c.Hold}}
	for _, f := range files {
		attr.Files = append(attr.Files, uintptr(f))
	}
	if !c.Orphan {
		attr.Sys.Pdeathsig = syscall.SIGKILL
	}
	if c.Group != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(c.Group.Fd())
	}
	if pid, err = syscall.ForkExec(c.Path, c.Argv, attr); err != nil {
		return 0, nil, &os.PathError{Op: "exec", Path: c.Path, Err: err}
	}
	for _, l := range c.Limits { // without Hold, the program may run briefly before its limits are set
		_ = unix.Prlimit(pid, l.Resource, &unix.Rlimit{Cur: l.Soft, Max: l.Hard}, nil)
	}
	return pid, nil, nil
}

func (*birth) awaitProgram(Cmd, int) syscall.Signal { return 0 }

func (*birth) result(Cmd) error { return nil }
