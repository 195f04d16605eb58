package safefile

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// SharedMemory is where MPI libraries make files that processes of a node share.
const SharedMemory = "/dev/shm"

// uncertain begins the names of files whose maker removes them itself, unless it is killed: those
// of UCX, which MPICH and Open MPI use. The rest of the name is random, so nobody else knows it.
const uncertain = "ucx_shm_posix_"

// SweepNode removes all that killed processes of this user have left on this node: abandoned
// folders where temporary files are, and unused files of shared memory.
func SweepNode() {
	Sweep(os.TempDir())
	Unused(SharedMemory)
}

// Unused removes the files of UCX in dir that are this user's and that no process has open or
// mapped, in whatever namespace it is: fcntl(2) with F_SETLEASE and F_WRLCK fails for all others.
// UCX keeps such a file mapped from the moment that it makes it.
func Unused(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), uncertain) && e.Type().IsRegular() {
			removeUnused(dir, e.Name())
		}
	}
}

func removeUnused(dir, name string) {
	fd, err := unix.Open(filepath.Join(dir, name), unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return
	}
	folder, err := Open(dir)
	if err != nil {
		return
	}
	defer folder.Close()
	_ = folder.Remove(name) // refuses what is another user's
}
