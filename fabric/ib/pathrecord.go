package ib

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Path records. libibverbs has no call that asks the subnet manager for the path between two ports. The connection
// manager of the kernel has one, and its device is open to all users (drivers/infiniband/core/ucma.c: mode 0666). Its
// structures are in rdma/rdma_user_cm.h and rdma/ib_user_sa.h. Numbers have the byte order of the machine; addresses
// and the record are big-endian. A query has four commands: CREATE_ID, RESOLVE_ADDR (which finds the local port by its
// GID), RESOLVE_ROUTE (which asks the subnet manager, or ibacm if that listens to RDMA_NL_LS) and QUERY.
// docs/dev/decisions/0040-paths.md compares this with other methods.

// Source gets path records from the connection manager of the kernel. The zero value is ready to use.
type Source struct {
	Device string // path of the device; "" means cmDevice. Tests set it.
}

// cmDevice is the connection manager.
const cmDevice = "/dev/infiniband/rdma_cm"

// Commands and events, by the numbers of the kernel.
const (
	cmCreate       = 0
	cmResolveRoute = 4
	cmGetEvent     = 12
	cmQuery        = 19
	cmResolveAddr  = 21

	cmAddrResolved  = 0
	cmRouteResolved = 2

	cmQueryPath  = 1
	cmSpaceIB    = 0x013f
	cmSpaceTCP   = 0x0106
	cmReliable   = 2   // the service that a queue pair would have
	cmEventSize  = 512 // more than any version of the structure has
	cmRecordSize = 64
	cmRecords    = 2 // the kernel wants room for one more than it writes
	cmAddrSize   = 128
	afIB         = 27

	askPatience = 1000 // ms until the subnet manager is asked again
	askTries    = 3
)

// Record is what we need of a path record.
type Record struct {
	From, To [16]byte // GIDs
	DLID     uint16   // of To
	SLID     uint16   // of From
	PKey     uint16
	SL       uint8 // service level, 0 to 15
}

// parseRecord reads a path record (InfiniBand architecture, volume 1, 15.2.5.16).
func parseRecord(b []byte) (r Record, err error) {
	if len(b) < cmRecordSize {
		return r, fmt.Errorf("a path record of %d bytes", len(b))
	}
	copy(r.To[:], b[8:])
	copy(r.From[:], b[24:])
	r.DLID, r.SLID = binary.BigEndian.Uint16(b[40:]), binary.BigEndian.Uint16(b[42:])
	r.PKey = binary.BigEndian.Uint16(b[50:])
	r.SL = b[53] & 15 // the lower half of the byte; the rest is the class of service
	return r, nil
}

func (c Source) name() string { return cmp.Or(c.Device, cmDevice) }

// Available says why the connection manager cannot be asked, or nil.
func (c Source) Available() error {
	fd, err := unix.Open(c.name(), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: c.name(), Err: err}
	}
	return unix.Close(fd)
}

// Between asks for the record of the path between the ports of two GIDs, in a partition. The first
// is a port of this node. It takes the time of a question to the subnet manager, at most 4 s.
func (c Source) Between(ctx context.Context, from, to [16]byte, pkey uint16) (Record, error) {
	return c.resolve(ctx, cmSpaceIB, cmReliable, addressIB(from, pkey), addressIB(to, pkey))
}

// addressIB is a struct sockaddr_ib (rdma/ib.h of the kernel): family, partition, flow, GID,
// service.
func addressIB(gid [16]byte, pkey uint16) []byte {
	b := binary.NativeEndian.AppendUint16(nil, afIB)
	b = binary.BigEndian.AppendUint16(b, pkey)
	b = append(append(b, make([]byte, 4)...), gid[:]...)
	return append(b, make([]byte, 24)...)
}

// resolve asks for the record of the path between two socket addresses.
func (c Source) resolve(ctx context.Context, space uint16, service uint8, from, to []byte) (r Record, err error) {
	m, err := converse(c.name())
	if err != nil {
		return r, err
	}
	defer m.file.Close()
	if err = m.create(space, service); err != nil {
		return r, err
	}
	if err = m.resolveAddr(from, to); err == nil {
		err = m.await(ctx, cmAddrResolved, "finding the port")
	}
	for try := 1; err == nil || errors.Is(err, syscall.ETIMEDOUT) && try <= askTries; try++ {
		if err = m.do(cmResolveRoute, m.words(askPatience), -1, nil); err != nil {
			return r, fmt.Errorf("asking the subnet manager: %w", err)
		}
		if err = m.await(ctx, cmRouteResolved, "asking the subnet manager"); err == nil {
			return m.query()
		}
	}
	return r, err
}

// conversation is one open connection manager with an id. Everything ends with its descriptor.
type conversation struct {
	file *os.File
	raw  syscall.RawConn
	id   uint32
}

func converse(name string) (*conversation, error) {
	file, err := os.OpenFile(name, os.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	m := &conversation{file: file}
	if m.raw, err = file.SyscallConn(); err != nil {
		file.Close()
		return nil, err
	}
	return m, nil
}

// words are numbers of 32 bits behind the id, as most commands begin.
func (m *conversation) words(more ...uint32) []byte {
	b := binary.NativeEndian.AppendUint32(nil, m.id)
	for _, w := range more {
		b = binary.NativeEndian.AppendUint32(b, w)
	}
	return b
}

// frame puts the header before a command: command:32 in:16 out:16.
func frame(command uint32, in []byte, out int) []byte {
	b := binary.NativeEndian.AppendUint32(nil, command)
	b = binary.NativeEndian.AppendUint16(b, uint16(len(in)))
	b = binary.NativeEndian.AppendUint16(b, uint16(out))
	return append(b, in...)
}

// do writes a command. The kernel writes its answer to out, whose address stands at a place of in.
func (m *conversation) do(command uint32, in []byte, at int, out []byte) (err error) {
	var pin runtime.Pinner // the kernel has the address as a number, which nothing would correct
	defer pin.Unpin()
	if at >= 0 {
		pin.Pin(&out[0])
		binary.NativeEndian.PutUint64(in[at:], uint64(uintptr(unsafe.Pointer(&out[0]))))
	}
	b := frame(command, in, len(out))
	failed := m.raw.Control(func(fd uintptr) { _, err = unix.Write(int(fd), b) })
	if failed != nil {
		return failed
	}
	return err
}

func (m *conversation) create(space uint16, service uint8) error {
	in := make([]byte, 24) // uid:64 response:64 space:16 service:8
	in[0] = 1              // the kernel tells nobody of an id whose uid is 0
	binary.NativeEndian.PutUint16(in[16:], space)
	in[18] = service
	out := make([]byte, 8)
	if err := m.do(cmCreate, in, 8, out); err != nil {
		return fmt.Errorf("making an id: %w", err)
	}
	m.id = binary.NativeEndian.Uint32(out)
	return nil
}

func (m *conversation) resolveAddr(from, to []byte) error {
	in := m.words(askPatience)
	in = binary.NativeEndian.AppendUint16(in, uint16(len(from)))
	in = binary.NativeEndian.AppendUint16(in, uint16(len(to)))
	in = append(in, make([]byte, 4+2*cmAddrSize)...)
	copy(in[16:], from)
	copy(in[16+cmAddrSize:], to)
	if err := m.do(cmResolveAddr, in, -1, nil); err != nil {
		return fmt.Errorf("finding the port: %w", err)
	}
	return nil
}

// await takes events until one is the wanted one, or a failure.
func (m *conversation) await(ctx context.Context, want uint32, doing string) error {
	deadline, _ := ctx.Deadline()
	if err := m.file.SetReadDeadline(deadline); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = m.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	out := make([]byte, cmEventSize)
	var pin runtime.Pinner
	pin.Pin(&out[0])
	defer pin.Unpin()
	in := binary.NativeEndian.AppendUint64(nil, uint64(uintptr(unsafe.Pointer(&out[0])))) // response:64
	for {
		var err error
		waited := m.raw.Read(func(fd uintptr) bool {
			_, err = unix.Write(int(fd), frame(cmGetEvent, in, len(out)))
			return err != unix.EAGAIN
		})
		if waited != nil {
			return fmt.Errorf("%s: %w", doing, waited)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		event, status := parseEvent(out)
		switch {
		case status != 0:
			return fmt.Errorf("%s: %w", doing, status)
		case event == want:
			return nil
		}
	}
}

// parseEvent reads uid:64 id:32 event:32 status:32. The status is a negative errno, or a code of
// the subnet manager's.
func parseEvent(b []byte) (event uint32, status syscall.Errno) {
	event = binary.NativeEndian.Uint32(b[12:])
	code := int32(binary.NativeEndian.Uint32(b[16:]))
	switch {
	case code < 0:
		status = syscall.Errno(-code)
	case code > 0:
		status = syscall.ENOENT
	}
	return event, status
}

func (m *conversation) query() (Record, error) {
	in := append(make([]byte, 8), m.words(cmQueryPath)...) // response:64 id:32 option:32
	out := make([]byte, 8+cmRecords*(8+cmRecordSize))      // count:32 0:32, and for each flags:32 0:32 record
	if err := m.do(cmQuery, in, 0, out); err != nil {
		return Record{}, fmt.Errorf("reading the path record: %w", err)
	}
	if binary.NativeEndian.Uint32(out) == 0 {
		return Record{}, errors.New("the subnet manager knows no path")
	}
	return parseRecord(out[16:])
}
