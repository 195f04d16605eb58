//go:build cluster || soak

package jobcontrol

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ctrlZ is the key for it.
const ctrlZ = "\x1a"

// terminal is a pseudo terminal with an interactive shell, which does job control.
type terminal struct {
	t      *testing.T
	mark   string // in the environment of all that is started here, behind markName
	shell  *exec.Cmd
	master *os.File
	passed int // bytes of the screen that expect has passed

	mu     sync.Mutex
	screen bytes.Buffer
}

// openTerminal starts the shell, as enter makes the command. What is left of it
// at the end of the test is killed.
func openTerminal(t *testing.T, enter func(args ...string) *exec.Cmd) *terminal {
	master, slave := pseudoTerminal(t)
	c := &terminal{t: t, master: master, mark: fmt.Sprintf("%s.%d", t.Name(), os.Getpid())}
	c.shell = enter("bash", "--norc", "--noprofile", "-i")
	c.shell.Dir = "/" // nodes have it, too
	c.shell.Stdin, c.shell.Stdout, c.shell.Stderr = slave, slave, slave
	c.shell.Env = append(os.Environ(), markName+c.mark, "PS1=ready> ", "TERM=dumb", "HISTFILE=")
	c.shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, c.shell.Start())
	require.NoError(t, slave.Close())
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		c.copy()
	}()
	t.Cleanup(func() {
		for _, p := range c.processes() {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		_ = c.shell.Wait()
		_ = master.Close() // some tests have closed it
		<-copied
	})
	c.expect("ready> ")
	return c
}

// pseudoTerminal makes a pair as pts(4) says. Reading from the master can be interrupted.
func pseudoTerminal(t *testing.T) (master, slave *os.File) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	return os.NewFile(uintptr(fd), "terminal"), slave
}

func (c *terminal) copy() {
	buf := make([]byte, 4<<10)
	for {
		n, err := c.master.Read(buf)
		c.mu.Lock()
		c.screen.Write(buf[:n])
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// text is what the terminal has shown.
func (c *terminal) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.screen.String()
}

// keys presses keys.
func (c *terminal) keys(text string) {
	_, err := c.master.WriteString(text)
	require.NoError(c.t, err)
}

// line types a command.
func (c *terminal) line(format string, args ...any) { c.keys(fmt.Sprintf(format, args...) + "\r") }

// patience is the most that a test waits for an event.
const patience = 3 * time.Minute

// await polls until ok returns true. A look at all processes costs much, so it looks six times a second.
func (c *terminal) await(what string, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); !ok(); <-time.After(150 * time.Millisecond) {
		if time.Now().After(end) { // only now are all processes read
			require.FailNow(c.t, what, "%v\n%s", c.processes(), c.text())
		}
	}
}

// awaitStop waits until the ranks, which are at least so many processes, are stopped.
func (c *terminal) awaitStop(least int) {
	c.t.Helper()
	c.await("all ranks are stopped", func() bool {
		all, stopped := c.ranks()
		return all >= least && stopped == all
	})
}

// expect waits until the terminal has shown a text behind what was expected before.
func (c *terminal) expect(want string) {
	c.t.Helper()
	c.await("the terminal shows "+want, func() bool {
		text := c.text()[c.passed:]
		at := strings.Index(text, want)
		if at < 0 {
			return false
		}
		c.passed += at + len(want)
		return true
	})
}

// markName is the variable of the environment that says which terminal a process belongs to.
const markName = "E2E_MARK="

// process is one of this machine, nodes included.
type process struct {
	pid   int
	state string // of proc(5): R, S, T, ...
	rank  bool   // or what a rank has started
	mark  string // of its terminal
}

// processes are all that belong to the terminal, at some time after the call began.
func (c *terminal) processes() []process {
	all, err := everybody.since(time.Now())
	require.NoError(c.t, err)
	return slices.DeleteFunc(slices.Clone(all), func(p process) bool { return p.mark != c.mark })
}

// everybody is of all terminals.
var everybody census

// census has the processes with a mark. To take it costs much, as the environments of all processes
// of the machine are read. So those who ask while one is taken share the next.
type census struct {
	mu    sync.Mutex
	begun time.Time
	list  []process
}

// since returns what was seen after a time. The slice is not to be changed.
func (s *census) since(at time.Time) ([]process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun.After(at) {
		return s.list, nil
	}
	begun, list := time.Now(), []process(nil)
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		env, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		env = append([]byte{0}, env...)
		_, mark, marked := bytes.Cut(env, []byte("\x00"+markName))
		if !marked {
			continue
		}
		mark, _, _ = bytes.Cut(mark, []byte{0})
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			return nil, err
		}
		if stat, err := os.ReadFile(filepath.Dir(f) + "/stat"); err == nil {
			state := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[0]
			list = append(list, process{pid, state, bytes.Contains(env, []byte("\x00IBRUN_RANK=")), string(mark)})
		}
	}
	s.begun, s.list = begun, list
	return list, nil
}

// ranks are the ranks and what they have started: how many, and how many of
// them are stopped. A parent in vfork sleeps (D) as long as its child is stopped.
func (c *terminal) ranks() (all, stopped int) {
	for _, p := range c.processes() {
		if p.rank && p.state != "Z" {
			all++
		}
		if p.rank && (p.state == "T" || p.state == "D") {
			stopped++
		}
	}
	return all, stopped
}

// others counts the processes of the terminal but its shell and those that are dead.
func (c *terminal) others() (n int) {
	for _, p := range c.processes() {
		if p.pid != c.shell.Process.Pid && p.state != "Z" {
			n++
		}
	}
	return n
}
