package lazy

import (
	"time"

	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/internal/poll"
	"ibrun/lazy/peer"
)

// Resolver asks the agent of this node about other ranks. Each method sends a question and returns without the answer.
// The owner of the table passes the answer to a method of Table. It must do so from another goroutine, because the
// table calls the Resolver with its locks held.
type Resolver interface {
	// AskBlock asks for the addresses of all ranks on the node of rank (fabric.Block). The epoch of rank in the
	// block must be at least least. If fresh is set, the answer comes only after rank has replied to a question
	// of its own agent, which shows that rank still runs. The answer goes to Table.Answered.
	AskBlock(rank uint32, least uint16, fresh bool) error
	// AskSecondary asks for the second address of rank, which that rank's table has passed to
	// Config.SecondaryOpened. The epoch of rank must be at least least. The answer goes to
	// Table.AnsweredSecondary.
	AskSecondary(rank uint32, least uint16) error
	// AskPair asks for a socket that is connected to a rank of this node. The answer goes to Table.Paired.
	AskPair(rank uint32) error
}

// Worth determines after how much data a pair of ranks switches from datagrams to a stream.
type Worth = peer.Worth

// Config contains the parameters of a Table.
type Config struct {
	Rank     uint32     // slot of this rank
	Epoch    uint16     // epoch of this rank (job.Epoch)
	Floor    uint16     // lowest valid epoch of all ranks after all were restarted together; 0 before that
	Least    uint16     // minimum epoch of peers that run the same program as this rank; 0 means any epoch
	Layout   job.Layout // layout of the job when the table is created; Table.Resized changes it
	Resolver Resolver
	Seal     *fabric.Seal // encrypts the packets to other nodes
	// Open opens the fabric to other nodes. The table calls it at most once, in Reach or for the first message to
	// another node: some devices take long to open, and many ranks never send to another node. It then calls Opened
	// with the address of the fabric and with its locks held. Opened may be nil. Open is nil if the job has one
	// node.
	Open   func(fabric.Sink) (fabric.Fabric, error)
	Opened func(fabric.Tuple)
	// Secondary opens a second fabric together with the first one. The table uses it for peers that only have
	// Ethernet if the first fabric is not Ethernet. There is no second fabric if Secondary is nil or returns nil.
	// The table calls SecondaryOpened with the address of the second fabric, before Opened and with its locks
	// held; the Kind of the address is NONE if there is no second fabric. SecondaryOpened publishes the address,
	// so that Resolver.AskSecondary of other ranks finds it.
	Secondary       func(fabric.Sink) fabric.Fabric
	SecondaryOpened func(fabric.Tuple)
	// Changed is called when the first of two fabrics has failed, with the error, and with nil when it works again.
	// The table calls it with its locks held. Changed may be nil.
	Changed func(failed error)
	// Worth decides when a pair of ranks moves from datagrams to a stream because of the amount of its data. The
	// zero value means never. If Packet is 0, the table uses the maximum size of a datagram.
	Worth Worth
	// Spin polls a stream before its reader sleeps.
	Spin poll.Spinner
	// If Streams is set, every pair of ranks on different nodes switches to a stream before its first message.
	Streams bool
	// Answer is the time that this node's agent took to answer, or 0 if it is not known. It is the first estimate
	// of the time that peers take to acknowledge packets, because both are slow on a busy node.
	Answer time.Duration
	// Restarts is set if failed ranks may be restarted, so that the failure of a peer is not final.
	Restarts bool
	// Hold is the time that a pair of ranks stays on the second fabric before it tries the first one again. 0 means
	// 10 s.
	Hold time.Duration
	// Bundle is the maximum time that a small message to another node waits for more messages, which are then sent
	// in the same packet. 0 disables bundles.
	Bundle time.Duration
	// MaxLive is the maximum number of connections over the fabric. If there are more, the table closes the one
	// that was used least recently when it is idle. 0 means 1,024. The table lowers the limit if the fabric
	// supports fewer streams.
	MaxLive int

	afterStep func(*peer.Peer) // in tests, checks a Peer after each of its steps
}
