package verbs

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Context is an open device.
type Context struct {
	life
	device string
	events *pollable
	sent   atomic.Uint32 // batches of requests that were posted; it wraps around
}

// OpenDevice opens a device by its name. It takes 20 to 80 ms on hardware.
func (l *Library) OpenDevice(name string) (*Context, error) {
	c, fd := &Context{device: name}, -1
	_, err := create(c, &c.life, "context", "of "+name, nil, func() (ptr unsafe.Pointer, rc int) {
		if ptr, fd, rc = shimOpen(name); rc < 0 {
			rc = -int(openErrno(syscall.Errno(-rc), name, deviceFiles, deviceClass))
		}
		return ptr, rc
	}, func(errno syscall.Errno) string {
		switch errno {
		case syscall.EACCES, syscall.EPERM:
			return "ls -l /dev/infiniband: users need to read and write uverbs*"
		case syscall.ENODEV, syscall.ENOENT:
			return "ibv_devices lists what is there"
		}
		return ""
	})
	if err != nil {
		return nil, err
	}
	if c.events, err = newPollable(fd, "events of "+name); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Device is the device's name.
func (c *Context) Device() string { return c.device }

// Close closes the device. A wait for its events ends with os.ErrClosed.
func (c *Context) Close() error {
	return c.end(func(ptr unsafe.Pointer) int {
		if c.events != nil {
			c.events.close() // first: it waits for whoever waits for events
		}
		return shimClose(ptr)
	})
}

// Limits contains the limits of a device.
type Limits struct {
	MaxQP                   int // maximum number of queue pairs
	MaxSharedWork           int // maximum number of receives in a shared receive queue
	MaxReadsIn, MaxReadsOut int // maximum number of pending RDMA reads per queue pair: as target, as initiator
	Ports                   int
}

// Limits reads the limits from the device.
func (c *Context) Limits() (Limits, error) {
	return ask(&c.life, "asking "+c.device+" for its limits", shimQueryDevice)
}

// PortState is a port's state; traffic flows in PortActive.
type PortState int32

// The states of a port, by the numbers of InfiniBand.
const (
	PortDown   PortState = 1
	PortInit   PortState = 2 // linked; no subnet manager has been there
	PortArmed  PortState = 3
	PortActive PortState = 4
)

func (s PortState) String() string {
	if name, ok := map[PortState]string{PortDown: "down", PortInit: "init", PortArmed: "armed",
		PortActive: "active"}[s]; ok {
		return name
	}
	return fmt.Sprintf("state(%d)", int32(s))
}

// LinkLayer tells InfiniBand from RoCE.
type LinkLayer uint8

// The link layers; a device that says none speaks InfiniBand.
const (
	LinkUnspecified LinkLayer = 0
	LinkInfiniBand  LinkLayer = 1
	LinkEthernet    LinkLayer = 2
)

// MTU is a path MTU in the code of InfiniBand.
type MTU uint8

// The path MTUs.
const (
	MTU256  MTU = 1
	MTU512  MTU = 2
	MTU1024 MTU = 3
	MTU2048 MTU = 4
	MTU4096 MTU = 5
)

// Bytes is 256 to 4096, and 0 for a code that is none.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

// Port describes the state of a port.
type Port struct {
	State       PortState
	MTU         MTU    // current MTU of the link
	GIDs, PKeys int    // lengths of the tables, empty entries included
	LID         uint16 // 0 on Ethernet, and until a subnet manager assigns a LID
	LMC         uint8  // the port has 1<<LMC LIDs from LID on
	Link        LinkLayer
}

// Port reads the state of the port with the given number. The first port is 1.
func (c *Context) Port(port int) (Port, error) {
	return ask(&c.life, fmt.Sprintf("asking port %d of %s", port, c.device), func(ptr unsafe.Pointer) (Port, int) {
		return shimQueryPort(ptr, port)
	})
}

// GIDType is what packets look like that leave by a GID.
type GIDType int32

// The types of GIDs. GIDUnknown: neither the library nor sysfs could tell.
const (
	GIDUnknown GIDType = -1
	GIDIB      GIDType = 0
	GIDRoCEv1  GIDType = 1
	GIDRoCEv2  GIDType = 2
)

// GID is one entry of a port's table.
type GID struct {
	Addr [16]byte
	Type GIDType
}

func (g GID) String() string { return netip.AddrFrom16(g.Addr).String() }

// GID reads an entry of a port's table. An empty entry fails with ENODATA or
// is zero; in containers an entry may fail with EINVAL: skip both.
func (c *Context) GID(port, index int) (GID, error) {
	what := fmt.Sprintf("asking for GID %d of port %d of %s", index, port, c.device)
	g, err := ask(&c.life, what, func(ptr unsafe.Pointer) (GID, int) { return shimQueryGID(ptr, port, index) })
	if err == nil && g.Type == GIDUnknown {
		g.Type = gidTypeFromSysfs(c.device, port, index)
	}
	return g, err
}

// gidTypeFromSysfs reads the type of a GID from sysfs, because libraries before rdma-core 32 cannot return it.
func gidTypeFromSysfs(device string, port, index int) GIDType {
	text, _ := os.ReadFile(fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/gid_attrs/types/%d", device, port, index))
	switch strings.TrimSpace(string(text)) {
	case "RoCE v2":
		return GIDRoCEv2
	case "IB/RoCE v1": // the kernel uses one name for InfiniBand and RoCE v1; the link layer differs
		return GIDRoCEv1
	}
	return GIDUnknown
}

// PKey reads an entry of a port's table of partition keys; the top bit says
// full member.
func (c *Context) PKey(port, index int) (uint16, error) {
	what := fmt.Sprintf("asking for pkey %d of port %d of %s", index, port, c.device)
	return ask(&c.life, what, func(ptr unsafe.Pointer) (uint16, int) { return shimQueryPKey(ptr, port, index) })
}

// EventType is what happened to a device, port or queue.
type EventType uint32

// The events that somebody may have to act on, by the numbers of libibverbs.
const (
	EventCQError     EventType = 0
	EventQPFatal     EventType = 1
	EventQPRequest   EventType = 2
	EventQPAccess    EventType = 3
	EventDeviceFatal EventType = 8
	EventPortActive  EventType = 9
	EventPortError   EventType = 10
	EventLIDChange   EventType = 11
	EventPKeyChange  EventType = 12
	EventSRQError    EventType = 14
	EventLastReceive EventType = 16 // a queue pair in error will take no more from its shared queue
	EventGIDChange   EventType = 18
)

var eventNames = map[EventType]string{
	EventCQError: "completion queue overrun", EventQPFatal: "queue pair failed", EventQPRequest: "invalid request",
	EventQPAccess: "access violation", EventDeviceFatal: "device failed", EventPortActive: "port active",
	EventPortError: "port down", EventLIDChange: "LID changed", EventPKeyChange: "pkeys changed",
	EventSRQError: "shared queue failed", EventLastReceive: "last receive reached", EventGIDChange: "GIDs changed",
}

func (e EventType) String() string {
	if name, ok := eventNames[e]; ok {
		return name
	}
	return fmt.Sprintf("event(%d)", uint32(e))
}

// Event is an asynchronous event, acknowledged already.
type Event struct {
	Type   EventType
	Port   int    // of a port's event
	QPN    uint32 // of a queue pair's
	Cookie uint64 // of a completion queue's
}

// Event waits for the next asynchronous event of the device, in the Go poller. One
// goroutine at a time may wait. It fails with os.ErrDeadlineExceeded or os.ErrClosed.
func (c *Context) Event() (Event, error) {
	var event Event
	rc, err := c.events.wait(0, func() (rc int) {
		if c.ptr == nil {
			return -int(syscall.EBADF)
		}
		event, rc = shimAsyncEvent(c.ptr)
		return rc
	})
	if err == nil && rc < 0 {
		err = failed("reading events of "+c.device, rc, "")
	}
	return event, err
}

// SetEventDeadline bounds Event; the zero time means never.
func (c *Context) SetEventDeadline(t time.Time) error { return c.events.file.SetReadDeadline(t) }
