package between

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"ibrun"
	"ibrun/test/bench/figure"
	"ibrun/test/bench/hosts"
)

// each is the number of messages of one sender in a round, and quiet the time after which plain UDP
// has lost what has not come.
const (
	each  = 1000
	quiet = 200 * time.Millisecond
)

// many measures messages of 1 KiB that all other ranks send to rank 0 at the same time: how many a
// second arrive. Plain UDP loses some of them.
func many(ctx context.Context, w *ibrun.World, rounds int) ([]row, error) {
	c, to, err := crowdSocket(ctx, w)
	if err != nil {
		return nil, err
	}
	var pair figure.Pair
	err = pair.Measure(rounds+1,
		func() (float64, error) { return gather(ctx, w) },
		func() (float64, error) { return gatherPlain(ctx, w, c, to) })
	if err != nil || w.Rank() > 0 {
		return nil, err
	}
	pair.Ours, pair.Theirs = pair.Ours[1:], pair.Theirs[1:]
	return []row{atLeast("63 senders of 1 KiB to one, beside what UDP delivers", "per ms", pair, 0.5)}, nil
}

// crowdSocket is a socket of each rank, and the address of that of rank 0.
func crowdSocket(ctx context.Context, w *ibrun.World) (c *net.UDPConn, to netip.AddrPort, err error) {
	ip, err := hosts.Address()
	if err != nil {
		return nil, to, err
	}
	if c, err = net.ListenUDP("udp4", &net.UDPAddr{IP: ip}); err != nil {
		return nil, to, err
	}
	if w.Rank() == 0 {
		to = c.LocalAddr().(*net.UDPAddr).AddrPort()
		return c, to, w.Put(ctx, "crowd", []byte(to.String()))
	}
	text, err := w.Get(ctx, 0, "crowd")
	if err != nil {
		return nil, to, err
	}
	to, err = netip.ParseAddrPort(string(text))
	return c, to, err
}

// gather is one round. Nothing may be lost, doubled or reordered.
func gather(ctx context.Context, w *ibrun.World) (float64, error) {
	if err := w.Barrier(ctx); err != nil {
		return 0, err
	}
	m := make([]byte, 1<<10)
	if w.Rank() > 0 {
		for i := range each {
			m[0], m[1] = byte(i>>8), byte(i)
			if err := w.Send(ctx, 0, m); err != nil {
				return 0, err
			}
		}
		return 0, w.Flush(ctx)
	}
	next := make([]int, w.Size())
	began := time.Now()
	for range each * senders {
		from, m, err := w.Recv(ctx)
		if err != nil {
			return 0, err
		}
		if len(m) != 1<<10 || int(m[0])<<8|int(m[1]) != next[from] {
			return 0, errors.New("a message was lost, doubled or reordered")
		}
		next[from]++
	}
	return each * senders / figure.Milliseconds(time.Since(began)), nil
}

func gatherPlain(ctx context.Context, w *ibrun.World, c *net.UDPConn, to netip.AddrPort) (float64, error) {
	if err := w.Barrier(ctx); err != nil {
		return 0, err
	}
	m := make([]byte, 1<<10)
	if w.Rank() > 0 {
		for range each {
			if _, err := c.WriteToUDPAddrPort(m, to); err != nil {
				return 0, err
			}
		}
		return 0, w.Barrier(ctx)
	}
	sent := make(chan error, 1)
	go func() { sent <- w.Barrier(ctx) }()
	came := 0
	began := time.Now()
	last := began
	for {
		if err := c.SetReadDeadline(time.Now().Add(quiet)); err != nil {
			return 0, err
		}
		switch _, _, err := c.ReadFromUDPAddrPort(m); {
		case err == nil:
			came, last = came+1, time.Now()
			continue
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, err
		}
		select {
		case err := <-sent:
			return float64(came) / figure.Milliseconds(last.Sub(began)), err
		default:
		}
	}
}
