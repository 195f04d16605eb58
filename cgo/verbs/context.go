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
	c := &Context{device: name}
	fd := -1
	err := c.born("context", "context of "+name, nil, func() (unsafe.Pointer, int) {
		ptr, async, rc := shimOpen(name)
		fd = async
		if rc < 0 {
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

// Limits is what a device can do.
type Limits struct {
	NodeGUID                  uint64
	MaxRegistered             uint64 // bytes in one registration
	MaxQP, MaxWork, MaxGather int    // queue pairs; requests in one queue; pieces of one
	MaxCQ, MaxCompletions     int    // completion queues; entries in one
	MaxMR, MaxPD, MaxAH       int
	MaxSRQ, MaxSharedWork     int
	MaxReadsIn, MaxReadsOut   int // RDMA reads under way per queue pair: answered, asked
	PKeys, Ports              int
}

// Limits asks the device.
func (c *Context) Limits() (Limits, error) {
	if c.ptr == nil {
		return Limits{}, ErrClosed
	}
	limits, rc := shimQueryDevice(c.ptr)
	if rc < 0 {
		return Limits{}, failed("asking "+c.device+" for its limits", rc, "")
	}
	return limits, nil
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

// Port is what a port says of itself.
type Port struct {
	State         PortState
	MaxMTU, MTU   MTU    // of the hardware; of the link now
	GIDs, PKeys   int    // lengths of the tables, empty entries included
	MaxMessage    uint32 // bytes
	LID, SMLID    uint16 // 0 on Ethernet, and before a subnet manager came
	LMC           uint8  // the port has 1<<LMC LIDs from LID on
	SMSL          uint8
	Link          LinkLayer
	Width, Speed  uint8 // codes of InfiniBand; see Rate
	PhysicalState uint8
}

// Rate is the link's rate in Mbit/s, 0 if the codes are unknown. Source of the
// figures: InfiniBand architecture, PortInfo LinkWidthActive and LinkSpeedActive.
func (p Port) Rate() int {
	lanes := map[uint8]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}[p.Width]
	perLane := map[uint8]int{1: 2500, 2: 5000, 4: 10000, 8: 10000, 16: 14062, 32: 25781, 64: 53125,
		128: 106250}[p.Speed]
	return lanes * perLane
}

// Port asks a port, counted from 1.
func (c *Context) Port(port int) (Port, error) {
	if c.ptr == nil {
		return Port{}, ErrClosed
	}
	p, rc := shimQueryPort(c.ptr, port)
	if rc < 0 {
		return Port{}, failed(fmt.Sprintf("asking port %d of %s", port, c.device), rc, "")
	}
	return p, nil
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
	if c.ptr == nil {
		return GID{}, ErrClosed
	}
	g, rc := shimQueryGID(c.ptr, port, index)
	if rc < 0 {
		return GID{}, failed(fmt.Sprintf("asking for GID %d of port %d of %s", index, port, c.device), rc, "")
	}
	if g.Type == GIDUnknown {
		g.Type = gidTypeFromSysfs(c.device, port, index)
	}
	return g, nil
}

// gidTypeFromSysfs serves libraries before rdma-core 32.
func gidTypeFromSysfs(device string, port, index int) GIDType {
	text, err := os.ReadFile(fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/gid_attrs/types/%d", device, port, index))
	switch line := strings.TrimSpace(string(text)); {
	case err != nil:
		return GIDUnknown
	case line == "RoCE v2":
		return GIDRoCEv2
	case line == "IB/RoCE v1": // one word of the kernel for both: the link layer tells them apart
		return GIDRoCEv1
	}
	return GIDUnknown
}

// PKey reads an entry of a port's table of partition keys; the top bit says
// full member.
func (c *Context) PKey(port, index int) (uint16, error) {
	if c.ptr == nil {
		return 0, ErrClosed
	}
	key, rc := shimQueryPKey(c.ptr, port, index)
	if rc < 0 {
		return 0, failed(fmt.Sprintf("asking for pkey %d of port %d of %s", index, port, c.device), rc, "")
	}
	return key, nil
}

// EventType is what happened to a device, port or queue.
type EventType uint32

// The events that somebody may have to act on, by the numbers of libibverbs.
const (
	EventCQError     EventType = 0
	EventQPFatal     EventType = 1
	EventQPRequest   EventType = 2
	EventQPAccess    EventType = 3
	EventEstablished EventType = 4
	EventDrained     EventType = 5
	EventDeviceFatal EventType = 8
	EventPortActive  EventType = 9
	EventPortError   EventType = 10
	EventLIDChange   EventType = 11
	EventPKeyChange  EventType = 12
	EventSMChange    EventType = 13
	EventSRQError    EventType = 14
	EventSRQLimit    EventType = 15
	EventLastReceive EventType = 16 // a queue pair in error will take no more from its shared queue
	EventReregister  EventType = 17
	EventGIDChange   EventType = 18
)

var eventNames = map[EventType]string{
	EventCQError: "completion queue overrun", EventQPFatal: "queue pair failed", EventQPRequest: "invalid request",
	EventQPAccess: "access violation", EventEstablished: "established", EventDrained: "send queue drained",
	EventDeviceFatal: "device failed", EventPortActive: "port active", EventPortError: "port down",
	EventLIDChange: "LID changed", EventPKeyChange: "pkeys changed", EventSMChange: "subnet manager changed",
	EventSRQError: "shared queue failed", EventSRQLimit: "shared queue low", EventLastReceive: "last receive reached",
	EventReregister: "client must register again", EventGIDChange: "GIDs changed",
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
	rc, err := c.events.wait(0, func() int {
		if c.ptr == nil {
			return -int(syscall.EBADF)
		}
		got, rc := shimAsyncEvent(c.ptr)
		event = got
		return rc
	})
	if err == nil && rc < 0 {
		err = failed("reading events of "+c.device, rc, "")
	}
	return event, err
}

// SetEventDeadline bounds Event; the zero time means never.
func (c *Context) SetEventDeadline(t time.Time) error { return c.events.file.SetReadDeadline(t) }
