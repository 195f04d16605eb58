package lazy

import (
	"errors"

	"ibrun/fabric"
)

// Reach opens the fabric to other nodes, unless it is open already, and waits until it is open. If opening fails, every
// later call returns the same error.
func (t *Table) Reach() error {
	t.way.once.Do(func() { t.way.err = t.open() })
	return t.way.err
}

// open opens the fabrics and publishes their addresses.
func (t *Table) open() error {
	t.fmu.Lock() // events of the fabric wait until t.fabric is set
	defer t.fmu.Unlock()
	if t.stopped {
		return ErrClosed
	}
	opened, err := t.cfg.Open(sink{t})
	if err != nil {
		return err
	}
	t.fabric = opened
	if b, ok := opened.(fabric.Counter); ok {
		t.cfg.MaxLive = min(t.cfg.MaxLive, max(1, b.MostStreams()/int(t.locals)))
	}
	t.openSecondary()
	tuple := opened.Tuple()
	t.way.opened.Store(&tuple)
	t.in.mu.Lock()
	t.in.driver, _ = opened.(fabric.Driver)
	t.in.mu.Unlock()
	if t.cfg.Opened != nil {
		t.cfg.Opened(tuple)
	}
	return nil
}

// openSecondary opens the second fabric, if there is one and the first fabric is not Ethernet.
func (t *Table) openSecondary() {
	if t.cfg.Secondary == nil || t.fabric.Tuple().Kind.Ethernet() {
		return
	}
	tuple := fabric.Tuple{Kind: fabric.NONE}
	if t.secondary = t.cfg.Secondary(sink{t}); t.secondary != nil {
		tuple = t.secondary.Tuple()
	}
	if t.cfg.SecondaryOpened != nil {
		t.cfg.SecondaryOpened(tuple)
	}
}

// Wanted opens the fabric in the background, because another node asks for the address of this rank. It returns false
// if the fabric is open already. If the fabric cannot be opened, Wanted passes the error to the function failed, unless
// the table has been closed. Later sends to other nodes return this error, too.
func (t *Table) Wanted(failed func(error)) bool {
	if t.Tuple().Kind != fabric.NONE {
		return false
	}
	t.apart(func() {
		if err := t.Reach(); err != nil && err != ErrClosed {
			failed(err)
		}
	})
	return true
}

// apart runs f in a goroutine that Close waits for. After Close, apart does nothing.
func (t *Table) apart(f func()) {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if !t.stopped {
		t.readers.Go(f)
	}
}

// close closes both fabrics of t, or makes sure that they are never opened.
func (w *way) close(t *Table) error {
	w.once.Do(func() { w.err = ErrClosed })
	var err error
	for _, f := range []fabric.Fabric{t.fabric, t.secondary} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
