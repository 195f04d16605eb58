package udp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/fabric"
)

// acceptPause is how long accepting rests after a failure, such as having no
// descriptors left, which would otherwise come again at once.
const acceptPause = 20 * time.Millisecond

// Offer listens for TCP connections, from the first call on, and returns the port.
func (f *Fabric) Offer() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending.Err() != nil {
		return nil, fabric.ErrClosed
	}
	if f.listener == nil {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(f.cfg.Addr, 0)))
		if err != nil {
			return nil, fmt.Errorf("udp: listen for streams: %w", err)
		}
		f.listener = l
		f.loops.Go(func() { f.accept(l) })
	}
	port := f.listener.Addr().(*net.TCPAddr).Port
	return binary.BigEndian.AppendUint16(nil, uint16(port)), nil
}

// accept is the goroutine that hands streams to the sink.
func (f *Fabric) accept(l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		switch {
		case err == nil:
			f.accepted.Add(1)
			f.bound(c)
			f.sink.Accepted(c)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			select {
			case <-f.ending.Done():
			case <-time.After(acceptPause):
			}
		}
	}
}

// bindWithoutPort lets the kernel choose a local port for each pair of ends, instead
// of one that no other connection of this address has.
func bindWithoutPort(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	})
}

// Dial opens a TCP connection to the endpoint's offer, from this endpoint's
// own address. Close ends it.
func (f *Fabric) Dial(ctx context.Context, to fabric.Tuple, offer []byte) (fabric.Stream, error) {
	switch {
	case f.ending.Err() != nil:
		return nil, fabric.ErrClosed
	case to.Kind != f.tuple.Kind:
		return nil, fmt.Errorf("udp: %v is no address that %v can dial", to, f.cfg.Addr)
	case len(offer) != 2:
		return nil, fmt.Errorf("udp: an offer of %d bytes is not a port", len(offer))
	}
	ctx, cancel := context.WithTimeout(ctx, f.cfg.DialTimeout)
	defer cancel()
	defer context.AfterFunc(f.ending, cancel)()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(f.cfg.Addr, 0)), Control: bindWithoutPort}
	at := netip.AddrPortFrom(to.AddrPort().Addr(), binary.BigEndian.Uint16(offer))
	c, err := d.DialContext(ctx, "tcp", at.String())
	switch {
	case err == nil:
		f.dialled.Add(1)
		f.bound(c.(*net.TCPConn))
		return c, nil
	case f.ending.Err() != nil:
		return nil, fabric.ErrClosed
	}
	return nil, fmt.Errorf("udp: %w", err)
}
