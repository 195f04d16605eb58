// Package udp is the Ethernet fabric: one UDP socket per rank for datagrams,
// TCP for streams. It never fragments, and knows nothing of ranks or messages.
package udp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/fabric"
)

// Config says where an endpoint is.
type Config struct {
	Addr   netip.Addr // local address; the port is the kernel's choice
	MTU    int        // bytes of the link's packets; 0: ask the link that has Addr
	Buffer int        // receive buffer that is asked for, in bytes; 0: 4 MiB
}

const (
	defaultBuffer = 4 << 20
	// mostBody keeps datagrams on links with huge MTU, such as loopback, to a
	// size that a receive buffer holds many of.
	mostBody  = 60 << 10
	overhead4 = 28 // IPv4 and UDP headers
	overhead6 = 48 // IPv6 and UDP headers
)

// userTimeout ends a TCP connection whose far kernel does not acknowledge.
// Keepalive alone misses a cut while data is under way.
const userTimeout = 10 * time.Second

// Fabric is one endpoint.
type Fabric struct {
	sink    fabric.Sink
	conn    *net.UDPConn
	raw     syscall.RawConn
	addr    netip.Addr
	tuple   fabric.Tuple
	mtu     int
	granted int
	lost    atomic.Uint64
	drive   *wheel
	buf     []byte // of whoever drives

	mu       sync.Mutex
	closed   bool
	listener *net.TCPListener
	loops    sync.WaitGroup
}

// Open makes an endpoint and starts to receive.
func Open(cfg Config, sink fabric.Sink) (*Fabric, error) {
	if cfg.MTU == 0 {
		mtu, err := linkMTU(cfg.Addr)
		if err != nil {
			return nil, err
		}
		cfg.MTU = mtu
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(cfg.Addr, 0)))
	if err != nil {
		return nil, fmt.Errorf("udp: %w", err)
	}
	f := &Fabric{sink: sink, conn: conn, addr: cfg.Addr, buf: make([]byte, 64<<10)}
	f.tuple = fabric.Ethernet(conn.LocalAddr().(*net.UDPAddr).AddrPort())
	f.mtu = min(cfg.MTU-overhead4, mostBody)
	if cfg.Addr.Is6() && !cfg.Addr.Is4In6() {
		f.mtu = min(cfg.MTU-overhead6, mostBody)
	}
	if cfg.Buffer == 0 {
		cfg.Buffer = defaultBuffer
	}
	if f.raw, err = conn.SyscallConn(); err == nil {
		err = f.tune(cfg.Buffer)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("udp: %w", err)
	}
	f.drive = newWheel()
	f.loops.Go(f.receive)
	return f, nil
}

// tune forbids fragments and asks for a receive buffer: the default one holds
// some 280 small datagrams.
func (f *Fabric) tune(buffer int) error {
	var fail error
	err := f.raw.Control(func(fd uintptr) {
		s := int(fd)
		if f.tuple.Kind == fabric.ETH6 {
			fail = unix.SetsockoptInt(s, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO)
		} else {
			fail = unix.SetsockoptInt(s, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		}
		if unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil { // only for root
			_ = unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)
		}
		f.granted, _ = unix.GetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RCVBUF)
	})
	return errors.Join(err, fail)
}

// Name is "udp".
func (f *Fabric) Name() string { return "udp" }

// Tuple is the endpoint's address and UDP port.
func (f *Fabric) Tuple() fabric.Tuple { return f.tuple }

// MTU is the most bytes of one datagram.
func (f *Fabric) MTU() int { return f.mtu }

// Granted is the receive buffer that the kernel gave, in its own count of bytes.
func (f *Fabric) Granted() int { return f.granted }

// Lost is the number of datagrams that the kernel did not take.
func (f *Fabric) Lost() uint64 { return f.lost.Load() }

// Post sends one datagram. When the kernel has no room, or knows no way now,
// the datagram is lost, as it could be anywhere on its way.
func (f *Fabric) Post(to fabric.Tuple, b []byte) error {
	if len(b) > f.mtu {
		return fabric.ErrTooLong
	}
	at := to.AddrPort()
	if !at.IsValid() || at.Addr().Is4() != f.addr.Is4() {
		return fmt.Errorf("udp: %v is no address that %v can send to", to, f.addr)
	}
	_, err := f.conn.WriteToUDPAddrPort(b, at)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, net.ErrClosed):
		return fabric.ErrClosed
	case errors.Is(err, unix.EMSGSIZE):
		return fabric.ErrTooLong
	}
	f.lost.Add(1)
	return nil
}

// Offer listens for TCP connections, from the first call on, and returns the port.
func (f *Fabric) Offer() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, fabric.ErrClosed
	}
	if f.listener == nil {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(f.addr, 0)))
		if err != nil {
			return nil, fmt.Errorf("udp: listen for streams: %w", err)
		}
		f.listener = l
		f.loops.Go(func() { f.accept(l) })
	}
	port := f.listener.Addr().(*net.TCPAddr).Port
	return binary.BigEndian.AppendUint16(nil, uint16(port)), nil
}

func (f *Fabric) accept(l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, or a dialler that left: the next one may do better
			continue
		}
		bound(c)
		f.sink.Accepted(c)
	}
}

// bound makes a dead far kernel show itself.
func bound(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
		})
	}
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: userTimeout / 2, Interval: userTimeout / 4, Count: 3})
}

// Dial opens a TCP connection to the endpoint's offer, from this endpoint's
// own address.
func (f *Fabric) Dial(ctx context.Context, to fabric.Tuple, offer []byte) (fabric.Stream, error) {
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	if closed {
		return nil, fabric.ErrClosed
	}
	if len(offer) != 2 {
		return nil, fmt.Errorf("udp: an offer of %d bytes is not a port", len(offer))
	}
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(f.addr, 0))}
	at := netip.AddrPortFrom(to.AddrPort().Addr(), binary.BigEndian.Uint16(offer))
	c, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return nil, fmt.Errorf("udp: %w", err)
	}
	bound(c.(*net.TCPConn))
	return c, nil
}

// Close ends the endpoint and waits for its goroutines.
func (f *Fabric) Close() error {
	f.mu.Lock()
	f.closed = true
	l := f.listener
	f.mu.Unlock()
	f.conn.Close()
	f.drive.end()
	if l != nil {
		l.Close()
	}
	f.loops.Wait()
	return nil
}
