package lazy

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"ibrun/fabric"
	"ibrun/internal/poll"
)

// reader reads messages from a stream. One system call reads several short messages. The rest of a long message is read
// directly into the memory of that message.
//
// A reader of a socket takes its buffer from a pool that all streams share. It returns the buffer when no data is left
// to read.
type reader struct {
	conn   fabric.Stream
	raw    syscall.RawConn // nil if conn is not a socket
	tcp    bool            // conn is a TCP connection
	memory *bufferPool

	buf      *[]byte // data read ahead; nil if the reader holds no buffer
	from, to int     // buf[from:to] has not been consumed
	long     bool    // the last message had longLast bytes or more; then little is read ahead, to avoid copies

	m         []byte // memory of the current message; nil until its head has arrived
	got, size int    // bytes of the message that are in m, and bytes of the whole message

	// The following fields are arguments, results and state of the system calls that read data.
	rest []byte // part of m that is read into directly; empty if the data goes to buf
	wait bool   // wait until data arrives
	n    int    // number of bytes read
	full bool   // the last call filled all of rest and room, so more data is probably waiting
	err  error
	fd   int
	room []byte                // free part of buf
	low  int                   // SO_RCVLOWAT of a TCP socket in bytes, as set last; 0 if not set yet
	call func(fd uintptr) bool // once
	try  func() bool           // calls read; returns false if there is nothing to read

	spin poll.Spinner // polls before the reader sleeps
}

const (
	// readAhead is the size in bytes of a shared buffer, and readAheadOwn that of the buffer of a stream that is
	// not a socket.
	readAhead    = 256 << 10
	readAheadOwn = 64 << 10
	// readBehind is the maximum number of bytes that are read ahead after a long message.
	readBehind = 4 << 10
	// longRest is the minimum number of missing bytes of a message that are read directly into its memory. longLast
	// is the minimum length in bytes of a message after which the next one is expected to be long, too.
	longRest = 8 << 10
	longLast = 32 << 10
	// lowBytes is the number of bytes for which the kernel wakes the reader (SO_RCVLOWAT) if at least twice as many
	// bytes of a message are missing. Waking it for each few packets would take an eighth of the processor time
	// (decision 0038). The value is limited to 1/lowPart of the receive buffer: a packet may take several times its
	// length in that buffer, and Linux before 5.7 does not wake the reader if the buffer is full with fewer bytes.
	lowBytes = 128 << 10
	lowPart  = 8
	// batchBytes is the number of bytes after which next returns a batch, even if more messages are waiting.
	batchBytes = 256 << 10
)

var readBuffers = sync.Pool{New: func() any { return new(make([]byte, readAhead)) }}

func newReader(c fabric.Stream, memory *bufferPool) *reader {
	r := &reader{conn: c, memory: memory}
	_, r.tcp = c.(*net.TCPConn)
	if s, ok := c.(syscall.Conn); ok {
		r.raw, _ = s.SyscallConn() // if this fails, conn.Read is used
	}
	if r.raw == nil {
		r.buf = new(make([]byte, readAheadOwn))
	}
	r.call = r.once
	r.try = func() bool { r.read(); return r.err != unix.EAGAIN }
	return r
}

// end releases the buffer. A buffer for a socket goes back to readBuffers.
func (r *reader) end() {
	if r.raw != nil && r.buf != nil {
		readBuffers.Put(r.buf)
	}
	r.buf, r.from, r.to = nil, 0, 0
}

// once reads once from the socket. It returns false if the runtime has to wait until there is data.
func (r *reader) once(fd uintptr) bool {
	if r.buf == nil {
		r.buf = readBuffers.Get().(*[]byte)
	}
	room := (*r.buf)[r.to:]
	if r.long {
		room = room[:min(len(room), readBehind)]
	}
	r.fd, r.room = int(fd), room
	if r.read(); r.err == unix.EAGAIN && r.wait && !r.long && r.m == nil { // polling would read small pieces
		r.spin.Poll(r.try)
	}
	if r.err == unix.EAGAIN && r.wait && r.tcp && r.setLow() {
		r.read()
	}
	r.room = nil
	if r.err == unix.EAGAIN && r.from == r.to {
		r.end()
	}
	r.full = r.n == len(r.rest)+len(room)
	return r.err != unix.EAGAIN || !r.wait
}

// setLow sets the number of bytes for which the kernel wakes this reader (SO_RCVLOWAT in socket(7)). It reports whether
// the number has changed. If so, the caller must read again, because Linux before 4.18 does not wake the reader for
// data that has arrived before.
func (r *reader) setLow() (changed bool) {
	low := 1
	if len(r.rest) >= 2*lowBytes {
		buffer, _ := unix.GetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_RCVBUF) // if this fails, low becomes 1
		low = min(lowBytes, max(buffer/lowPart, 1))
	}
	if low == r.low {
		return false
	}
	r.low = low
	_ = unix.SetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, low) // on failure, the reader wakes more often
	return true
}

// read makes the system call, and repeats it after EINTR.
func (r *reader) read() {
	for {
		if len(r.rest) > 0 {
			r.n, r.err = unix.Readv(r.fd, [][]byte{r.rest, r.room})
		} else {
			r.n, r.err = unix.Read(r.fd, r.room)
		}
		if r.err != unix.EINTR {
			return
		}
	}
}

// fill reads more data: directly into the current message if much of it is missing, and then into the buffer. It
// reports whether data has arrived. If wait is not set, fill returns false without an error if there is nothing to read
// now.
func (r *reader) fill(wait bool) (came bool, err error) {
	r.rest = nil
	if len(r.m)-r.got >= longRest {
		r.rest = r.m[r.got:]
	}
	if r.buf != nil && r.from > 0 {
		r.to = copy(*r.buf, (*r.buf)[r.from:r.to])
		r.from = 0
	}
	direct := len(r.rest)
	switch {
	case r.raw == nil && !wait:
		return false, nil
	case r.raw == nil && direct > 0:
		r.n, err = r.conn.Read(r.rest)
	case r.raw == nil:
		r.n, err = r.conn.Read((*r.buf)[r.to:])
	default:
		r.wait = wait
		if err = r.raw.Read(r.call); err == nil {
			err = r.err
		}
		switch {
		case err == unix.EAGAIN:
			return false, nil
		case err == nil && r.n == 0:
			err = io.EOF
		}
	}
	r.rest = nil
	if r.n < 0 || err != nil && r.raw != nil {
		r.n = 0
	}
	direct = min(r.n, direct)
	r.got += direct
	r.to += r.n - direct
	if r.n > 0 {
		return true, nil // the next Read returns the error again
	}
	if err == io.EOF && (r.m != nil || r.to > r.from) {
		err = io.ErrUnexpectedEOF
	}
	return false, err
}

// next appends one or more messages to batch. It waits for the first message, and adds others without waiting. The
// error is io.EOF if the stream has ended between two messages. If next returns an error, it also returns the messages
// that have arrived before.
func (r *reader) next(batch [][]byte) ([][]byte, error) {
	for bytes := 0; ; {
		m, err := r.take()
		if err != nil {
			return batch, err
		}
		if m != nil {
			batch = append(batch, m)
			if bytes += len(m); bytes >= batchBytes {
				return batch, nil
			}
			continue
		}
		if len(batch) > 0 && !r.full {
			return batch, nil
		}
		came, err := r.fill(len(batch) == 0)
		if err != nil || !came && len(batch) > 0 {
			return batch, err
		}
	}
}

// take moves data from the buffer to the current message. It returns the message when it is complete, and nil before.
func (r *reader) take() ([]byte, error) {
	there := r.to - r.from
	if r.m == nil {
		if there < shortHead {
			return nil, nil
		}
		size := binary.BigEndian.Uint32((*r.buf)[r.from:])
		if size == endMark {
			r.from += shortHead
			return nil, errEndMark
		}
		if size > MaxMessage {
			return nil, fmt.Errorf("a message of %d bytes is announced", size)
		}
		if there < headBytes(int(size)) {
			return nil, nil
		}
		r.from += headBytes(int(size))
		r.size, r.got = int(size), 0
		if r.m = r.memory.get(r.size); r.m == nil {
			r.m = make([]byte, min(r.size, firstRead))
		}
	}
	for {
		if r.from < r.to {
			n := copy(r.m[r.got:], (*r.buf)[r.from:r.to])
			r.from += n
			r.got += n
		}
		switch {
		case r.got == r.size:
			m := r.m
			r.m, r.long = nil, r.size >= longLast
			return m, nil
		case r.got < len(r.m):
			return nil, nil
		}
		bigger := make([]byte, min(r.size, 4*r.got))
		copy(bigger, r.m)
		r.m = bigger
	}
}

// firstRead is the maximum number of bytes that are allocated for a message before any of its data has arrived.
const firstRead = 1 << 20
