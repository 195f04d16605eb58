package lazy

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/internal/poll"
	"ibrun/test/waitfor"
)

// framed is a message as a stream has it.
func framed(m []byte) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(m)))
	if len(m) > 4096 {
		head = append(head, make([]byte, 60)...)
	}
	return append(head, m...)
}

// bare hides that a stream is a socket.
type bare struct{ fabric.Stream }

// Messages of all lengths, cut at random places, arrive as they were sent: from a socket, and from
// a stream that is none.
func TestReader(t *testing.T) {
	for name, hide := range map[string]func(net.Conn) fabric.Stream{
		"socket": func(c net.Conn) fabric.Stream { return c },
		"other":  func(c net.Conn) fabric.Stream { return bare{c} },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				r, bytesOf := rand.New(rand.NewPCG(seed, 19)), rand.NewChaCha8([32]byte{byte(seed)})
				var sent [][]byte
				var text []byte
				for range 60 {
					most := []int{1, 10, 3000, longRest + 10, longLast + 10, 70_000, 2 << 20}[min(r.IntN(7), 6)]
					if r.IntN(4) > 0 {
						most = min(most, 5000)
					}
					m := make([]byte, r.IntN(most))
					_, _ = bytesOf.Read(m)
					sent, text = append(sent, m), append(text, framed(m)...)
				}
				text = binary.BigEndian.AppendUint32(text, endMark)
				near, far := socketPair(t)
				go func() {
					for len(text) > 0 {
						n := 1 + r.IntN(min(len(text), 1<<(6+r.IntN(14))))
						if _, err := near.Write(text[:n]); err != nil {
							return
						}
						text = text[n:]
					}
				}()
				var memory bufferPool
				in := newReader(hide(far), &memory)
				if seed%2 > 0 {
					in.spin = poll.NewSpinner(poll.Short, seed%4 > 1)
				}
				var got [][]byte
				var err error
				for err == nil {
					var batch [][]byte
					batch, err = in.next(nil)
					for _, m := range batch {
						require.Equal(t, len(sent[len(got)]), len(m), "seed %d, message %d", seed, len(got))
						require.True(t, bytes.Equal(sent[len(got)], m), "seed %d, message %d", seed, len(got))
						got = append(got, nil)
						memory.put(m)
					}
				}
				require.Equal(t, errEndMark, err)
				require.Len(t, got, len(sent))
				near.Close()
				far.Close()
			}
		})
	}
}

// A message is not kept back for the one behind it, which has come in part.
func TestReaderKeepsNothingBack(t *testing.T) {
	near, far := socketPair(t)
	defer near.Close() // collected as garbage, it would close the stream while the last message is read
	r := newReader(far, &bufferPool{})
	one, other := make([]byte, 100_000), make([]byte, 1<<20)
	text := append(framed(one), framed(other)...)
	go near.Write(text[:150_000])
	batch, err := r.next(nil)
	require.NoError(t, err)
	require.Len(t, batch, 1)
	require.Len(t, batch[0], len(one))
	go near.Write(text[150_000:])
	batch, err = r.next(nil)
	require.NoError(t, err)
	require.Len(t, batch, 1)
	require.Len(t, batch[0], len(other))
	// what is there fills the room that there is for it, and nothing is behind
	one = make([]byte, 50_000)
	text = append(framed(one), framed(other)[:readBehind]...)
	_, err = near.Write(text)
	require.NoError(t, err)
	batch, err = r.next(nil)
	require.NoError(t, err)
	require.Len(t, batch, 1)
	require.Len(t, batch[0], len(one))
	require.True(t, r.err == unix.EAGAIN, "it has looked for more, and not waited")
}

// A stream at rest has no buffer, and its end is told from an end within a message.
func TestReaderEnds(t *testing.T) {
	near, far := socketPair(t)
	r := newReader(far, &bufferPool{})
	_, err := near.Write(framed([]byte("hello")))
	require.NoError(t, err)
	_, err = r.next(nil)
	require.NoError(t, err)
	came, err := r.fill(false)
	require.NoError(t, err)
	require.False(t, came)
	require.Nil(t, r.buf)
	require.NoError(t, near.Close())
	_, err = r.next(nil)
	require.Equal(t, io.EOF, err)
	for _, part := range [][]byte{{0}, {0, 0, 0, 9, 1}, framed(make([]byte, 50_000))[:30_000]} {
		near, far := socketPair(t)
		r := newReader(far, &bufferPool{})
		_, err := near.Write(part)
		require.NoError(t, err)
		require.NoError(t, near.Close())
		_, err = r.next(nil)
		require.Equal(t, io.ErrUnexpectedEOF, err)
	}
	near, far = socketPair(t)
	_, err = near.Write([]byte{0xff, 0xff, 0xff, 0xfe})
	require.NoError(t, err)
	_, err = newReader(far, &bufferPool{}).next(nil)
	require.ErrorContains(t, err, "a message of 4294967294 bytes is announced")
}

// tcpPair is socketPair over TCP.
func tcpPair(t *testing.T) (near, far *net.TCPConn) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}) //nolint:forbidigo // what is set is of TCP
	require.NoError(t, err)
	defer l.Close()
	near, err = net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	require.NoError(t, err)
	t.Cleanup(func() { near.Close() })
	far, err = l.AcceptTCP()
	require.NoError(t, err)
	t.Cleanup(func() { far.Close() })
	return near, far
}

// A long message that comes little by little does not wake its reader for each piece, but its last
// byte does, and so does the first one of the next message, and the end of the stream within one.
func TestReaderIsWokenSeldom(t *testing.T) {
	near, far := tcpPair(t)
	r := newReader(far, &bufferPool{})
	call := r.call
	var calls atomic.Int64
	r.call = func(fd uintptr) bool { calls.Add(1); return call(fd) }
	raw, err := far.SyscallConn()
	require.NoError(t, err)
	wakes := func() (n int) { // whether the kernel wakes the reader for what has come
		_ = raw.Control(func(fd uintptr) { n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) })
		return n
	}
	const piece, pieces = 2 << 10, 512
	message := make([]byte, piece*pieces)
	trickle := func(b []byte) {
		for len(b) > 0 {
			n, before := min(piece, len(b)), calls.Load()
			if _, err := near.Write(b[:n]); err != nil {
				return
			}
			if b = b[n:]; wakes() > 0 { // or several would be read at once
				_ = waitfor.True(func() bool { return calls.Load() > before })
			}
		}
	}
	for range 2 {
		calls.Store(0)
		go trickle(framed(message))
		batch, err := r.next(nil)
		require.NoError(t, err)
		require.Len(t, batch, 1)
		require.Len(t, batch[0], len(message))
		require.Less(t, calls.Load(), int64(pieces))
		go trickle(framed([]byte("short")))
		batch, err = r.next(nil)
		require.NoError(t, err)
		require.Equal(t, "short", string(batch[0]))
	}
	go func() {
		trickle(framed(message)[:piece*10+1])
		near.Close()
	}()
	_, err = r.next(nil)
	require.Equal(t, io.ErrUnexpectedEOF, err)
}

// A stream goes on behind an end mark with another reader, whom the first byte wakes, whatever the
// last reader waited for.
func TestReaderAfterEndMark(t *testing.T) {
	near, far := tcpPair(t)
	message := framed(make([]byte, 3*lowBytes))
	require.NoError(t, near.SetWriteBuffer(2*len(message)))
	require.NoError(t, far.SetReadBuffer(2*len(message)))
	r := newReader(far, &bufferPool{})
	rests, all := make(chan struct{}), make(chan struct{})
	call := r.call
	r.call = func(fd uintptr) bool {
		if call(fd) {
			return true
		}
		if r.low > 1 {
			close(rests)
			<-all
		}
		return false
	}
	go func() {
		near.Write(message[:longRest])
		<-rests
		near.Write(binary.BigEndian.AppendUint32(message[longRest:], endMark))
		close(all) // before anything of it is read
	}()
	batch, err := r.next(nil)
	require.NoError(t, err)
	require.Len(t, batch, 1)
	_, err = r.next(nil)
	require.Equal(t, errEndMark, err)
	require.Greater(t, r.low, 1, "it has not waited since")
	go near.Write(framed([]byte("short")))
	batch, err = newReader(far, &bufferPool{}).next(nil)
	require.NoError(t, err)
	require.Equal(t, "short", string(batch[0]))
}

// A receive buffer that is smaller than what is waited for at least takes a message all the same.
func TestReaderOfSmallBuffer(t *testing.T) {
	near, far := tcpPair(t)
	require.NoError(t, far.SetReadBuffer(lowBytes/8))
	r := newReader(far, &bufferPool{})
	message := make([]byte, 4<<20)
	go near.Write(framed(message))
	batch, err := r.next(nil)
	require.NoError(t, err)
	require.Len(t, batch[0], len(message))
}

// The pool keeps what was used last, within its bounds.
func TestBufferPool(t *testing.T) {
	var p bufferPool
	p.put(make([]byte, poolLeast-1))
	require.Nil(t, p.get(poolLeast-1))
	for range 2 * poolCount {
		p.put(make([]byte, 16<<10))
	}
	require.Len(t, p.free, poolCount)
	require.Equal(t, poolCount*16<<10, p.bytes)
	p.put(make([]byte, poolBytes))
	require.Equal(t, poolBytes, p.bytes, "it has driven the others out")
	require.Nil(t, p.get(poolBytes/2-1), "that would waste more than it uses")
	require.Len(t, p.get(poolBytes-5), poolBytes-5)
	require.Zero(t, p.bytes)
	p.put(make([]byte, poolBytes+1))
	require.Empty(t, p.free)
}

// A receiver who reads a stream himself is woken by his context, by a message that comes by another
// way, and by the end of the peer; nothing is lost meanwhile.
func TestStreamIsDriven(t *testing.T) {
	w := newWorld(t, 3, 1, overUDP)
	w.config = func(c *Config) { c.Streams = c.Rank < 2 } // rank 2 sends datagrams
	w.start()
	ctx := within(t)
	next := uint32(0)
	send := func() { require.NoError(t, w.table(0).Send(ctx, 1, payload(0, 1, next, 1000+int(next)*97))) }
	receive := func() {
		w.receivesFrom(ctx, 1, 0, payload(0, 1, next, 1000+int(next)*97))
		next++
	}
	driving := func() bool {
		in := w.table(1).in
		in.mu.Lock()
		defer in.mu.Unlock()
		if len(in.driving) != 1 {
			return false
		}
		_, stream := in.driving[0].d.(*streamDriver)
		return stream
	}
	type received struct {
		m   Message
		err error
	}
	// drives starts a receiver and returns when it drives. One that finds the stream in its own
	// goroutine's hands only waits for what comes next: a message serves it, and another begins.
	drives := func(receive func() (Message, error)) <-chan received {
		for {
			done := make(chan received, 1)
			go func() { m, err := receive(); done <- received{m, err} }()
			for range 200 {
				if driving() {
					return done
				}
				runtime.Gosched()
			}
			send()
			got := <-done
			require.NoError(t, got.err)
			require.Equal(t, payload(0, 1, next, 1000+int(next)*97), got.m.Body)
			next++
		}
	}
	for range 50 {
		send()
		receive()
	}
	for range 5 {
		wait, stop := context.WithCancel(ctx)
		done := drives(func() (Message, error) { return w.table(1).RecvFrom(wait, 0) })
		stop()
		require.ErrorIs(t, (<-done).err, context.Canceled)
		send()
		receive()

		done = drives(func() (Message, error) { return w.table(1).Recv(ctx) })
		require.NoError(t, w.table(2).Send(ctx, 1, []byte("datagram")))
		got := <-done
		require.NoError(t, got.err)
		require.EqualValues(t, 2, got.m.From)
		send()
		receive()
	}
	require.Equal(t, uint64(next), w.table(0).Tally().Sum[job.CountStreamed])
	done := drives(func() (Message, error) { return w.table(1).RecvFrom(ctx, 0) })
	require.NoError(t, w.table(0).Close())
	require.Error(t, (<-done).err)
}

// A receiver that stops reading holds what its inbox and the window hold, and no more; when it
// reads again, all comes in order.
func TestReceiverStopsReading(t *testing.T) {
	for name, size := range map[string]int{"short": 900, "long": 100 << 10} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 1, overUDP).start()
			ctx := within(t)
			sent := uint32(0)
			in := w.table(1).in
			for full, held := 0, 0; full < 1000 || held <= inboxLimit; {
				switch err := w.table(0).TrySend(1, payload(0, 1, sent, size)); {
				case err == nil:
					sent++
				default:
					require.ErrorIs(t, err, ErrFull)
					full++
					runtime.Gosched()
				}
				in.mu.Lock()
				held = in.source(0).bytes
				in.mu.Unlock()
				require.LessOrEqual(t, held, inboxLimit+batchBytes+size)
			}
			for n := range sent {
				w.receivesFrom(ctx, 1, 0, payload(0, 1, n, size))
			}
			require.NoError(t, w.table(0).Send(ctx, 1, payload(0, 1, sent, size)))
			_, err := w.table(1).RecvFrom(ctx, 0)
			require.NoError(t, err)
		})
	}
}
