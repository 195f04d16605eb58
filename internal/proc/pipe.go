package proc

import (
	"os"

	"golang.org/x/sys/unix"
)

// PipeFrom makes a pipe into which a child writes. The child's end blocks, as
// programs expect it; os.Pipe's would be registered with the runtime's poller
// first and taken from it again, which costs a child as much as six system calls.
func PipeFrom() (ours, theirs *os.File, err error) { return pipe(0) }

// PipeTo makes a pipe from which a child reads.
func PipeTo() (theirs, ours *os.File, err error) {
	ours, theirs, err = pipe(1)
	return theirs, ours, err
}

// pipe makes a pipe of which we keep end 0, that for reading, or 1.
func pipe(end int) (ours, theirs *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if err := unix.SetNonblock(fds[end], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[end]), "pipe"), os.NewFile(uintptr(fds[1-end]), "pipe to a child"), nil
}
