package ib

import (
	"time"

	"ibrun/cgo/verbs"
)

const (
	// piece is the size in bytes of a message buffer: 4 KiB of application data and room for a header of the
	// application. Longer data is divided into messages of whole bytes, which fill the packets of each MTU.
	piece = whole + 256
	whole = 4096
	// pieces is the number of send buffers of piece bytes that one stream has. A message of at most small bytes takes
	// one of its depth small buffers instead. All buffers of a stream need just under 32 KiB.
	pieces    = 7
	small     = 64
	depth     = 32 // maximum number of pending work requests of one stream, and its number of small buffers
	endMemory = pieces*piece + depth*small

	// Receives are shared by all streams. More are posted as the number of streams grows.
	firstShared  = 64        // number of receives posted at first, and added at a time
	sharedBy     = 16        // number of receives for each stream
	mostShared   = 512       // maximum number of receives
	perCQ        = 32        // maximum number of queue pairs whose sends use the same completion queue
	spares       = 2         // number of queue pairs made in advance
	leastWindow  = 2 * piece // minimum receive window that a peer may announce, in bytes
	mostWindow   = 1 << 24   // maximum receive window that a peer may announce, in bytes
	streamWindow = 64 << 10  // receive window of this side, in bytes
)

// past is a deadline that ends a wait at once. noDeadline removes a deadline.
var past, noDeadline = time.Unix(1, 0), time.Time{}

const (
	defaultReceives    = 256
	defaultDialTimeout = 10 * time.Second
	defaultPortGrace   = 10 * time.Second
	// mostBody is the maximum size of a datagram in bytes. All usable ports can carry it, so peers do not have to
	// know the MTU of the path. It also keeps the receive rings small.
	mostBody = 1024
	// slotSize is the number of bytes for one received datagram. It does not depend on the MTU of this port, because a
	// peer whose port has a larger MTU sends up to mostBody, and a datagram that does not fit ends the queue pair.
	slotSize = verbs.GRHSize + mostBody
	// mostHandles is the maximum number of address handles that are kept. A rank is connected with fewer peers
	// (lazy.Config.MaxLive).
	mostHandles = 4096
)
