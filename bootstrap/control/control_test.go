package control

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ibrun/test/waitfor"

	"github.com/stretchr/testify/require"
)

// echo answers with the verb, as the ID of a job.
func echo(r Request, put func(Response) error, gone <-chan struct{}) {
	if r.Verb == "wait" {
		<-gone
		return
	}
	_ = put(Response{Job: &Job{ID: r.Verb}, Done: true})
}

// served is the socket of a job that answers.
func served(t *testing.T) (path string, l *Listener) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	l, err := Listen("abc")
	require.NoError(t, err)
	over := make(chan struct{})
	go func() { Serve(l, echo); close(over) }()
	t.Cleanup(func() {
		l.Close()
		<-over
		require.NoFileExists(t, l.path)
	})
	return l.path, l
}

func TestAsk(t *testing.T) {
	path, _ := served(t)
	ids, err := Jobs()
	require.NoError(t, err)
	require.Equal(t, []string{"abc"}, ids)
	st, err := os.Stat(filepath.Dir(path))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), st.Mode().Perm())
	c, err := Dial("abc")
	require.NoError(t, err)
	defer c.Close()
	for _, verb := range []string{"one", "two"} {
		got := ""
		require.NoError(t, c.Ask(Request{Verb: verb}, func(r Response) error {
			got = r.Job.ID
			return nil
		}))
		require.Equal(t, verb, got)
	}
	_, err = Dial("../abc")
	require.Error(t, err)
}

// sends sends bytes and returns all that comes back until the job hangs up, or a line.
func sends(t *testing.T, path string, bytes []byte) string {
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer c.Close()
	go func() { _, _ = c.Write(bytes) }()
	line, _ := bufio.NewReader(c).ReadString('\n')
	return line
}

// Malformed and endless requests are refused in words, and others are answered as before.
func TestBadRequests(t *testing.T) {
	path, _ := served(t)
	endless := bytes.Repeat([]byte("x"), 10*mostRequest)
	for name, c := range map[string]struct {
		sent []byte
		want string
	}{
		"no JSON":       {[]byte("hello\n"), "not a request"},
		"a wrong type":  {[]byte(`{"verb":7}` + "\n"), "not a request"},
		"unknown field": {[]byte(`{"verb":"x","hack":1}` + "\n"), "unknown field"},
		"endless":       {endless, "at most 65536 bytes"},
		"empty":         {[]byte("\n"), "not a request"},
		"bytes":         {[]byte{0xff, 0, 1, '\n'}, "not a request"},
	} {
		require.Contains(t, sends(t, path, c.sent), c.want, name)
		require.Contains(t, sends(t, path, []byte(`{"verb":"again"}`+"\n")), "again", name)
	}
}

// Callers beyond the most are told so, and the end of a caller ends its request.
func TestManyCallers(t *testing.T) {
	path, _ := served(t)
	var open []net.Conn
	for range mostCallers {
		c, err := net.Dial("unix", path)
		require.NoError(t, err)
		_, err = c.Write([]byte(`{"verb":"wait"}` + "\n"))
		require.NoError(t, err)
		open = append(open, c)
	}
	require.Contains(t, sends(t, path, nil), "others ask this job already")
	for _, c := range open {
		c.Close()
	}
	waitfor.Require(t, "another caller is answered", func() bool {
		return strings.Contains(sends(t, path, []byte(`{"verb":"again"}`+"\n")), `"again"`)
	})
}

// TestFolderOfOthers checks that Listen uses no folder that another user owns or can access, and no link. The test
// creates such folders or links with all names that Listen tries first. Listen must create another folder, and Jobs and
// Dial must find the job there.
func TestFolderOfOthers(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"open to other users": func(dir string) error { return os.Chmod(dir, 0o755) },
		"a link": func(dir string) error {
			if err := os.Remove(dir); err != nil {
				return err
			}
			return os.Symlink(t.TempDir(), dir)
		},
		"another user's": func(dir string) error {
			if os.Geteuid() != 0 {
				return os.Chmod(dir, 0o777)
			}
			return os.Chown(dir, 65534, 65534)
		},
	} {
		p := places{runtime: t.TempDir(), tmp: t.TempDir()}
		first := filepath.Join(p.tmp, fmt.Sprintf("ibrun-%d", os.Geteuid()))
		spoiled := []string{p.folders()[0], first, first + ".1"}
		for _, dir := range spoiled {
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, spoil(dir))
		}
		l, err := p.listen("abc")
		require.NoError(t, err, name)
		require.NotContains(t, spoiled, filepath.Dir(l.path), name)
		ids, err := p.jobs()
		require.NoError(t, err, name)
		require.Equal(t, []string{"abc"}, ids, name)
		c, err := p.dial("abc")
		require.NoError(t, err, name)
		c.Close()
		require.NoError(t, l.Close())
		require.NoDirExists(t, filepath.Dir(l.path), name)
		_, err = p.dial("abc")
		require.EqualError(t, err, "no such job of yours runs on this machine", name)
	}
}

// TestFolderThatCannotBeUsed checks that Listen uses a folder in /tmp if the runtime folder of the user does not exist,
// or if its path is too long for a socket.
func TestFolderThatCannotBeUsed(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 230))
	require.NoError(t, os.Mkdir(long, 0o700))
	for _, dir := range []string{filepath.Join(t.TempDir(), "none"), long} {
		p := places{runtime: dir, tmp: t.TempDir()}
		l, err := p.listen("abc")
		require.NoError(t, err)
		require.Equal(t, p.tmp, filepath.Dir(filepath.Dir(l.path)))
		require.NoError(t, l.Close())
		require.NoDirExists(t, filepath.Join(dir, "ibrun"))
	}
}

// TestStale checks that Jobs, and Listen for another job, remove the socket of a job that was killed. They also remove
// the socket of a job that was killed before it listened, if the socket is more than a minute old.
func TestStale(t *testing.T) {
	p := places{runtime: t.TempDir()}
	dir := p.folders()[0]
	ids, err := p.jobs()
	require.NoError(t, err)
	require.Empty(t, ids)
	for _, look := range []func(){
		func() {
			ids, err := p.jobs()
			require.NoError(t, err)
			require.Empty(t, ids)
		},
		func() {
			l, err := p.listen("next")
			require.NoError(t, err)
			require.NoError(t, l.Close())
			require.DirExists(t, dir, "it has a socket")
		},
	} {
		l, err := p.listen("dead")
		require.NoError(t, err)
		l.UnixListener.Close()
		require.FileExists(t, filepath.Join(dir, "dead.sock"))
		fresh, old := filepath.Join(dir, "fresh.new"), filepath.Join(dir, "old.new")
		for _, path := range []string{fresh, old} {
			require.NoError(t, os.WriteFile(path, nil, 0o600))
		}
		require.NoError(t, os.Chtimes(old, time.Time{}, time.Unix(1, 0)))
		look()
		require.NoFileExists(t, filepath.Join(dir, "dead.sock"))
		require.NoFileExists(t, old)
		require.FileExists(t, fresh)
	}
}

// A socket is not taken for one that has been left while it is made.
func TestAskedWhileMade(t *testing.T) { askWhileMade(t, 50) }

// askWhileMade lists the jobs over and over while sockets are made and called.
func askWhileMade(t *testing.T, rounds int) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	var looks atomic.Uint32
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			default:
				_, _ = Jobs()
				looks.Add(1)
			}
		}
	}()
	defer func() { close(over); <-ended }()
	for i := range rounds {
		id := fmt.Sprint("job", i) // as jobs have: a look may remove what is left of the one before
		l, err := Listen(id)
		require.NoError(t, err)
		for from := looks.Load(); looks.Load() < from+2; {
			runtime.Gosched()
		}
		c, err := Dial(id)
		require.NoError(t, err)
		c.Close()
		l.Close()
	}
}

// TestFolders checks the list of folders for several values of XDG_RUNTIME_DIR, and the order of preference.
func TestFolders(t *testing.T) {
	for dir, want := range map[string]places{
		"/run/user/7": {runtime: "/run/user/7", tmp: "/tmp"}, "relative": {tmp: "/tmp"}, "": {tmp: "/tmp"},
	} {
		t.Setenv("XDG_RUNTIME_DIR", dir)
		require.Equal(t, want, usualPlaces())
	}
	p := places{runtime: t.TempDir(), tmp: t.TempDir()}
	require.Equal(t, []string{filepath.Join(p.runtime, "ibrun")}, p.folders())
	first := filepath.Join(p.tmp, fmt.Sprintf("ibrun-%d", os.Geteuid()))
	require.NoError(t, os.Mkdir(first+".new", 0o700))
	require.Equal(t, []string{first, first + ".new"}, places{tmp: p.tmp}.folders())
}
