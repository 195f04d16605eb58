package udp

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/fabric"
	"ibrun/fabric/fabrictest"
	"ibrun/internal/netiface"
	"ibrun/test/skip"
	"ibrun/test/waitfor"
)

var here = netip.MustParseAddr("127.0.0.1")

func open(t *testing.T, cfg Config) (*Fabric, *fabrictest.Box) {
	x := fabrictest.NewBox()
	f, err := Open(cfg, x)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f, x
}

func TestConformance(t *testing.T) {
	for _, text := range []string{"127.0.0.1", "::1"} {
		addr := netip.MustParseAddr(text)
		t.Run(text, func(t *testing.T) {
			if _, err := netiface.MTU(addr); err != nil {
				skip.Because(t, "this machine has no "+text+": "+err.Error())
			}
			fabrictest.Run(t, func(t *testing.T, s fabric.Sink) fabric.Fabric {
				f, err := Open(Config{Addr: addr}, s)
				require.NoError(t, err)
				return f
			}, fabrictest.Options{Driver: true, Flood: 20_000})
		})
	}
}

func TestOpen(t *testing.T) {
	f, _ := open(t, Config{Addr: here, MTU: 1500, Buffer: 1 << 20})
	require.Equal(t, 1472, f.MTU())
	require.NoError(t, control(f.raw, func(fd int) error {
		granted, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
		require.GreaterOrEqual(t, granted, 200<<10, "more than the kernel's default")
		return err
	}))
	require.Equal(t, here, f.Tuple().AddrPort().Addr())
	require.Error(t, f.Post(fabric.Tuple{Kind: fabric.IB, LID: 3}, []byte("x")), "an address of another fabric")
	require.Error(t, f.Post(fabric.Ethernet(netip.MustParseAddrPort("[::1]:9")), []byte("x")), "of the other family")

	mapped, _ := open(t, Config{Addr: netip.MustParseAddr("::ffff:127.0.0.1"), MTU: 1400})
	require.Equal(t, fabric.ETH4, mapped.Tuple().Kind)
	require.Equal(t, 1372, mapped.MTU())
	loopback, _ := open(t, Config{Addr: here})
	require.Equal(t, 61440, loopback.MTU(), "however much the link takes")
	for name, bad := range map[string]Config{
		"203.0.113.9":     {Addr: netip.MustParseAddr("203.0.113.9")},
		"203.0.113.9:0":   {Addr: netip.MustParseAddr("203.0.113.9"), MTU: 1500},
		"no address":      {MTU: 1500},
		"0.0.0.0":         {Addr: netip.IPv4Unspecified(), MTU: 1500},
		"an MTU of 28":    {Addr: here, MTU: 28},
		"an MTU of -1500": {Addr: here, MTU: -1500},
	} {
		_, err := Open(bad, fabrictest.NewBox())
		require.ErrorContains(t, err, name)
	}
}

// What is longer than the link takes is not cut into fragments, as long as the link stays as it is.
func TestNoFragments(t *testing.T) {
	for _, text := range []string{"127.0.0.1", "::1"} {
		addr := netip.MustParseAddr(text)
		mtu, err := netiface.MTU(addr)
		if err != nil || mtu > 65536 {
			continue
		}
		f, _ := open(t, Config{Addr: addr})
		f.mtu = 1 << 20 // so that the kernel is asked
		require.NoError(t, f.Post(f.Tuple(), make([]byte, 1000)))
		require.NoError(t, f.raw.Control(func(fd uintptr) {
			level, option, want := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO
			if addr.Is6() {
				level, option, want = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO
			}
			got, err := unix.GetsockoptInt(int(fd), level, option)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}))
		require.ErrorIs(t, f.Post(f.Tuple(), make([]byte, 65536)), fabric.ErrTooLong, "of no way at all")
	}
}

// No way there is a loss, not an error: it may be there again.
func TestUnreachable(t *testing.T) {
	f, _ := open(t, Config{Addr: here, MTU: 1500})
	require.NoError(t, f.Post(fabric.Ethernet(netip.MustParseAddrPort("203.0.113.9:9")),
		[]byte("from 127.0.0.1 nothing goes there")))
	require.EqualValues(t, 1, f.Counters().Lost)
}

func TestPostAllocatesNothing(t *testing.T) {
	f, _ := open(t, Config{Addr: here, MTU: 1500})
	m, to := make([]byte, 64), fabric.Ethernet(netip.MustParseAddrPort("127.0.0.1:9"))
	require.Less(t, testing.AllocsPerRun(1000, func() { _ = f.Post(to, m) }), 1.0)
}

// option reads one of a stream's socket options.
func option(t *testing.T, s fabric.Stream, level, name int) (n int) {
	raw, err := s.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { n, err = unix.GetsockoptInt(int(fd), level, name) }))
	require.NoError(t, err)
	return n
}

// arrived is a sink that passes streams on.
type arrived chan fabric.Stream

func (a arrived) Datagram(fabric.Tuple, []byte) {}
func (a arrived) Accepted(s fabric.Stream)      { a <- s }

func TestStreamsAreBound(t *testing.T) {
	a, _ := open(t, Config{Addr: here})
	streams := make(arrived, 1)
	b, err := Open(Config{Addr: here}, streams)
	require.NoError(t, err)
	defer b.Close()
	offer, err := b.Offer()
	require.NoError(t, err)
	require.Len(t, offer, 2)
	near, err := a.Dial(t.Context(), b.Tuple(), offer)
	require.NoError(t, err)
	defer near.Close()
	far := <-streams
	defer far.Close()
	for _, s := range []fabric.Stream{near, far} {
		require.Zero(t, option(t, s, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT), "it ends streams whose receiver is busy")
		require.Equal(t, 1, option(t, s, unix.IPPROTO_TCP, unix.TCP_NODELAY))
		require.Equal(t, 1, option(t, s, unix.SOL_SOCKET, unix.SO_KEEPALIVE))
	}
	require.EqualValues(t, 1, a.Counters().Dialled)
	require.EqualValues(t, 1, b.Counters().Accepted)
}

// fullQueue is a listener whose queue is full, so that a dial gets no answer.
func fullQueue(t *testing.T) (fabric.Tuple, []byte) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(s) })
	require.NoError(t, unix.Bind(s, &unix.SockaddrInet4{Addr: here.As4()}))
	require.NoError(t, unix.Listen(s, 0))
	name, err := unix.Getsockname(s)
	require.NoError(t, err)
	at := netip.AddrPortFrom(here, uint16(name.(*unix.SockaddrInet4).Port))
	for range 8 {
		c, err := net.DialTimeout("tcp", at.String(), 100*time.Millisecond)
		if err != nil {
			return fabric.Ethernet(at), binary.BigEndian.AppendUint16(nil, at.Port())
		}
		t.Cleanup(func() { c.Close() })
	}
	require.FailNow(t, "a full queue answers")
	return fabric.Tuple{}, nil
}

// A dial that nobody answers ends with its context, its own limit, or Close.
func TestDialEnds(t *testing.T) {
	to, offer := fullQueue(t)
	dialled := fmt.Appendf(nil, ":%04X 02 ", to.Num) // its socket waits for an answer, proc_net_tcp(5)
	duringDial := func(end func()) {
		go func() {
			_ = waitfor.True(func() bool {
				sockets, err := os.ReadFile("/proc/self/net/tcp")
				return err != nil || bytes.Contains(sockets, dialled)
			})
			end()
		}()
	}
	f, _ := open(t, Config{Addr: here, DialTimeout: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	duringDial(cancel)
	_, err := f.Dial(ctx, to, offer)
	require.ErrorIs(t, err, context.Canceled)

	short, _ := open(t, Config{Addr: here, DialTimeout: 50 * time.Millisecond})
	_, err = short.Dial(t.Context(), to, offer)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())

	duringDial(func() { f.Close() })
	_, err = f.Dial(t.Context(), to, offer)
	require.ErrorIs(t, err, fabric.ErrClosed)
}
