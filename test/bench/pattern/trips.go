package pattern

import (
	"context"
	"errors"
	"io"
	"net"

	"ibrun"
	"ibrun/test/bench/figure"
	"ibrun/test/bench/hosts"
)

// trips measures round trips of 1 byte to most, each size four times the one before.
func trips(ctx context.Context, w *ibrun.World, tcp bool, most int) error {
	if w.Size() != 2 {
		return errors.New("round trips need two ranks")
	}
	send := func(m []byte) error { return w.Send(ctx, 1-w.Rank(), m) }
	receive := func(m []byte) error {
		got, err := w.RecvFrom(ctx, 1-w.Rank())
		if err == nil && len(got) != len(m) {
			err = errors.New("a message of another length")
		}
		w.Free(got)
		return err
	}
	if tcp {
		c, err := connect(ctx, w)
		if err != nil {
			return err
		}
		defer c.Close()
		send = func(m []byte) error { _, err := c.Write(m); return err }
		receive = func(m []byte) error { _, err := io.ReadFull(c, m); return err }
	}
	for size := 1; size <= most; size *= 4 {
		m := make([]byte, size)
		trip := func() error {
			first, second := send, receive
			if w.Rank() == 1 {
				first, second = receive, send
			}
			if err := first(m); err != nil {
				return err
			}
			return second(m)
		}
		count := repetitions(size)
		run := func(n int) func() error {
			return func() error {
				for range n {
					if err := trip(); err != nil {
						return err
					}
				}
				return nil
			}
		}
		if err := run(count / 5)(); err != nil {
			return err
		}
		took, err := figure.Time(run(count))
		if err != nil {
			return err
		}
		if w.Rank() == 0 {
			line(size, took, count)
		}
	}
	return nil
}

// repetitions are as many as pattern.c has.
func repetitions(size int) int {
	switch {
	case size <= 16<<10:
		return 200
	case size <= 1<<20:
		return 40
	}
	return 5
}

// connect makes a connection of package net between the two ranks.
func connect(ctx context.Context, w *ibrun.World) (net.Conn, error) {
	const key = "address"
	if w.Rank() == 1 {
		address, err := w.Get(ctx, 0, key)
		if err != nil {
			return nil, err
		}
		return net.Dial("tcp4", string(address))
	}
	ip, err := hosts.Address()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp4", net.JoinHostPort(ip.String(), "0"))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := w.Put(ctx, key, []byte(l.Addr().String())); err != nil {
		return nil, err
	}
	return l.Accept()
}
