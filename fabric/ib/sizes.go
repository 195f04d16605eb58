package ib

import (
	"time"

	"ibrun/cgo/verbs"
)

const (
	// piece is the size of a message's buffer: 4 KiB of the application's, and room for a header of
	// theirs. Of more than that, whole goes in one message: as many packets of any MTU.
	piece = whole + 256
	whole = 4096
	// pieces of one stream, for sending, and smalls: messages that fit one go
	// without a piece. Together they are 32 KiB.
	pieces    = 7
	small     = 64
	depth     = 32 // work requests of one stream under way, and small messages
	endMemory = pieces*piece + depth*small

	// The shared receives are posted as streams come.
	firstShared  = 64
	sharedBy     = 16 // for each stream
	mostShared   = 512
	perCQ        = 32 // streams whose sends complete in one queue
	spares       = 2  // queue pairs ready before they are needed
	leastWindow  = 2 * piece
	mostWindow   = 1 << 24
	streamWindow = 64 << 10
)

// past ends a wait.
var past, noDeadline = time.Unix(1, 0), time.Time{}

const (
	defaultReceives    = 256
	defaultDialTimeout = 10 * time.Second
	defaultPortGrace   = 10 * time.Second
	// mostBody bounds datagrams: all ports take it, so that peers need not know
	// the path's MTU before they can talk, and a ring of many is small.
	mostBody = 1024
)

// ring is registered memory for receives, in slots of one size.
type ring struct {
	mr    *verbs.MR
	first int // number of its first slot
	slots int
}

// request is the shared receive of a slot.
func (r *ring) request(slot int) verbs.Receive {
	return verbs.Receive{ID: uint64(slot), Addr: r.mr.Addr() + uint64(slot-r.first)*piece, Length: piece,
		LKey: r.mr.LKey()}
}
