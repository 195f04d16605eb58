package proc

import (
	"encoding/binary"
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Shrug makes signals do nothing. Unlike ignoring them, it does not pass to
// the programs that this process starts.
func Shrug(signals ...os.Signal) {
	c := make(chan os.Signal, 1) // what does not fit is dropped, as is what does
	signal.Notify(c, signals...)
}

// held is what Signals reads from a descriptor. Programs that this process starts do not find it
// blocked.
var held uint64

// Signals calls got for each of these signals that this process gets, one call at a time. It is
// called once, before there are programs. Those that this process was begun with blocked are read
// from a descriptor, at the price of one system call: for each of the others os/signal has another
// thread change its mask, and waits for it. Go itself lets nobody block HUP, INT and TERM
// (runtime/signal_unix.go, blockableSig).
func Signals(got func(syscall.Signal), signals ...syscall.Signal) {
	c := make(chan syscall.Signal, 8)
	blocked, fd := blockedOf(signals)
	held = blocked
	var rest []os.Signal
	for _, s := range signals {
		if blocked>>(s-1)&1 == 0 {
			rest = append(rest, s)
		}
	}
	if blocked != 0 {
		go readSignals(os.NewFile(uintptr(fd), "signals"), c)
	}
	notified := make(chan os.Signal, 8)
	if len(rest) > 0 { // of none, all would be meant
		signal.Notify(notified, rest...)
	}
	go func() {
		for {
			select {
			case s := <-notified:
				got(s.(syscall.Signal))
			case s := <-c:
				got(s)
			}
		}
	}()
}

// blockedOf is which signals this thread has blocked, and a descriptor for them. Go's threads begin
// with what the first one had blocked.
func blockedOf(signals []syscall.Signal) (blocked uint64, fd int) {
	var set, now unix.Sigset_t
	if unix.PthreadSigmask(unix.SIG_BLOCK, nil, &now) != nil {
		return 0, -1
	}
	for _, s := range signals {
		set.Val[0] |= now.Val[0] & (1 << (s - 1))
	}
	if set.Val[0] == 0 {
		return 0, -1
	}
	fd, err := unix.Signalfd(-1, &set, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK)
	if err != nil {
		return 0, -1
	}
	return set.Val[0], fd
}

func readSignals(f *os.File, to chan<- syscall.Signal) {
	const size = int(unsafe.Sizeof(unix.SignalfdSiginfo{})) // its number comes first
	b := make([]byte, 4*size)
	for {
		n, err := f.Read(b)
		if err != nil {
			return
		}
		for at := 0; at+size <= n; at += size {
			to <- syscall.Signal(binary.NativeEndian.Uint32(b[at:]))
		}
	}
}
