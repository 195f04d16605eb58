package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// run starts the command of j, sends its output to the host, and returns its exit code. It reaps all orphans until the
// command has ended, because it runs in the first process of the guest. The code is 128 + N if signal N killed the
// command.
func run(l *line, j job) (code int, err error) {
	os.Clearenv() // remove the kernel's variables, so that LookPath uses the command's PATH
	for _, pair := range append(j.Env, "RDMAVM=1") {
		name, value, _ := strings.Cut(pair, "=")
		if err := os.Setenv(name, value); err != nil {
			return 0, fmt.Errorf("environment %q: %w", name, err)
		}
	}
	if err := os.Chdir(j.Dir); err != nil {
		return 0, err
	}
	path, err := exec.LookPath(j.Command[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return reportStartError(l, j, err)
	}
	input, toInput, err := inputOf(j)
	if err != nil {
		return 0, err
	}
	out, toOut, outErr := newStream(l, frameOut)
	complaint, toErr, complaintErr := newStream(l, frameErr)
	if err := errors.Join(outErr, complaintErr); err != nil {
		return 0, err
	}
	theirs := []*os.File{input, toOut, toErr}
	command, err := os.StartProcess(path, j.Command, &os.ProcAttr{Files: theirs,
		Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return reportStartError(l, j, err)
	}
	for _, file := range theirs {
		file.Close()
	}
	if j.Input {
		go forwardInput(l, toInput)
	}
	status, err := reap(command.Pid)
	if err := errors.Join(err, out.end(l), complaint.end(l)); err != nil {
		return 0, err
	}
	if status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// stream sends the output that the command writes to a pipe to the host: its standard output or its standard error.
type stream struct {
	kind byte
	pipe *os.File
	done chan error
}

// newStream creates a pipe, and starts to send the data that is written to the pipe to the host in frames of this kind.
// It returns the stream, and the end of the pipe for the command.
func newStream(l *line, kind byte) (s stream, write *os.File, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return s, nil, err
	}
	s = stream{kind, read, make(chan error, 1)}
	go func() { s.done <- l.stream(kind, read) }()
	return s, write, nil
}

// end sends the data that is still in the pipe after the command has ended. It does not wait until the pipe is closed,
// because a background process of the command may keep it open.
func (s stream) end(l *line) error {
	if err := s.pipe.SetReadDeadline(time.Now()); err != nil {
		return err
	}
	if err := <-s.done; err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return l.send(s.kind, readAvailable(s.pipe))
}

// readAvailable returns the bytes that are in a pipe now, without waiting for more.
func readAvailable(pipe *os.File) []byte {
	const capacity = 1 << 16 // the default of Linux
	b, n := make([]byte, capacity), 0
	if conn, err := pipe.SyscallConn(); err == nil && pipe.SetReadDeadline(time.Time{}) == nil {
		_ = conn.Read(func(fd uintptr) bool {
			n, _ = unix.Read(int(fd), b) // fails if the pipe is empty
			return true
		})
	}
	return b[:max(n, 0)]
}

// reportStartError sends the reason why the command cannot be started to the host, as standard error of the command. It
// returns the exit code that a shell returns in this case: 127 if the program does not exist, and 126 otherwise.
func reportStartError(l *line, j job, why error) (code int, err error) {
	code = 126
	if errors.Is(why, exec.ErrNotFound) || errors.Is(why, os.ErrNotExist) {
		code = 127
	}
	return code, l.send(frameErr, fmt.Appendf(nil, "rdmavm: %s: %v\n", j.Command[0], errors.Unwrap(why)))
}

// inputOf returns the standard input of the command. If the host sends input, read and write are the ends of a pipe.
// Otherwise read is /dev/null, and write is nil.
func inputOf(j job) (read, write *os.File, err error) {
	if j.Input {
		return os.Pipe()
	}
	read, err = os.Open(os.DevNull)
	return read, nil, err
}

// forwardInput receives the standard input from the host and writes it to the pipe to, until the input ends. It ignores
// write errors, because the command may end before it has read all its input.
func forwardInput(l *line, to *os.File) {
	defer to.Close()
	for {
		kind, content, err := l.receive()
		if err != nil || kind != frameInput || len(content) == 0 {
			return
		}
		_, _ = to.Write(content)
	}
}

// reap reaps ended child processes, including orphans, until pid has ended. It returns the wait status of pid.
func reap(pid int) (status syscall.WaitStatus, err error) {
	for {
		got, err := syscall.Wait4(-1, &status, 0, nil)
		if got == pid || err != nil && err != syscall.EINTR {
			return status, err
		}
	}
}
