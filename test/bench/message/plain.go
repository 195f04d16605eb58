package message

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"

	"ibrun"
)

// plain has a UDP socket and a TCP connection of package net between rank 0 and one other rank.
type plain struct {
	udp *net.UDPConn
	to  netip.AddrPort
	tcp net.Conn
	buf []byte
}

// address returns the address of this node in the network of the virtual cluster, or the loopback address if the
// machine has no other network.
func address() (net.IP, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP, nil
		}
	}
	return net.IPv4(127, 0, 0, 1), nil
}

// plainCalls counts the calls of newPlain. The count is part of the keys that a call puts, because the value of a key
// cannot be changed.
var plainCalls int

// newPlain connects rank 0 with the rank to by UDP and by TCP. All ranks must call it, so that plainCalls is the same
// in all of them. It returns nil in ranks other than these two.
func newPlain(ctx context.Context, w *ibrun.World, to int) (*plain, error) {
	plainCalls++
	if w.Rank() != 0 && w.Rank() != to {
		return nil, nil
	}
	peer := to - w.Rank()
	ip, err := address()
	if err != nil {
		return nil, err
	}
	p := &plain{buf: make([]byte, 64<<10)}
	if p.udp, err = net.ListenUDP("udp4", &net.UDPAddr{IP: ip}); err != nil {
		return nil, err
	}
	var l net.Listener
	if w.Rank() == to {
		if l, err = net.Listen("tcp4", netip.AddrPortFrom(netip.MustParseAddr(ip.String()), 0).String()); err != nil {
			return nil, err
		}
		defer l.Close()
		if err := w.Put(ctx, fmt.Sprint("tcp ", plainCalls), []byte(l.Addr().String())); err != nil {
			return nil, err
		}
	}
	key := fmt.Sprint("udp ", plainCalls)
	if err := w.Put(ctx, key, []byte(p.udp.LocalAddr().String())); err != nil {
		return nil, err
	}
	other, err := w.Get(ctx, peer, key)
	if err != nil {
		return nil, err
	}
	if p.to, err = netip.ParseAddrPort(string(other)); err != nil {
		return nil, err
	}
	if l != nil {
		p.tcp, err = l.Accept()
		return p, err
	}
	address, err := w.Get(ctx, to, fmt.Sprint("tcp ", plainCalls))
	if err != nil {
		return nil, err
	}
	p.tcp, err = net.Dial("tcp4", string(address))
	return p, err
}

// datagram makes one round trip of a datagram of size bytes from rank 0 to the other rank and back. Both ranks call
// it.
func (p *plain) datagram(rank, size int) error {
	if rank == 0 {
		if _, err := p.udp.WriteToUDPAddrPort(p.buf[:size], p.to); err != nil {
			return err
		}
	}
	n, _, err := p.udp.ReadFromUDPAddrPort(p.buf)
	if err != nil || rank == 0 {
		return err
	}
	_, err = p.udp.WriteToUDPAddrPort(p.buf[:n], p.to)
	return err
}

// stream sends messages of size bytes over TCP from rank 0 to the other rank, which sends four bytes back after the
// last one. Both ranks call it.
func (p *plain) stream(rank, messages, size int) error {
	if len(p.buf) < size {
		p.buf = make([]byte, size)
	}
	for range messages {
		var err error
		if rank == 0 {
			_, err = p.tcp.Write(p.buf[:size])
		} else {
			_, err = io.ReadFull(p.tcp, p.buf[:size])
		}
		if err != nil {
			return err
		}
	}
	if rank > 0 {
		_, err := p.tcp.Write([]byte("done"))
		return err
	}
	_, err := io.ReadFull(p.tcp, p.buf[:4])
	return err
}
