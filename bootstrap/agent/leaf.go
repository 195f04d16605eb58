package agent

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/reaper"
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/wire"
	"ibrun/internal/build"
	"ibrun/internal/parked"
)

// LeafMain is Main in the program of a leaf, which has no ssh of its own
// (docs/dev/decisions/0033-lean-agent.md). It reads the first message before it begins anything. If
// that asks for what only the whole program has, or is late, it becomes that.
func LeafMain() int {
	return run(func() (io.Reader, error) {
		if err := greet(); err != nil {
			return nil, err
		}
		var received bytes.Buffer
		frames := wire.Vocabulary.NewReader(io.TeeReader(prompt{}, &received), frame.Parent)
		m, err := frames.Next() // the loop meets the same error
		if m, ok := m.(wire.Launch); ok && err == nil && outgrows(m) || errors.Is(err, errLate) {
			becomeWhole(received.Bytes())
		}
		return io.MultiReader(&received, parked.Reader(os.Stdin)), nil
	})
}

// promptly is within what the first message has to come, and each part of it, in ms. A leaf watches
// over nothing meanwhile: the whole program would notice that its parent is cut off.
const promptly = 1000

var errLate = errors.New("the first message is late")

// prompt is standard input, as long as it comes promptly.
type prompt struct{}

// Read returns errLate, and takes nothing then.
func (prompt) Read(p []byte) (int, error) {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLIN}}, promptly)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case n == 0:
			return 0, errLate
		default:
			return os.Stdin.Read(p)
		}
	}
}

// outgrows reports whether a leaf cannot do what it is told as the whole program would: start nodes
// by native ssh, record its events, or draw its machine and the places of ranks.
func outgrows(m wire.Launch) bool {
	starts := m.Nodes.Len() > 1 || len(m.Share) > 0 || m.Job.Launch.Repair
	return starts && remote.Native(m.Job.Launch) || m.Job.Launch.Record || m.Job.Binding.Topo || m.Job.Binding.Report
}

// becomeWhole executes the whole program, which is in the same file, as this agent. It returns if
// that cannot be: then the user's ssh starts the nodes.
func becomeWhole(received []byte) {
	fd, err := unix.MemfdCreate("received", 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for rest := received; len(rest) > 0; {
		n, err := unix.Write(fd, rest)
		if err != nil {
			return
		}
		rest = rest[n:]
	}
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		return
	}
	argv := []string{os.Args[0], reaper.Agent, build.ID(), strconv.Itoa(fd)}
	_ = syscall.Exec("/proc/self/exe", argv, os.Environ())
}
