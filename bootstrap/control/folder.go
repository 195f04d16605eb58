// Package control implements the control socket, through which ibrun ctl sends requests to a running job. It chooses
// the path of the socket, refuses connections of other users, and reads and writes requests and responses as lines of
// JSON. The root agent of the job carries out the requests.
//
// The package also converts the states of ranks, which agents report, to JSON and to text for users (Standing).
package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const suffix = ".sock"

// making is the same of a socket on which nobody listens yet.
const making = ".new"

// Folder is where the sockets of this user's jobs are.
func Folder() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "ibrun")
	}
	return fmt.Sprintf("/tmp/ibrun-%d", os.Geteuid())
}

// check makes sure that a folder is this user's and closed to others.
func check(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "look at", Path: dir, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is no folder", dir)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d", dir, st.Uid)
	case st.Mode&0o077 != 0:
		return fmt.Errorf("%s is open to other users (mode %04o)", dir, st.Mode&0o7777)
	}
	return nil
}

// Listener is the socket of a job.
type Listener struct {
	*net.UnixListener
	path string
}

// Close removes the socket and wakes whoever accepts.
func (l *Listener) Close() error {
	_ = os.Remove(l.path)
	return l.UnixListener.Close()
}

// Listen makes the socket of a job. The error says why there is none. The socket gets its name when
// somebody listens: before that a caller would take it for one that has been left, and remove it.
func Listen(jobID string) (*Listener, error) {
	dir := Folder()
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if err := check(dir); err != nil {
		return nil, err
	}
	// What others can change of the path is the folder's own name, in a folder with the sticky bit.
	first, path := filepath.Join(dir, jobID+making), filepath.Join(dir, jobID+suffix)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: first, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Rename(first, path); err != nil {
		_ = os.Remove(first)
		l.Close()
		return nil, err
	}
	return &Listener{l, path}, nil
}

// Jobs are the IDs of this user's jobs on this machine. Sockets of jobs that are gone are removed.
func Jobs() (ids []string, err error) {
	dir := Folder()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = check(dir)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		removeUnfinished(dir, e)
		id, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok {
			continue
		}
		c, err := net.DialTimeout("unix", filepath.Join(dir, e.Name()), dialPatience)
		switch {
		case err == nil:
			c.Close()
			ids = append(ids, id)
		case errors.Is(err, syscall.ECONNREFUSED):
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	return ids, nil
}

// removeUnfinished removes the socket of a job that was killed before it listened. Nobody takes so
// long for that.
func removeUnfinished(dir string, e os.DirEntry) {
	if !strings.HasSuffix(e.Name(), making) {
		return
	}
	if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > time.Minute {
		_ = os.Remove(filepath.Join(dir, e.Name()))
	}
}

const dialPatience = 5 * time.Second
