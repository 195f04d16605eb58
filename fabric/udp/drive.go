package udp

import (
	"errors"
	"net"
	"os"
	"time"

	"ibrun/fabric"
)

// receive is the fabric's own goroutine.
func (f *Fabric) receive() {
	for {
		if err := f.read(); errors.Is(err, net.ErrClosed) {
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

// Turn implements fabric.Driver.
func (f *Fabric) Turn() <-chan struct{} { return f.drive.Free() }

// Want implements fabric.Driver.
func (f *Fabric) Want() { f.drive.Want() }

// Drive implements fabric.Driver.
func (f *Fabric) Drive() {
	_ = f.read() // what ends it, ends the receiver's wait too
	f.drive.Leave()
}

// Pass implements fabric.Driver.
func (f *Fabric) Pass() { f.drive.Leave() }

// Wake implements fabric.Driver.
func (f *Fabric) Wake() { _ = f.conn.SetReadDeadline(past) }

var past = time.Unix(1, 0)

// read hands one datagram to the sink; the caller has the turn.
func (f *Fabric) read() error {
	n, from, err := f.conn.ReadFromUDPAddrPort(f.buf)
	switch {
	case err == nil:
		f.received.Add(1)
		f.receivedBytes.Add(uint64(n))
		f.sink.Datagram(fabric.Ethernet(from), f.buf[:n])
	case errors.Is(err, os.ErrDeadlineExceeded): // Wake
		_ = f.conn.SetReadDeadline(time.Time{})
	}
	return err // others are of datagrams that were sent before
}
