package spawn

import (
	"bytes"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// mouth reads from the socket of a control channel. After the read deadline of the socket, it does not wait for data,
// but still reads data that has arrived, because the reader may be late on a busy node. mouth stores received file
// descriptors.
type mouth struct {
	socket
	late int // bytes that were read after the deadline
	fds  []int
}

// lateWords is the maximum number of bytes that are read after the deadline. It is larger than the buffer of a
// socket. It stops the reading from a program that never stops sending.
const lateWords = 1 << 20

func (m *mouth) Read(b []byte) (n int, err error) {
	raw, err := m.SyscallConn()
	if err != nil {
		return 0, io.EOF // it was closed
	}
	var fail error
	err = raw.Read(func(fd uintptr) bool {
		n, fail = m.receive(int(fd), b)
		return fail != unix.EAGAIN
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		receive := func(fd uintptr) { n, fail = m.receive(int(fd), b) }
		if m.late < lateWords && raw.Control(receive) == nil && fail == nil && n > 0 {
			m.late += n
			return n, nil
		}
		return 0, err
	}
	if err != nil || fail != nil || n <= 0 { // one of the two ends has closed the socket
		return 0, io.EOF
	}
	return n, nil
}

// receive makes one read from the socket without waiting.
func (m *mouth) receive(fd int, b []byte) (n int, err error) {
	var oob [64]byte
	oobn := 0
	for {
		n, oobn, _, _, err = unix.Recvmsg(fd, b, oob[:], unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			break
		}
	}
	if err == nil && oobn > 0 {
		if list, fail := unix.ParseSocketControlMessage(oob[:oobn]); fail == nil {
			for i := range list {
				fds, _ := unix.ParseUnixRights(&list[i])
				m.fds = append(m.fds, fds...)
			}
		}
	}
	return n, err
}

// take returns the file descriptors received since the last call.
func (m *mouth) take() (fds []int) {
	fds, m.fds = m.fds, nil
	return fds
}

// discard closes the received file descriptors.
func (m *mouth) discard() {
	for _, fd := range m.take() {
		unix.Close(fd)
	}
}

// shut shuts the socket down, so that processes that write to it or wait for an answer fail at once.
func (m *mouth) shut() {
	if raw, err := m.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
}

// pmiChunk is the maximum number of bytes of PMI that are reported at a time.
const pmiChunk = 4096

// readPMI calls said with each piece that it reads. The piece is a copy that said may retain. The copy has the exact
// length, because a client may send much data in small pieces.
func readPMI(in io.Reader, said func(words []byte)) {
	b := make([]byte, pmiChunk)
	for {
		n, err := in.Read(b)
		if n > 0 {
			said(bytes.Clone(b[:n]))
		}
		if err != nil {
			return
		}
	}
}
