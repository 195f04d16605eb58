package lazy

import (
	"context"
	"io"
	"net"

	"ibrun"
)

// plain is the floor: the sockets of package net, used as plainly as can be.
// Rank 1 listens; its addresses go over the key-value store (KVS).
type plain struct {
	udp *net.UDPConn
	to  *net.UDPAddr
	tcp net.Conn
}

func newPlain(ctx context.Context, w *ibrun.World) (*plain, error) {
	p := &plain{}
	var err error
	if p.udp, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, err
	}
	if err := w.Put(ctx, "udp", []byte(p.udp.LocalAddr().String())); err != nil {
		return nil, err
	}
	other, err := w.Get(ctx, 1-w.Rank(), "udp")
	if err != nil {
		return nil, err
	}
	if p.to, err = net.ResolveUDPAddr("udp4", string(other)); err != nil {
		return nil, err
	}
	if w.Rank() == 1 {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		if err := w.Put(ctx, "tcp", []byte(l.Addr().String())); err != nil {
			return nil, err
		}
		p.tcp, err = l.Accept()
		return p, err
	}
	at, err := w.Get(ctx, 1, "tcp")
	if err != nil {
		return nil, err
	}
	p.tcp, err = net.Dial("tcp4", string(at))
	return p, err
}

func (p *plain) datagrams(rank, count int) error {
	buf := make([]byte, 2048)
	to := p.to.AddrPort()
	for range count {
		if rank == 0 {
			if _, err := p.udp.WriteToUDPAddrPort(buf[:64], to); err != nil {
				return err
			}
		}
		n, _, err := p.udp.ReadFromUDPAddrPort(buf)
		if err != nil {
			return err
		}
		if rank == 1 {
			if _, err := p.udp.WriteToUDPAddrPort(buf[:n], to); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *plain) stream(rank, chunks, chunk int) error {
	buf := make([]byte, chunk)
	if rank == 1 {
		for range chunks {
			if _, err := io.ReadFull(p.tcp, buf); err != nil {
				return err
			}
		}
		_, err := p.tcp.Write([]byte("done"))
		return err
	}
	for range chunks {
		if _, err := p.tcp.Write(buf); err != nil {
			return err
		}
	}
	_, err := io.ReadFull(p.tcp, buf[:4])
	return err
}
