package udp

import (
	"errors"
	"net"

	"ibrun/internal/poll"
)

// receive is the fabric's own goroutine.
func (f *Fabric) receive() {
	f.greet()
	for {
		if err := f.read(false); errors.Is(err, net.ErrClosed) {
			f.drive.Give()
			return
		}
		if f.drive.Wanted() {
			f.drive.Leave()
			if !f.drive.Wait() {
				return
			}
		}
	}
}

func (f *Fabric) Turn() *poll.Turn { return f.drive }

func (f *Fabric) Drive() {
	_ = f.read(true) // what ends it, ends the receiver's wait too
	f.drive.Leave()
}

func (f *Fabric) Wake() { f.in.wake(f.greet) }

// greet sends an empty datagram to ourselves, which nobody else does.
func (f *Fabric) greet() { _ = f.send(f.tuple, nil, 0) }

// read hands what has come to the sink; the caller has the turn. direct: it may wait in the kernel.
func (f *Fabric) read(direct bool) error {
	n, err := f.in.next(direct)
	if f.ending.Err() != nil {
		return net.ErrClosed
	}
	for i := range n {
		from, b := f.in.datagram(i)
		if len(b) == 0 {
			if from == f.tuple {
				f.in.wakes.Store(true)
			}
			continue
		}
		f.sink.Datagram(from, b)
	}
	return err // others are of datagrams that were sent before
}
