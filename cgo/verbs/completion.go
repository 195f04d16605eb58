package verbs

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

// Channel tells, through the Go poller, that completion queues have something.
type Channel struct {
	life
	ready *pollable
}

// NewChannel makes a completion channel.
func (c *Context) NewChannel() (*Channel, error) {
	ch, fd := &Channel{}, -1
	_, err := create(ch, &ch.life, "completion channel", "of "+c.device, []*life{&c.life},
		func() (ptr unsafe.Pointer, rc int) {
			ptr, fd, rc = shimCreateChannel(c.ptr)
			return ptr, rc
		}, nil)
	if err != nil {
		return nil, err
	}
	if ch.ready, err = newPollable(fd, ch.name); err != nil {
		ch.Close()
		return nil, err
	}
	ch.ready.keeper.follow(&c.sent)
	return ch, nil
}

// Wait waits until an armed queue has something and takes what is there: one
// cookie for each event, acknowledged already. One goroutine at a time may
// wait. For up to keep it does not give its processor back: see keeper. It fails
// with os.ErrDeadlineExceeded or os.ErrClosed, after that time at the latest.
func (ch *Channel) Wait(cookies []uint64, keep time.Duration) (int, error) {
	n, err := ch.ready.wait(keep, func() int {
		if ch.ptr == nil {
			return -int(syscall.EBADF)
		}
		return shimTakeEvents(ch.ptr, cookies)
	})
	if err == nil && n < 0 {
		err = failed("reading a "+ch.name, n, "")
	}
	return max(n, 0), err
}

// Next waits as Wait does, for one queue. It arms that again and takes up to len(out) completions
// of it; there is room for one at least. One crossing into C.
func (ch *Channel) Next(out []Completion, keep time.Duration) (cookie uint64, n int, err error) {
	rc, err := ch.ready.wait(keep, func() (rc int) {
		if ch.ptr == nil {
			return -int(syscall.EBADF)
		}
		cookie, n, rc = shimNext(ch.ptr, out)
		return rc
	})
	switch {
	case err != nil:
	case rc < 0:
		err = failed("reading a "+ch.name, rc, "")
	case n < 0:
		err = failed("polling for a "+ch.name, n, "")
	}
	return cookie, max(n, 0), err
}

// SetDeadline bounds Wait and Next; the zero time means never. A time that is past ends
// a Wait that is under way.
func (ch *Channel) SetDeadline(t time.Time) error { return ch.ready.file.SetReadDeadline(t) }

// Close ends the channel. A Wait ends with os.ErrClosed.
func (ch *Channel) Close() error {
	return ch.end(func(ptr unsafe.Pointer) int {
		if ch.ready != nil {
			ch.ready.close() // first: it waits for whoever waits for events
		}
		return shimDestroyChannel(ptr)
	})
}

// Status is how a work request ended.
type Status uint32

// The ends of a work request, by the numbers of libibverbs.
const (
	Success         Status = 0
	LocalLength     Status = 1 // what arrived is longer than the receive
	LocalQP         Status = 2
	LocalProtection Status = 4 // wrong key, or outside of the region
	Flushed         Status = 5 // the queue pair is in error; the cause came before
	BadResponse     Status = 7
	LocalAccess     Status = 8
	RemoteInvalid   Status = 9 // the other side's receive is too short
	RemoteAccess    Status = 10
	RemoteOperation Status = 11
	RetryExceeded   Status = 12 // no answer: peer, its queue pair or the way is gone
	NotReady        Status = 13 // the other side has no receive
	FatalError      Status = 19
	ResponseTimeout Status = 20
	GeneralError    Status = 21
)

var statusNames = map[Status]string{
	Success: "success", LocalLength: "message longer than the receive", LocalQP: "local queue pair error",
	LocalProtection: "local memory not registered for it", Flushed: "flushed", BadResponse: "bad response",
	LocalAccess: "local access error", RemoteInvalid: "refused by the peer as invalid",
	RemoteAccess:    "remote memory not registered for it",
	RemoteOperation: "remote operation failed", RetryExceeded: "no answer from the peer",
	NotReady:   "peer posts no receives",
	FatalError: "device failed", ResponseTimeout: "response timed out", GeneralError: "general error",
}

func (s Status) String() string {
	if name, ok := statusNames[s]; ok {
		return name
	}
	return fmt.Sprintf("status(%d)", uint32(s))
}

// Done is which operation a completion is of. It counts only with Success.
type Done uint32

// The operations that complete.
const (
	DoneSend       Done = 0
	DoneWrite      Done = 1
	DoneRead       Done = 2
	DoneReceive    Done = 128
	DoneReceiveImm Done = 129 // an RDMA write with immediate
)

// The flags of a completion.
const (
	HasGRH uint32 = 1 // the 40 bytes before a UD message are valid
	HasImm uint32 = 2
)

// GRHSize is what precedes each message in a UD receive, valid or not, and
// counts in Length.
const GRHSize = 40

// Completion is the end of one work request. Its layout is the shim's.
type Completion struct {
	ID        uint64 // the request's
	Status    Status // with any but Success, only ID and QPN count
	Op        Done
	Vendor    uint32
	Length    uint32 // bytes received or read
	Imm       uint32
	QPN       uint32 // of the local queue pair
	Source    uint32 // UD: the sender's queue pair
	Flags     uint32 // HasGRH, HasImm
	PKeyIndex uint16
	LID       uint16 // UD: the sender's, 0 on Ethernet
	SL        uint8
	PathBits  uint8 // of the LID it was sent to
	_         [2]uint8
}

// CQ is a completion queue.
type CQ struct {
	life
	size int
}

// NewCQ makes a completion queue for at least size entries. With a channel,
// its events carry the cookie.
func (c *Context) NewCQ(size int, ch *Channel, cookie uint64) (*CQ, error) {
	q, owners, channel := &CQ{}, []*life{&c.life}, unsafe.Pointer(nil)
	if ch != nil {
		owners, channel = append(owners, &ch.life), ch.ptr
	}
	return create(q, &q.life, "completion queue", "of "+c.device, owners, func() (ptr unsafe.Pointer, rc int) {
		ptr, q.size, rc = shimCreateCQ(c.ptr, size, cookie, channel)
		return ptr, rc
	}, lockedHint) // drivers of hardware pin the queue
}

// Size is how many completions fit. One too many ends the queue with EventCQError.
func (q *CQ) Size() int { return q.size }

// Poll takes up to len(out) completions and does not wait. One crossing into C.
func (q *CQ) Poll(out []Completion) (int, error) { return q.poll(shimPollCQ, out) }

// Arm asks for one event at the next completion. What came before makes none:
// poll after it.
func (q *CQ) Arm() error {
	if q.ptr == nil {
		return ErrClosed
	}
	if rc := shimArmCQ(q.ptr); rc < 0 {
		return failed("arming a "+q.name, rc, "")
	}
	return nil
}

// ArmPoll is Arm and Poll in one crossing. When it returns 0, the next
// completion makes an event.
func (q *CQ) ArmPoll(out []Completion) (int, error) { return q.poll(shimArmPollCQ, out) }

// poll stores completions in out by calling shim, and returns their number.
func (q *CQ) poll(shim func(unsafe.Pointer, []Completion) int, out []Completion) (int, error) {
	if q.ptr == nil {
		return 0, ErrClosed
	}
	n := shim(q.ptr, out)
	if n < 0 {
		return 0, failed("polling a "+q.name, n, "")
	}
	return n, nil
}

// Close ends the queue; what is in it is lost.
func (q *CQ) Close() error { return q.end(shimDestroyCQ) }
