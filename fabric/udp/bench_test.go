package udp

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
)

// echo is a sink that sends all back, or tells that it came.
type echo struct {
	f    *Fabric
	back chan struct{}
}

func (e *echo) Accepted(s fabric.Stream) { s.Close() }
func (e *echo) Datagram(from fabric.Tuple, b []byte) {
	if e.back != nil {
		e.back <- struct{}{}
		return
	}
	_ = e.f.Post(from, b)
}

// BenchmarkPingPong64 is a round trip of 64 bytes between two endpoints; the
// one that asks waits in a goroutine other than the fabric's.
func BenchmarkPingPong64(b *testing.B) {
	cfg := Config{Addr: netip.MustParseAddr("127.0.0.1"), MTU: 1500}
	ask, reply := &echo{back: make(chan struct{}, 1)}, &echo{}
	near, err := Open(cfg, ask)
	require.NoError(b, err)
	defer near.Close()
	reply.f, err = Open(cfg, reply) // nothing is sent to it yet
	require.NoError(b, err)
	defer reply.f.Close()
	m, to := make([]byte, 64), reply.f.Tuple()
	b.ReportAllocs()
	for b.Loop() {
		if err := near.Post(to, m); err != nil {
			b.Fatal(err)
		}
		<-ask.back
	}
}

// bounce is BenchmarkPingPong64 without the goroutine that waits: each sink
// sends the next itself, as a table of peers does.
type bounce struct {
	f    *Fabric
	left int
	done chan struct{}
}

func (x *bounce) Accepted(s fabric.Stream) { s.Close() }
func (x *bounce) Datagram(from fabric.Tuple, b []byte) {
	if x.left--; x.left < 0 {
		close(x.done)
		return
	}
	_ = x.f.Post(from, b)
}

func BenchmarkBounce64(b *testing.B) {
	cfg := Config{Addr: netip.MustParseAddr("127.0.0.1"), MTU: 1500}
	n := b.N
	x, y := &bounce{left: n, done: make(chan struct{})}, &bounce{left: n + 1}
	var err error
	x.f, err = Open(cfg, x)
	require.NoError(b, err)
	defer x.f.Close()
	y.f, err = Open(cfg, y)
	require.NoError(b, err)
	defer y.f.Close()
	b.ReportAllocs()
	b.ResetTimer()
	if err := x.f.Post(y.f.Tuple(), make([]byte, 64)); err != nil {
		b.Fatal(err)
	}
	<-x.done
}

// BenchmarkPlainUDP64 is the same between two plain sockets.
func BenchmarkPlainUDP64(b *testing.B) {
	open := func() *net.UDPConn {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}) //nolint:forbidigo // what is measured
		require.NoError(b, err)
		return c
	}
	near, far := open(), open()
	defer near.Close()
	over := make(chan struct{})
	go func() {
		defer close(over)
		buf := make([]byte, 2048)
		for {
			n, from, err := far.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = far.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
	defer func() { far.Close(); <-over }()
	m, buf, to := make([]byte, 64), make([]byte, 2048), far.LocalAddr().(*net.UDPAddr).AddrPort()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := near.WriteToUDPAddrPort(m, to); err != nil {
			b.Fatal(err)
		}
		if _, _, err := near.ReadFromUDPAddrPort(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPost64 is the cost of sending alone.
func BenchmarkPost64(b *testing.B) {
	cfg := Config{Addr: netip.MustParseAddr("127.0.0.1"), MTU: 1500}
	quiet := &echo{back: make(chan struct{})}
	f, err := Open(cfg, quiet)
	require.NoError(b, err)
	defer f.Close()
	m, to := make([]byte, 64), fabric.Ethernet(netip.MustParseAddrPort("127.0.0.1:9"))
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Post(to, m); err != nil {
			b.Fatal(err)
		}
	}
}
