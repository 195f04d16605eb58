package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// These constants name the roles in which the package executes the importing program again. A process has a role if the
// base name of os.Args[0] is its name.
const (
	roleInit  = "vcluster-init"  // is PID 1 of a node, or keeps the namespaces of the front alive
	roleEnter = "vcluster-enter" // enters the front and executes a command there
	roleExec  = "vcluster-exec"  // asks the init of a node to run a command, for Exec
	roleSweep = "vcluster-sweep" // removes the directory and the cgroups of a cluster at its end
	roleVRSH  = "vrsh"           // is the client of the rsh stand-in
)

func init() {
	if len(os.Args) == 0 {
		return
	}
	// Call syscall.Exit, because os.Exit sleeps for a second under the race detector.
	switch filepath.Base(os.Args[0]) {
	case roleInit:
		syscall.Exit(runInit())
	case roleEnter:
		syscall.Exit(runEnter(os.Args[1:]))
	case roleExec:
		syscall.Exit(runExec(os.Args[1:]))
	case roleSweep:
		syscall.Exit(runSweep(os.Args[1]))
	case roleVRSH:
		syscall.Exit(runVRSH(os.Args[1:]))
	}
}

// runEnter moves this process to the cgroups and namespaces of the front and executes a command. It returns an exit
// code only if that fails. Its arguments are the process id of the init of the front, the paths of the files
// cgroup.procs of the front, separated by spaces, and the words of the command.
func runEnter(args []string) int {
	if len(args) < 3 {
		fmt.Fprintln(os.Stderr, "vcluster: no command to run on the front")
		return 2
	}
	wd, wdErr := os.Getwd()
	for _, procs := range strings.Fields(args[1]) {
		// Ignore errors: outside of the cgroup the command still runs, but Freeze and CPU do not include it.
		_ = os.WriteFile(procs, []byte("0"), 0)
	}
	if err := enter("/proc/" + args[0] + "/ns/"); err != nil {
		fmt.Fprintf(os.Stderr, "vcluster: entering the front: %v (is the cluster still up?)\n", err)
		return 125
	}
	if wdErr == nil && os.Chdir(wd) != nil {
		wd = "/"
		_ = os.Chdir(wd)
	}
	_ = os.Setenv("PATH", runDir+":"+os.Getenv("PATH"))
	path, err := exec.LookPath(args[2])
	if err == nil {
		err = syscall.Exec(path, args[2:], os.Environ())
	}
	fmt.Fprintf(os.Stderr, "vcluster: %s: %v\n", args[2], err)
	return 127
}

// enter moves the calling thread, and so whatever it executes, into the namespaces under dir.
func enter(dir string) error {
	runtime.LockOSThread()
	var fds []int
	for _, name := range []string{"net", "uts", "ipc", "mnt"} {
		fd, err := unix.Open(dir+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		fds = append(fds, fd)
	}
	// A mount namespace is joined only by a thread that shares its working directory with no other.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	for _, fd := range fds {
		if err := unix.Setns(fd, 0); err != nil {
			return err
		}
	}
	return nil
}
