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
	"time"

	"golang.org/x/sys/unix"
)

const suffix = ".sock"

// making is the suffix of a socket on which the job does not listen yet.
const making = ".new"

// places contains the parents of the folders in which a user's jobs create their sockets.
type places struct {
	runtime string // $XDG_RUNTIME_DIR, or empty if that is not an absolute path
	tmp     string // a folder with the sticky bit, in which all users can create files
}

func usualPlaces() places {
	p := places{tmp: "/tmp"}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		p.runtime = dir
	}
	return p
}

// folders returns the folders that may contain sockets of this user's jobs: the one in p.runtime, or those in p.tmp if
// that one cannot be used. A folder may not exist. A folder in p.tmp may belong to another user.
func (p places) folders() []string {
	if dir := filepath.Join(p.runtime, "ibrun"); p.runtime != "" && usable(dir) {
		return []string{dir}
	}
	first := filepath.Join(p.tmp, fmt.Sprintf("ibrun-%d", os.Geteuid()))
	others, _ := filepath.Glob(first + ".*")
	return append([]string{first}, others...)
}

// maxFolder is the maximum length in bytes of a folder's path, so that the path of a socket in it fits in sun_path
// (unix(7)), which has 108 bytes with a NUL. A job's ID has 16 digits.
const maxFolder = 107 - len("/0123456789abcdef"+suffix)

// usable reports whether dir can contain sockets of this user's jobs, or could after it is created.
func usable(dir string) bool {
	err := check(dir)
	if errors.Is(err, os.ErrNotExist) {
		err = unix.Access(filepath.Dir(dir), unix.W_OK|unix.X_OK)
	}
	return err == nil && len(dir) <= maxFolder
}

// errNotOurs means that a path is not a folder, or is a folder that another user owns or can access.
var errNotOurs = errors.New("it is not a folder of this user alone")

// check returns an error unless dir is a folder that this user owns and other users cannot access.
func check(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "look at", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return fmt.Errorf("%s: %w", dir, errNotOurs)
	}
	return nil
}

// Listener is the socket of a job.
type Listener struct {
	*net.UnixListener
	path string
}

// Close closes and removes the socket. It removes the folder if the folder is then empty. Blocked calls of Accept
// return.
func (l *Listener) Close() error {
	_ = os.Remove(l.path)
	_ = os.Remove(filepath.Dir(l.path)) // fails if the folder contains other sockets
	return l.UnixListener.Close()
}

// Listen creates the socket of a job in the first of the user's folders that can be used, or in a new folder if none
// can. It removes the sockets of ended jobs from the folders that it tries.
func Listen(jobID string) (*Listener, error) { return usualPlaces().listen(jobID) }

func (p places) listen(jobID string) (*Listener, error) {
	for _, dir := range p.folders() {
		if l, err := listenIn(dir, jobID); err == nil {
			return l, nil
		}
	}
	dir, err := os.MkdirTemp(p.tmp, fmt.Sprintf("ibrun-%d.*", os.Geteuid()))
	if err != nil {
		return nil, err
	}
	l, err := bind(dir, jobID)
	if err != nil {
		_ = os.Remove(dir)
	}
	return l, err
}

// listenIn creates dir if it does not exist, and the socket of a job in dir. It retries if another job removes dir at
// the same time.
func listenIn(dir, jobID string) (l *Listener, err error) {
	for range 10 {
		made := os.Mkdir(dir, 0o700)
		if made != nil && !errors.Is(made, os.ErrExist) {
			return nil, made
		}
		if l, err = bind(dir, jobID); err != nil && made == nil {
			_ = os.Remove(dir)
		}
		if !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return l, err
}

// bind creates the socket of a job in dir, which must exist. The socket gets its final name only after the job listens
// on it, because another ibrun removes sockets without a listener.
func bind(dir, jobID string) (*Listener, error) {
	if _, err := jobsIn(dir); err != nil {
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

// Jobs returns the IDs of this user's jobs on this machine. It removes the sockets of ended jobs.
func Jobs() (ids []string, err error) { return usualPlaces().jobs() }

func (p places) jobs() (ids []string, err error) {
	for _, dir := range p.folders() {
		found, e := jobsIn(dir)
		ids = append(ids, found...)
		if !errors.Is(e, os.ErrNotExist) && !errors.Is(e, errNotOurs) {
			err = errors.Join(err, e)
		}
	}
	return ids, err
}

// jobsIn returns the IDs of the jobs that have a socket in dir, and removes the sockets of ended jobs.
func jobsIn(dir string) (ids []string, err error) {
	if err := check(dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		removeUnfinished(dir, e)
		id, ok := strings.CutSuffix(e.Name(), suffix)
		switch path := filepath.Join(dir, e.Name()); {
		case !ok:
		case isDead(path):
			_ = os.Remove(path)
		default:
			ids = append(ids, id)
		}
	}
	return ids, err
}

// isDead reports whether no process listens on the socket at path. It does not block if the listening process is
// stopped.
func isDead(path string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return errors.Is(unix.Connect(fd, &unix.SockaddrUnix{Name: path}), unix.ECONNREFUSED)
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
