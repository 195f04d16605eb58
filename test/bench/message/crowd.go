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
	fromEach = 1000                   // messages of each sender in a round
	quiet    = 200 * time.Millisecond // datagrams that are still missing after such a pause count as lost

	// All ranks send small messages to all ranks.
	rolePlain   = "all"            // the role without WithAggregation
	roleBundled = "bundled"        // the role with WithAggregation
	eachTo      = 100              // messages from each rank to each
	bundleWait  = time.Millisecond // how long a message may be delayed to be sent together with others
)

// crowd measures how many messages of 1 KiB rank 0 receives per millisecond while all other ranks send to it. For
// plain UDP, which loses some of them, it counts the datagrams that arrive.
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

// crowdSocket opens a UDP socket in each rank, and returns it and the address of the socket of rank 0.
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

// gather runs one round with package ibrun. It returns how many messages rank 0 received per millisecond, and 0 in
// other ranks.
func gather(ctx context.Context, w *ibrun.World) (float64, error) {
	if err := w.Barrier(ctx); err != nil {
		return 0, err
	}
	if w.Rank() > 0 {
		m, i := make([]byte, 1<<10), 0
		if err := figure.Repeat(fromEach, func() error {
			m[0], m[1] = byte(i>>8), byte(i)
			i++
			return w.Send(ctx, 0, m)
		}); err != nil {
			return 0, err
		}
		return 0, w.Flush(ctx)
	}
	took, err := figure.Time(func() error { return receive(ctx, w, fromEach*senders, 1<<10) })
	return fromEach * senders / figure.Milliseconds(took), err
}

// receive receives the given number of messages from all ranks together. Each sender numbers its messages. receive
// fails if one is lost, doubled or reordered.
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
		err := figure.Repeat(fromEach, func() error { _, err := c.WriteToUDPAddrPort(m, to); return err })
		return 0, errors.Join(err, w.Barrier(ctx))
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

// allToAll measures how long it takes until each rank has received eachTo messages of 64 bytes from each rank.
func allToAll(ctx context.Context, w *ibrun.World, _ []int) ([]row, error) {
	took, err := figure.Time(func() error {
		sent := make(chan error, 1)
		go func() {
			m, i := make([]byte, 64), 0
			err := figure.Repeat(w.Size()*eachTo, func() error {
				m[0], m[1] = byte(i/w.Size()>>8), byte(i/w.Size())
				i++
				return w.Send(ctx, (w.Rank()+i-1)%w.Size(), m)
			})
			sent <- errors.Join(err, w.Flush(ctx))
		}()
		if err := receive(ctx, w, w.Size()*eachTo, 64); err != nil {
			return err
		}
		return errors.Join(<-sent, w.Barrier(ctx))
	})
	return []row{{Ours: figure.Milliseconds(took)}}, err
}
