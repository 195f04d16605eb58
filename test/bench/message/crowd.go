package message

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"ibrun"
	"ibrun/test/bench/figure"
)

const (
	perSender   = 1000                   // messages that each sender sends to rank 0 in a round
	recvTimeout = 200 * time.Millisecond // a datagram counts as lost if none arrives for this time

	// Names of two roles. In both of them all ranks send small messages to all ranks.
	rolePlain   = "all"     // without WithAggregation
	roleBundled = "bundled" // with WithAggregation(bundleWait)

	perPair    = 100              // messages that each rank sends to each rank
	bundleWait = time.Millisecond // the longest delay of a message that waits to share a packet with later messages
)

// crowd measures how many messages of 1 KiB per millisecond rank 0 receives while all other ranks send to it, with
// package ibrun and with plain UDP. UDP loses some datagrams, which do not count. numbers[0] is the number of rounds.
func crowd(ctx context.Context, w *ibrun.World, numbers []int) ([]row, error) {
	c, to, err := crowdSocket(ctx, w)
	if err != nil {
		return nil, err
	}
	p, err := beside(numbers[0],
		func() (float64, error) { return gather(ctx, w) },
		func() (float64, error) { return gatherPlain(ctx, w, c, to) })
	if err != nil || w.Rank() > 0 {
		return nil, err
	}
	return []row{atLeast("63 senders of 1 KiB to one, beside what UDP delivers", "per ms", p, 0.5)}, nil
}

// crowdSocket opens a UDP socket in each rank. It returns this socket, and the address of the socket of rank 0.
func crowdSocket(ctx context.Context, w *ibrun.World) (c *net.UDPConn, to netip.AddrPort, err error) {
	ip, err := address()
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

// gather runs one round with package ibrun. In rank 0 it returns how many messages per millisecond were received, and
// in all other ranks 0.
func gather(ctx context.Context, w *ibrun.World) (float64, error) {
	if err := w.Barrier(ctx); err != nil {
		return 0, err
	}
	if w.Rank() > 0 {
		m, i := make([]byte, 1<<10), 0
		if err := figure.Repeat(perSender, func() error {
			m[0], m[1] = byte(i>>8), byte(i)
			i++
			return w.Send(ctx, 0, m)
		}); err != nil {
			return 0, err
		}
		return 0, w.Flush(ctx)
	}
	took, err := figure.Time(func() error { return receive(ctx, w, perSender*senders, 1<<10) })
	return perSender * senders / figure.Milliseconds(took), err
}

// receive receives the given number of messages from all ranks together. Each message has size bytes and begins with
// its sequence number in two bytes. receive returns an error if a message is lost, duplicated or out of order.
func receive(ctx context.Context, w *ibrun.World, messages, size int) error {
	next := make([]int, w.Size())
	return figure.Repeat(messages, func() error {
		from, m, err := w.Recv(ctx)
		if err != nil {
			return err
		}
		if len(m) != size || int(m[0])<<8|int(m[1]) != next[from] {
			return errors.New("a message was lost, doubled or reordered")
		}
		next[from]++
		return nil
	})
}

func gatherPlain(ctx context.Context, w *ibrun.World, c *net.UDPConn, to netip.AddrPort) (float64, error) {
	if err := w.Barrier(ctx); err != nil {
		return 0, err
	}
	m := make([]byte, 1<<10)
	if w.Rank() > 0 {
		err := figure.Repeat(perSender, func() error { _, err := c.WriteToUDPAddrPort(m, to); return err })
		return 0, errors.Join(err, w.Barrier(ctx))
	}
	sent := make(chan error, 1)
	go func() { sent <- w.Barrier(ctx) }()
	came := 0
	began := time.Now()
	last := began
	for {
		if err := c.SetReadDeadline(time.Now().Add(recvTimeout)); err != nil {
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

// allToAll measures how many milliseconds pass until each rank has received perPair messages of 64 bytes from each
// rank.
func allToAll(ctx context.Context, w *ibrun.World, _ []int) ([]row, error) {
	took, err := figure.Time(func() error {
		sent := make(chan error, 1)
		go func() {
			m, i := make([]byte, 64), 0
			err := figure.Repeat(w.Size()*perPair, func() error {
				m[0], m[1] = byte(i/w.Size()>>8), byte(i/w.Size())
				i++
				return w.Send(ctx, (w.Rank()+i-1)%w.Size(), m)
			})
			sent <- errors.Join(err, w.Flush(ctx))
		}()
		if err := receive(ctx, w, w.Size()*perPair, 64); err != nil {
			return err
		}
		return errors.Join(<-sent, w.Barrier(ctx))
	})
	return []row{{Ours: figure.Milliseconds(took)}}, err
}
