package lazy

import (
	"slices"

	"ibrun/fabric"
)

// keeper holds what was written to a stream and may not have arrived, so that it can go another
// way. The stream's mu guards it.
type keeper struct {
	conn  fabric.Confirmer
	begun uint64 // messages whose writing has begun
	list  []keptMessage
	buf   []byte // of those in the list, one behind the other
	from  int    // where the first of them begins
}

// keptMessage is one message of the list.
type keptMessage struct {
	number uint64 // from 1
	size   int
	end    uint64 // bytes written to the stream, this message included
}

// keepLimit is the length in bytes from which a message is not copied before it is written: its
// Write returns when it has been read, or its sender still has it.
const keepLimit = 64 << 10

// begin counts a message that is about to be written, and keeps it. It returns its number.
func (k *keeper) begin(m []byte) uint64 {
	written, read := k.conn.Confirmed()
	k.prune(read)
	k.begun++
	if len(m) < keepLimit {
		k.add(m, written+uint64(headBytes(len(m))+len(m)))
	}
	return k.begun
}

// add keeps the message that was begun last.
func (k *keeper) add(m []byte, end uint64) {
	if k.from > 0 && len(k.buf)+len(m) > cap(k.buf) {
		k.buf = append(k.buf[:0], k.buf[k.from:]...)
		k.from = 0
	}
	k.buf = append(k.buf, m...)
	k.list = append(k.list, keptMessage{k.begun, len(m), end})
}

// wrote hears that the message that was begun last is written. If it was not kept, and the other
// side is not known to have read all of it, it is kept now.
func (k *keeper) wrote(m []byte) {
	if len(m) < keepLimit {
		return
	}
	written, read := k.conn.Confirmed()
	if k.prune(read); read < written && !k.holds(k.begun) {
		k.add(m, written)
	}
}

// holds reports whether a message is kept.
func (k *keeper) holds(number uint64) bool {
	return len(k.list) > 0 && k.list[0].number <= number && number <= k.list[len(k.list)-1].number
}

// prune forgets what has arrived.
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

// after returns the messages behind so many that have arrived, oldest first.
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
