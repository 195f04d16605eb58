// Package udp is the Ethernet fabric: one UDP socket per rank for datagrams,
// TCP for streams, and the choice of the address for both. It never fragments,
// never waits to send, and knows nothing of ranks or messages.
package udp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/fabric"
	"ibrun/internal/netiface"
	"ibrun/internal/poll"
)

// Config says where an endpoint is.
type Config struct {
	Addr        netip.Addr    // local address; the port is the kernel's choice
	MTU         int           // bytes of the link's packets; 0: ask the link that has Addr
	Buffer      int           // receive buffer that is asked for, in bytes; 0: 4 MiB
	DialTimeout time.Duration // bounds Dial besides its context; 0: 10 s
	Silence     time.Duration // of a far kernel, after which a stream ends; 0: 20 s
	Spin        poll.Spinner  // decides how long a receiver polls before it sleeps
	Instead     string        // why this node does not go by InfiniBand, for the errors about peers that do
}

const (
	defaultBuffer      = 4 << 20
	defaultDialTimeout = 10 * time.Second
	// mostBody keeps datagrams on links with huge MTU, such as loopback, to a
	// size that a receive buffer holds many of.
	mostBody  = 60 << 10
	overhead4 = 28 // IPv4 and UDP headers
	overhead6 = 48 // IPv6 and UDP headers
)

// Counters counts the datagrams and connections of an endpoint since it was opened.
type Counters struct {
	Sent, SentBytes   uint64 // datagrams that the kernel accepted
	Lost              uint64 // datagrams that the kernel did not accept: its buffer was full, or it had no route
	Dialled, Accepted uint64 // TCP connections opened by Dial, and accepted from peers
}

// Fabric is one endpoint.
type Fabric struct {
	cfg    Config
	sink   fabric.Sink
	socket *os.File        // its calls block unless a flag such as MSG_DONTWAIT is set
	raw    syscall.RawConn // raw connection of socket
	tuple  fabric.Tuple
	mtu    int
	drive  *poll.Turn
	in     *inlet

	ending context.Context // done once Close is called
	end    context.CancelFunc
	loops  sync.WaitGroup

	mu       sync.Mutex
	listener *net.TCPListener
	watched  map[*net.TCPConn]*silence

	single atomic.Bool // the kernel or the link cannot take several datagrams in one call

	sent, sentBytes, lost, dialled, accepted atomic.Uint64
}

// Open makes an endpoint and starts to receive.
func Open(cfg Config, sink fabric.Sink) (*Fabric, error) {
	cfg.Addr = cfg.Addr.Unmap()
	if !cfg.Addr.IsValid() || cfg.Addr.IsUnspecified() {
		return nil, fmt.Errorf("udp: %v is no address that others can send to", cfg.Addr)
	}
	if cfg.MTU == 0 {
		mtu, err := netiface.MTU(cfg.Addr)
		if err != nil {
			return nil, fmt.Errorf("udp: %w", err)
		}
		cfg.MTU = mtu
	}
	cfg.Buffer = cmp.Or(cfg.Buffer, defaultBuffer)
	cfg.DialTimeout = cmp.Or(cfg.DialTimeout, defaultDialTimeout)
	cfg.Silence = cmp.Or(cfg.Silence, defaultSilence)
	f := &Fabric{cfg: cfg, sink: sink, mtu: min(cfg.MTU-overhead4, mostBody)}
	network := "udp4"
	if cfg.Addr.Is6() {
		network, f.mtu = "udp6", min(cfg.MTU-overhead6, mostBody)
	}
	if f.mtu < 1 {
		return nil, fmt.Errorf("udp: an MTU of %d has no room for a datagram", cfg.MTU)
	}
	var err error
	if f.socket, f.tuple, err = listen(network, netip.AddrPortFrom(cfg.Addr, 0)); err != nil {
		return nil, fmt.Errorf("udp: %w", err)
	}
	if f.raw, err = f.socket.SyscallConn(); err == nil {
		err = f.tune()
	}
	if err == nil {
		f.in, err = newInlet(f.socket, f.mtu, f.tuple.Kind == fabric.ETH4, cfg.Spin)
	}
	if err != nil {
		f.socket.Close()
		return nil, fmt.Errorf("udp: %w", err)
	}
	f.ending, f.end = context.WithCancel(context.Background())
	f.drive = poll.NewTurn()
	f.loops.Go(f.receive)
	return f, nil
}

// listen makes a socket that package net does not look after.
func listen(network string, at netip.AddrPort) (*os.File, fabric.Tuple, error) {
	c, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, fabric.Tuple{}, err
	}
	defer c.Close()
	own := -1
	raw, err := c.SyscallConn()
	if err == nil {
		err = control(raw, func(fd int) (err error) {
			own, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
			return err
		})
	}
	if err == nil {
		err = unix.SetNonblock(own, false) // that of c too, which is not used
	}
	if err != nil {
		if own >= 0 {
			unix.Close(own)
		}
		return nil, fabric.Tuple{}, err
	}
	return os.NewFile(uintptr(own), "udp"), fabric.Ethernet(c.LocalAddr().(*net.UDPAddr).AddrPort()), nil
}

// tune forbids fragments and asks for a receive buffer: the default one holds
// some 280 small datagrams.
func (f *Fabric) tune() error {
	err := control(f.raw, func(fd int) error {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, f.cfg.Buffer) != nil { // needs CAP_NET_ADMIN
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, f.cfg.Buffer)
		}
		return nil
	})
	return errors.Join(err, f.discover(unix.IP_PMTUDISC_DO, unix.IPV6_PMTUDISC_DO))
}

// Tuple is the endpoint's address and UDP port.
func (f *Fabric) Tuple() fabric.Tuple { return f.tuple }

// MTU is the most bytes of one datagram.
func (f *Fabric) MTU() int { return f.mtu }

// Counters is what the endpoint has done so far.
func (f *Fabric) Counters() Counters {
	return Counters{
		Sent:      f.sent.Load(),
		SentBytes: f.sentBytes.Load(),
		Lost:      f.lost.Load(),
		Dialled:   f.dialled.Load(),
		Accepted:  f.accepted.Load(),
	}
}

// outgoing is one system call to send. The pool keeps its closure, so that a
// Post allocates nothing.
type outgoing struct {
	b    []byte
	to   unix.Sockaddr
	four unix.SockaddrInet4
	six  unix.SockaddrInet6
	size int // of each datagram in b; 0: it is one
	err  error
	call func(fd uintptr) (done bool)
}

var outgoings = sync.Pool{New: func() any {
	o := &outgoing{}
	o.call = func(fd uintptr) bool {
		const flags = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL // package net would wait for room
		if o.size == 0 {
			o.err = unix.Sendto(int(fd), o.b, flags, o.to)
		} else {
			_, o.err = unix.SendmsgN(int(fd), o.b, segments(o.size), o.to, flags)
		}
		return true
	}
	return o
}}

// Post sends one datagram. When the kernel has no room, or knows no way now,
// the datagram is lost, as it could be anywhere on its way.
func (f *Fabric) Post(to fabric.Tuple, b []byte) error {
	switch {
	case f.ending.Err() != nil:
		return fabric.ErrClosed
	case len(b) > f.mtu:
		return fabric.ErrTooLong
	case to.Kind != f.tuple.Kind:
		return f.apart(to)
	}
	err := f.send(to, b, 0)
	if err == unix.EMSGSIZE {
		// The MTU of the link or of the path has become smaller. Peers have been told the length of our datagrams, so
		// keep it, and let the kernel fragment them from now on.
		if err = f.discover(unix.IP_PMTUDISC_WANT, unix.IPV6_PMTUDISC_WANT); err == nil {
			err = f.send(to, b, 0)
		}
	}
	return f.posted(err, b, 1)
}

// discover sets what the kernel does with a datagram that is longer than the way takes (ip(7)).
func (f *Fabric) discover(four, six int) error {
	return control(f.raw, func(fd int) error {
		if f.tuple.Kind == fabric.ETH6 {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, six)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, four)
	})
}

// posted counts what was sent by one call, and says what never will.
func (f *Fabric) posted(err error, b []byte, datagrams int) error {
	switch {
	case err == nil:
		f.sent.Add(uint64(datagrams))
		f.sentBytes.Add(uint64(len(b)))
		return nil
	case err == fabric.ErrClosed:
		return err
	case err == unix.EMSGSIZE:
		return fabric.ErrTooLong
	}
	f.lost.Add(uint64(datagrams))
	return nil
}

// send is the system call. size is that of each datagram; 0: b is one.
func (f *Fabric) send(to fabric.Tuple, b []byte, size int) error {
	o := outgoings.Get().(*outgoing)
	if to.Kind == fabric.ETH4 {
		o.four.Port, o.four.Addr = int(to.Num), [4]byte(to.Addr[:4])
		o.to = &o.four
	} else {
		o.six.Port, o.six.Addr = int(to.Num), to.Addr
		o.to = &o.six
	}
	o.b, o.size = b, size
	closed := f.raw.Write(o.call)
	err := o.err
	o.b, o.err = nil, nil
	outgoings.Put(o)
	if closed != nil {
		return fabric.ErrClosed
	}
	return err
}

// apart says why a tuple of another kind cannot be reached.
func (f *Fabric) apart(to fabric.Tuple) error {
	if f.cfg.Instead == "" || to.Kind == fabric.ETH4 || to.Kind == fabric.ETH6 {
		return fmt.Errorf("udp: %v is no address that %v can send to", to, f.cfg.Addr)
	}
	return fmt.Errorf("udp: its node goes by InfiniBand or RoCE (%v), and this one by Ethernet (%v), since %s: use "+
		"--fabric udp for all, or see ibrun --doctor", to, f.cfg.Addr, f.cfg.Instead)
}

// Close ends the endpoint and waits for its goroutines and for who drives.
func (f *Fabric) Close() error {
	f.mu.Lock()
	f.end()
	l := f.listener
	f.mu.Unlock()
	_ = f.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) }) // whoever waits in the kernel
	f.in.ready.Close()
	f.socket.Close()
	f.drive.End()
	if l != nil {
		l.Close()
	}
	f.loops.Wait()
	<-f.drive.Free() // whoever had it has left the sink, and will find the socket closed
	f.drive.Give()
	return nil
}
