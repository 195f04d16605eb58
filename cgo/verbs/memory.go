package verbs

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PD is a protection domain: what is made in one can be used together.
type PD struct {
	life
	context *Context
}

// NewPD makes a protection domain.
func (c *Context) NewPD() (*PD, error) {
	p := &PD{context: c}
	return create(p, &p.life, "protection domain", "of "+c.device, []*life{&c.life},
		func() (unsafe.Pointer, int) { return shimAllocPD(c.ptr) }, nil)
}

// Close ends the domain.
func (p *PD) Close() error { return p.end(shimDeallocPD) }

// Access is what a registration or a queue pair allows.
type Access uint32

// The rights. Sending and posting from memory needs none.
const (
	LocalWrite  Access = 1 // receives and RDMA reads land here
	RemoteWrite Access = 2 // needs LocalWrite
	RemoteRead  Access = 4
)

// MR is registered, pinned memory.
type MR struct {
	life
	bytes  []byte
	mapped []byte // whole pages of Allocate; nil for the caller's memory
	pin    runtime.Pinner
	lkey   uint32
	rkey   uint32
}

// Allocate makes registered memory of its own: whole pages, outside the Go
// heap, gone after Close.
func (p *PD) Allocate(size int, access Access) (*MR, error) {
	page := os.Getpagesize()
	whole := (max(size, 1) + page - 1) / page * page
	b, err := unix.Mmap(-1, 0, whole, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("%d bytes to register: %w", whole, err)
	}
	_ = unix.Madvise(b, unix.MADV_DONTFORK) // a child's copy-on-write would move pages from under the device
	m, err := p.register(b, access)
	if err != nil {
		unix.Munmap(b)
		return nil, err
	}
	m.bytes, m.mapped = b[:size:size], b
	return m, nil
}

// Register registers the caller's memory. Of the Go heap it is pinned until
// Close; other memory has to stay mapped until then.
func (p *PD) Register(b []byte, access Access) (*MR, error) {
	if len(b) == 0 {
		return nil, failed("registering 0 bytes on "+p.context.device, -int(syscall.EINVAL), "")
	}
	return p.register(b, access)
}

func (p *PD) register(b []byte, access Access) (*MR, error) {
	m := &MR{bytes: b}
	m.pin.Pin(&b[0])
	made, err := create(m, &m.life, "memory region", fmt.Sprintf("of %d bytes on %s", len(b), p.context.device),
		[]*life{&p.life},
		func() (ptr unsafe.Pointer, rc int) {
			ptr, m.lkey, m.rkey, rc = shimRegMR(p.ptr, b, access)
			return ptr, rc
		}, lockedHint)
	if err != nil {
		m.pin.Unpin()
	}
	return made, err
}

// lockedHint explains the usual cause why memory cannot be pinned.
func lockedHint(errno syscall.Errno) string {
	var limit unix.Rlimit
	if errno != syscall.ENOMEM && errno != syscall.EAGAIN || unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil {
		return ""
	}
	if limit.Cur == unix.RLIM_INFINITY {
		return "locked memory is not limited here; the device or the kernel has no room"
	}
	return fmt.Sprintf("locked memory is limited to %d KiB: ulimit -l unlimited, or memlock in "+
		"/etc/security/limits.conf", limit.Cur>>10)
}

// Bytes is the memory. It must not be touched after Close.
func (m *MR) Bytes() []byte { return m.bytes }

// Addr is where the memory begins, for work requests and for the other side's RDMA.
func (m *MR) Addr() uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(m.bytes)))) }

// LKey is the key for work requests.
func (m *MR) LKey() uint32 { return m.lkey }

// RKey is the key for the other side's RDMA.
func (m *MR) RKey() uint32 { return m.rkey }

// Close unregisters, and frees what Allocate made.
func (m *MR) Close() error {
	return m.end(func(ptr unsafe.Pointer) int {
		rc := shimDeregMR(ptr)
		if rc == 0 {
			m.pin.Unpin()
			if m.mapped != nil {
				unix.Munmap(m.mapped)
			}
			m.bytes, m.mapped = nil, nil
		}
		return rc
	})
}
