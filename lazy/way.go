package lazy

import (
	"errors"

	"ibrun/fabric"
)

// Reach opens the way to other nodes if it is not open yet, and waits for that.
// Its error is that of every later call too.
func (t *Table) Reach() error {
	t.way.once.Do(func() { t.way.err = t.open() })
	return t.way.err
}

func (t *Table) open() error {
	t.fmu.Lock() // the sink waits until the fabric is known
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

// openSecondary opens the second way, if there is to be one and the first is not on
// Ethernet itself.
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

// Wanted opens the way in the background: another node asks for this rank. Why
// it cannot be opened, those who send will hear, and failed now. False: it is
// open already.
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

// apart runs f in a goroutine that Close waits for. After Close it does nothing.
func (t *Table) apart(f func()) {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if !t.stopped {
		t.readers.Go(f)
	}
}

// close closes the fabric, or makes sure that it is never opened.
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
