package verbs

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// SRQ is a queue of receives that queue pairs share.
type SRQ struct {
	life
	size int
}

// NewSRQ makes a shared queue for at least size receives.
func (p *PD) NewSRQ(size int) (*SRQ, error) {
	s := &SRQ{}
	return create(s, &s.life, "shared receive queue", "of "+p.context.device, []*life{&p.life},
		func() (ptr unsafe.Pointer, rc int) {
			ptr, s.size, rc = shimCreateSRQ(p.ptr, size)
			return ptr, rc
		}, lockedHint)
}

// Size is how many receives fit.
func (s *SRQ) Size() int { return s.size }

// Post adds receives, in one crossing into C, and says how many were taken:
// all, unless there is an error.
func (s *SRQ) Post(batch []Receive) (int, error) {
	return post(&s.life, "posting to a ", shimPostSRQ, batch)
}

// post passes a batch of work requests to shim and returns how many the device has accepted. An error begins with doing
// and the name of the object.
func post[T any](l *life, doing string, shim func(unsafe.Pointer, []T) (n, rc int), batch []T) (int, error) {
	if l.ptr == nil {
		return 0, ErrClosed
	}
	n, rc := shim(l.ptr, batch)
	if rc < 0 {
		return n, failed(doing+l.name, rc, "")
	}
	return n, nil
}

// Close ends the queue. Its receives do not complete.
func (s *SRQ) Close() error { return s.end(shimDestroySRQ) }

// Route is the way to a port: the fields of an address handle. Ethernet needs
// Global, InfiniBand only across subnets.
type Route struct {
	DLID         uint16
	SL           uint8
	PathBits     uint8 // which of the source's LIDs
	Rate         uint8 // 0: the port's own
	Port         uint8 // local, from 1
	Global       bool
	DGID         [16]byte
	SGIDIndex    uint8
	HopLimit     uint8 // 255 unless something is known
	TrafficClass uint8
	FlowLabel    uint32
}

// AH is an address handle: a way for UD messages.
type AH struct{ life }

// NewAH makes an address handle.
func (p *PD) NewAH(to Route) (*AH, error) {
	a := &AH{}
	return create(a, &a.life, "address handle", "of "+p.context.device, []*life{&p.life},
		func() (unsafe.Pointer, int) { return shimCreateAH(p.ptr, to) },
		func(errno syscall.Errno) string {
			switch {
			case errno == syscall.EINVAL && !to.Global:
				return "an Ethernet port needs a GID in every address"
			case errno == syscall.EINVAL && to.Global:
				return fmt.Sprintf("GID index %d: cat /sys/class/infiniband/%s/ports/%d/gids/%d", to.SGIDIndex,
					p.context.device, to.Port, to.SGIDIndex)
			}
			return ""
		})
}

// Ref is the handle for Send.AH. It counts until Close.
func (a *AH) Ref() uint64 { return uint64(uintptr(a.ptr)) }

// Close ends the handle. Sends that name it must have completed.
func (a *AH) Close() error { return a.end(shimDestroyAH) }

// QPType is the service of a queue pair.
type QPType uint32

// The services in use here.
const (
	RC QPType = 2 // reliable, connected
	UD QPType = 4 // datagrams
)

// QPConfig says what queue pair to make. Zero depths mean none.
type QPConfig struct {
	Type          QPType
	Send, Receive *CQ
	Shared        *SRQ // replaces the own receive queue
	MaxSend       int  // work requests under way
	MaxReceive    int
	MaxInline     int // bytes that a send may carry in itself
}

// QP is a queue pair.
type QP struct {
	life
	granted QPConfig
	number  uint32
	sent    *atomic.Uint32 // of its context
}

// NewQP makes a queue pair in state reset.
func (p *PD) NewQP(cfg QPConfig) (*QP, error) {
	if cfg.Send == nil || cfg.Receive == nil {
		return nil, failed("making a queue pair without completion queues", -int(syscall.EINVAL), "")
	}
	q, owners := &QP{sent: &p.context.sent}, []*life{&p.life, &cfg.Send.life, &cfg.Receive.life}
	if cfg.Shared != nil {
		owners = append(owners, &cfg.Shared.life)
	}
	_, err := create(q, &q.life, "queue pair", "of "+p.context.device, owners, func() (ptr unsafe.Pointer, rc int) {
		ptr, q.number, rc = shimCreateQP(p.ptr, &cfg)
		return ptr, rc
	}, func(errno syscall.Errno) string {
		if hint := lockedHint(errno); hint != "" {
			return "no more queue pairs, or " + hint
		}
		return ""
	})
	if err != nil {
		return nil, err
	}
	q.granted, q.name = cfg, fmt.Sprintf("queue pair %d of %s", q.number, p.context.device)
	return q, nil
}

// Number is the queue pair's number, 24 bits.
func (q *QP) Number() uint32 { return q.number }

// Granted is what was asked for, with the depths that the library gave.
func (q *QP) Granted() QPConfig { return q.granted }

// State is where a queue pair is in its life.
//
//	reset -> init -> ready to receive -> ready to send; any -> failed; any -> reset
type State uint32

// The states. Receives may be posted from Init on.
const (
	Reset          State = 0
	Init           State = 1
	ReadyToReceive State = 2
	ReadyToSend    State = 3
	SendDrained    State = 4
	SendFailed     State = 5
	Failed         State = 6
)

func (s State) String() string {
	names := []string{"reset", "init", "ready to receive", "ready to send", "send drained", "send failed", "failed"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state(%d)", uint32(s))
}

// QPState is a state with its attributes. Which count for Modify:
//
//	to Init             Port, PKeyIndex; RC: Access; UD: QKey
//	to ReadyToReceive   RC: Route, MTU, Peer, ReceivePSN, ReadsIn, MinRNR
//	to ReadyToSend      SendPSN; RC: Timeout, Retry, RNRRetry, ReadsOut
type QPState struct {
	State      State
	Port       uint8
	PKeyIndex  uint16
	QKey       uint32 // the top bit must not be set
	Access     Access
	Route      Route
	MTU        MTU
	Peer       uint32 // the other side's number
	ReceivePSN uint32 // 24 bits: the other side's SendPSN
	SendPSN    uint32
	ReadsIn    uint8 // RDMA reads under way that are answered, asked
	ReadsOut   uint8
	MinRNR     uint8 // code of the pause that a peer without receives asks for: 12 is 0.64 ms, 0 is 655 ms
	Timeout    uint8 // 4.096 us << Timeout until a resend; 0 is for ever
	Retry      uint8 // 0 to 6 resends; 7 is for ever on rxe, and seven on hardware
	RNRRetry   uint8 // 0 to 6; 7 is for ever
}

// Modify moves the queue pair to a state.
func (q *QP) Modify(to QPState) error {
	if q.ptr == nil {
		return ErrClosed
	}
	if rc := shimModifyQP(q.ptr, to); rc < 0 {
		return failed(fmt.Sprintf("moving %s to %v", q.name, to.State), rc, "")
	}
	return nil
}

// State asks the device for the state of the queue pair. Only the fields State and Peer of the result are set.
func (q *QP) State() (QPState, error) {
	return ask(&q.life, "asking for the state of "+q.name, shimQueryQP)
}

// Op is what a send request does.
type Op uint32

// The operations.
const (
	OpWrite    Op = 0
	OpWriteImm Op = 1
	OpSend     Op = 2
	OpSendImm  Op = 3
	OpRead     Op = 4
)

// The flags of a send request.
const (
	Fence     uint32 = 1 // after all reads before it
	Signaled  uint32 = 2 // makes a completion also on success
	Solicited uint32 = 4
	Inline    uint32 = 8 // the bytes are copied by Post; no key needed
)

// Send is one request of a send queue. Its layout is the shim's. Addr is in
// registered memory or, with Inline, anywhere outside the Go heap.
type Send struct {
	ID         uint64
	Addr       uint64
	RemoteAddr uint64 // reads and writes
	AH         uint64 // UD: AH.Ref
	Length     uint32
	LKey       uint32
	RKey       uint32
	Op         Op
	Flags      uint32
	Imm        uint32
	QPN        uint32 // UD: the receiver's number
	QKey       uint32
}

// Receive is one request of a receive queue. A UD message needs GRHSize bytes
// more than it has. Its layout is the shim's.
type Receive struct {
	ID     uint64
	Addr   uint64
	Length uint32
	LKey   uint32
}

// PostSend adds requests, in one crossing into C, and says how many were
// taken: all, unless there is an error. Without Inline the memory is the
// device's until the request, or a later one, has completed.
func (q *QP) PostSend(batch []Send) (int, error) {
	n, err := post(&q.life, "posting to ", shimPostSend, batch)
	q.sent.Add(1)
	return n, err
}

// PostReceive adds receives, as PostSend does.
func (q *QP) PostReceive(batch []Receive) (int, error) {
	return post(&q.life, "posting to ", shimPostReceive, batch)
}

// Close ends the queue pair. What is under way does not complete.
func (q *QP) Close() error { return q.end(shimDestroyQP) }
