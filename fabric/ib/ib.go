// Package ib is the InfiniBand and RoCE fabric: one unreliable-datagram queue
// pair per rank for datagrams, and a reliable queue pair for each stream. It
// never waits to send a datagram, and knows nothing of ranks or messages. It opens
// one port of one device.
package ib

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"ibrun/fabric"
)

// Open makes an endpoint and starts to receive. It may take as long as the
// device takes to open, which is 20 to 80 ms on hardware. The error is one
// line, with what to do about it, and does not name the node.
func Open(cfg Config, sink fabric.Sink) (*Fabric, error) {
	began := time.Now()
	w, err := parsePort(cfg.Port)
	if err != nil {
		return nil, fmt.Errorf("ib: %w", err)
	}
	if cfg.SL > 15 {
		return nil, fmt.Errorf("ib: service level %d: 0 to 15", cfg.SL)
	}
	w.gid, w.pkey, w.sl, w.rank, w.path = cfg.GIDIndex, cfg.PKey, cfg.SL, cfg.Rank, cfg.AskSL
	cfg.Receives = cmp.Or(cfg.Receives, defaultReceives)
	cfg.DialTimeout = cmp.Or(cfg.DialTimeout, defaultDialTimeout)
	cfg.PortGrace = cmp.Or(cfg.PortGrace, defaultPortGrace)
	cfg.QKey &= 1<<31 - 1 // the kernel keeps those with the top bit
	f := &Fabric{cfg: cfg, sink: sink, dials: map[uint64]chan control{}}
	if f.dev, err = openDevice(w); err != nil {
		return nil, fmt.Errorf("ib: %w", err)
	}
	f.ending, f.end = context.WithCancel(context.Background())
	f.mtu = min(f.dev.at.mtu.Bytes(), mostBody)
	if err = f.askLevels(); err == nil {
		err = f.openDatagrams()
	}
	if err != nil {
		f.end()
		f.closeDatagrams()
		f.dev.release()
		return nil, fmt.Errorf("ib: port %v: %w", &f.dev.port, err)
	}
	f.tuple = f.dev.at.tuple
	f.tuple.Num = f.out.qp.Number()
	f.counters.opening = time.Since(began)
	f.loops.Go(f.receive)
	go f.watch()
	return f, nil
}

// Close ends the endpoint and waits for its goroutines; those of streams that
// live on stay.
func (f *Fabric) Close() error {
	f.once.Do(func() {
		f.end()
		f.accepting.Lock()
		f.over = true
		f.accepting.Unlock()
		f.in.stop()
		f.loops.Wait()
		f.closed = f.closeDatagrams()
		if l := f.streams(); l != nil {
			l.leave()
		}
		if err := f.dev.release(); f.closed == nil {
			f.closed = err
		}
	})
	return f.closed
}

// askLevels makes the endpoint ask for service levels if it shall. What is missing for that is
// found before the first message.
func (f *Fabric) askLevels() error {
	at := &f.dev.at
	switch {
	case !f.cfg.AskSL || at.sources != nil: // RoCE has no subnet manager
		return nil
	case at.tuple.Kind != fabric.IBGID:
		return errors.New("it has no GID, which --sl path needs: write --sl N; see ibv_devinfo -v")
	}
	own := at.tuple.Addr
	if err := f.cfg.records.Available(); err != nil {
		return fmt.Errorf("--sl path needs the kernel's connection manager: %w: as root, modprobe rdma_ucm; or write "+
			"--sl N", err)
	}
	f.levels = newLevels(f.ending, func(ctx context.Context, to [16]byte) (uint8, error) {
		r, err := f.cfg.records.Between(ctx, own, to, at.key)
		if err != nil {
			return 0, fmt.Errorf("ib: no path record from port %v to %s: %w; see saquery -p, or write --sl N",
				&f.dev.port, netip.AddrFrom16(to), err)
		}
		return r.SL, nil
	})
	return nil
}
