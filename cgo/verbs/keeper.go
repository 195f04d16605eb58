package verbs

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ibrun/internal/poll"
)

// othersEvery is after how many waits that kept the processor the Go poller looks at the other
// descriptors of a process with one processor. Nobody else does, but Go's monitor each 10 ms.
const othersEvery = 64

// keeper waits for a descriptor in the kernel without giving its processor (P) back to Go. The
// thread sleeps, so no CPU is used. It is for short waits: to give the last processor back puts
// Go's monitor thread to sleep, and the next system call wakes it, which costs several switches of
// threads (docs/dev/decisions/0012-infiniband.md). The goroutines that are runnable have their turn
// before; those that become so in the meantime wait until it is over, if there is no other
// processor.
type keeper struct {
	rare   poll.Rare
	waits  int
	sent   *atomic.Uint32 // what the context has posted; nil: not known
	before uint32         // of that, when the last wait was due
}

// follow has the keeper look at what a context has posted. What it posted before is no answer.
func (k *keeper) follow(sent *atomic.Uint32) { k.sent, k.before = sent, sent.Load() }

// due reports whether the wait that begins now is to keep the processor. Others have run then.
func (k *keeper) due() bool {
	if !k.rare.Due() {
		return false
	}
	// Go takes from the queue that this goroutine goes to first in each 61st turn, when others are
	// in a queue of the processor. Twice in a row it does not. Where one has sent something since
	// the last wait, as an answer to what that brought, they have had their turn.
	runtime.Gosched()
	if !k.answered() {
		runtime.Gosched()
	}
	k.waits++
	if k.waits%othersEvery == 0 && runtime.GOMAXPROCS(0) == 1 { // of several, another looks after them
		ownBell().ring()
	}
	return true
}

// answered reports whether something was sent since it was last called.
func (k *keeper) answered() bool {
	if k.sent == nil {
		return false
	}
	before := k.before
	k.before = k.sent.Load()
	return k.before != before
}

// wait returns true when the descriptor has something, or perhaps has, and false after most. A
// signal ends it, by which Go stops threads.
func (k *keeper) wait(fd int32, most time.Duration) bool {
	polled, timeout := unix.PollFd{Fd: fd, Events: unix.POLLIN}, unix.NsecToTimespec(int64(most))
	n, _, failed := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&polled)), 1,
		uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
	came := n > 0 || failed != 0
	k.rare.Note(came)
	return came
}

// bell is a file descriptor in the Go poller. Ringing the bell makes the descriptor readable.
type bell struct{ raw syscall.RawConn }

// ownBell returns the bell of this process, or nil if no file descriptor was free to create the bell. Ringing a nil
// bell does nothing.
var ownBell = sync.OnceValue(func() *bell {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil
	}
	raw, err := os.NewFile(uintptr(fd), "bell").SyscallConn()
	if err != nil {
		return nil
	}
	return &bell{raw}
})

// ring waits in the Go poller for what is there already. So the poller looks at all descriptors,
// and the processor is not given back.
func (b *bell) ring() {
	if b == nil {
		return
	}
	rung := false
	_ = b.raw.Read(func(fd uintptr) bool {
		if rung {
			return true
		}
		rung = true
		one := uint64(1)
		_, _, _ = unix.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
		return false
	})
}
