package lazy

import (
	"slices"

	"ibrun/fabric"
)

// keeper retains the messages that were written to a stream and may not have arrived, so that they can be sent again.
// The mu of the stream protects it.
type keeper struct {
	conn  fabric.Confirmer // reports how many bytes were written and how many the peer has read
	begun uint64           // number of messages whose writing has begun
	list  []keptMessage    // retained messages, oldest first
	buf   []byte           // bytes of the messages in list, in the same order
	from  int              // index in buf of the first message
}

// keptMessage is one retained message.
type keptMessage struct {
	number uint64 // counts from 1, in the order of writing
	size   int    // length in bytes without the head
	end    uint64 // number of bytes written to the stream up to the end of this message
}

// keepLimit is the length in bytes from which a message is not copied before it is written. It is copied afterwards if
// the peer has not read all of it by then.
const keepLimit = 64 << 10

// begin counts a message that is about to be written, and returns its number. It retains m if m is shorter than
// keepLimit.
func (k *keeper) begin(m []byte) uint64 {
	written, read := k.conn.Confirmed()
	k.prune(read)
	k.begun++
	if len(m) < keepLimit {
		k.add(m, written+uint64(headBytes(len(m))+len(m)))
	}
	return k.begun
}

// add retains the message with the number k.begun. end is the value of keptMessage.end.
func (k *keeper) add(m []byte, end uint64) {
	if k.from > 0 && len(k.buf)+len(m) > cap(k.buf) {
		k.buf = append(k.buf[:0], k.buf[k.from:]...)
		k.from = 0
	}
	k.buf = append(k.buf, m...)
	k.list = append(k.list, keptMessage{k.begun, len(m), end})
}

// wrote records that the message with the number k.begun has been written. It retains m if begin did not and the peer
// may not have read all of it.
func (k *keeper) wrote(m []byte) {
	if len(m) < keepLimit {
		return
	}
	written, read := k.conn.Confirmed()
	if k.prune(read); read < written && !k.holds(k.begun) {
		k.add(m, written)
	}
}

// holds reports whether the message with the given number is retained.
func (k *keeper) holds(number uint64) bool {
	return len(k.list) > 0 && k.list[0].number <= number && number <= k.list[len(k.list)-1].number
}

// prune drops the messages that have arrived. read is the number of bytes that the peer has read.
func (k *keeper) prune(read uint64) {
	n := 0
	for n < len(k.list) && k.list[n].end <= read {
		k.from += k.list[n].size
		n++
	}
	if n == 0 {
		return
	}
	k.list = slices.Delete(k.list, 0, n)
	if len(k.list) == 0 {
		k.from, k.buf = 0, k.buf[:0]
	}
}

// after returns copies of the retained messages with numbers greater than have, oldest first.
func (k *keeper) after(have uint64) (list [][]byte) {
	at := k.from
	for _, m := range k.list {
		if m.number > have {
			list = append(list, slices.Clone(k.buf[at:at+m.size]))
		}
		at += m.size
	}
	return list
}
