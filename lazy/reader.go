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

// reader takes messages off a stream: several with one system call if they are short, and the rest
// of a long one straight into its own memory.
//
// A socket that has nothing to read has no buffer: it takes one from those that all streams share
// when something has come.
type reader struct {
	conn   fabric.Stream
	raw    syscall.RawConn // nil: conn is no socket
	tcp    bool            // it is one of TCP
	memory *bufferPool

	buf      *[]byte
	from, to int  // what is in it and not taken
	long     bool // the last message was long, and what is read ahead of the next would have to be copied

	// the message under way; nil: its head has not come
	m         []byte
	got, size int

	// of the system call under way
	rest []byte // of that message, which the bytes that come belong to
	wait bool   // until something comes
	n    int
	full bool // it brought all that there was room for: there is more, most likely
	err  error
	fd   int
	room []byte // of buf
	low  int    // how many bytes the kernel wakes this reader for; 0: what the last one has set. Of TCP
	call func(fd uintptr) bool
	try  func() bool

	spin poll.Spinner
}

const (
	// readAhead is the size of a shared buffer, readAheadOwn that of a stream that is no socket.
	readAhead    = 256 << 10
	readAheadOwn = 64 << 10
	// readBehind is what is read ahead behind a long message.
	readBehind = 4 << 10
	// longRest is the length from which the rest of a message is read into its own memory, and
	// longLast that from which the next one is expected to be long too.
	longRest = 8 << 10
	longLast = 32 << 10
	// lowBytes is what is waited for at least where twice as much of a message is to come. To be
	// woken for each few packets and to read them is an eighth of the processor time (0038). But
	// Linux before 5.7 wakes nobody for less where its buffer is full, and packets may take several
	// times their bytes in it: so it is at most one in lowPart of the buffer.
	lowBytes = 128 << 10
	lowPart  = 8
	// batchBytes is how much is read without waiting before the receiver gets it.
	batchBytes = 256 << 10
)

var readBuffers = sync.Pool{New: func() any { return new(make([]byte, readAhead)) }}

func newReader(c fabric.Stream, memory *bufferPool) *reader {
	r := &reader{conn: c, memory: memory}
	_, r.tcp = c.(*net.TCPConn)
	if s, ok := c.(syscall.Conn); ok {
		r.raw, _ = s.SyscallConn() // without it, Read does
	}
	if r.raw == nil {
		r.buf = new(make([]byte, readAheadOwn))
	}
	r.call = r.once
	r.try = func() bool { r.read(); return r.err != unix.EAGAIN }
	return r
}

// end gives the buffer back.
func (r *reader) end() {
	if r.raw != nil && r.buf != nil {
		readBuffers.Put(r.buf)
	}
	r.buf, r.from, r.to = nil, 0, 0
}

// once reads once; false: there is nothing to read, and it is to wait.
func (r *reader) once(fd uintptr) bool {
	if r.buf == nil {
		r.buf = readBuffers.Get().(*[]byte)
	}
	room := (*r.buf)[r.to:]
	if r.long {
		room = room[:min(len(room), readBehind)]
	}
	r.fd, r.room = int(fd), room
	if r.read(); r.err == unix.EAGAIN && r.wait && !r.long && r.m == nil { // or it would bring little by little
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

// setLow tells the kernel for how many bytes it is to wake this reader, SO_RCVLOWAT of socket(7),
// and reports whether that is new. Linux before 4.18 wakes nobody for what had come by then.
func (r *reader) setLow() (changed bool) {
	low := 1
	if len(r.rest) >= 2*lowBytes {
		buffer, _ := unix.GetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_RCVBUF) // without it, for each byte
		low = min(lowBytes, max(buffer/lowPart, 1))
	}
	if low == r.low {
		return false
	}
	r.low = low
	_ = unix.SetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, low) // without it, it is woken more often
	return true
}

// read is the system call itself.
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

// fill reads more: into the rest of the message under way, if that is long, and behind it into the
// buffer. Without wait, the answer may be that there is nothing to read now.
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
		return true, nil // an error comes again
	}
	if err == io.EOF && (r.m != nil || r.to > r.from) {
		err = io.ErrUnexpectedEOF
	}
	return false, err
}

// next adds messages to a batch: it waits for the first, and takes those behind it that are there.
// io.EOF: the stream has ended between two messages. With an error, the batch is what came before.
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

// take takes a message as far as it has come; nil: not all of it has.
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

// firstRead is the most that is allocated on the word of a length alone.
const firstRead = 1 << 20
