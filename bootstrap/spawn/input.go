package spawn

import (
	"os"
	"sync"

	"ibrun/bootstrap/core"
	"ibrun/internal/job"
)

// feeder writes the standard input of one rank. The credit that the core grants limits the length of the queue. The
// goroutine of the feeder ends with the input or the rank.
type feeder struct {
	rank   job.Slot
	events Events
	// terminal means that the rank reads from a terminal, where a character marks the end of the input.
	terminal bool

	mu     sync.Mutex
	queue  [][]byte
	ending bool
	closed bool
	file   *os.File
	// changed is signaled when queue, ending or closed has changed.
	changed sync.Cond

	last byte // byte that was written last; only run uses it
}

func newFeeder(rank job.Slot, events Events) *feeder {
	f := &feeder{rank: rank, events: events}
	f.changed.L = &f.mu
	return f
}

func (f *feeder) start(file *os.File) {
	f.mu.Lock()
	f.file = file
	f.mu.Unlock()
	go f.run(file)
}

func (f *feeder) put(data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, data)
	f.changed.Signal()
}

func (f *feeder) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ending = true
	f.changed.Signal()
}

// more reports whether the rank may still receive input. It returns false if f is nil.
func (f *feeder) more() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.closed && (!f.ending || len(f.queue) > 0)
}

// close ends the input at once, because the rank has ended or was never started. It does nothing if f is nil, which
// means that the rank reads no input.
func (f *feeder) close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed, f.queue = true, nil
	if f.file != nil {
		f.file.Close()
	}
	f.changed.Signal()
}

// next waits for input and returns it. ok is false at the end of the input.
func (f *feeder) next() (data []byte, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queue) == 0 && !f.ending && !f.closed {
		f.changed.Wait()
	}
	if len(f.queue) == 0 || f.closed {
		return nil, false
	}
	data, f.queue = f.queue[0], f.queue[1:]
	return data, true
}

// endOfInput is the character that marks the end of input on a terminal at the beginning of a line (VEOF of
// termios(3)). Within a line, it ends the line.
const endOfInput = 4

// endTerminal ends the input of a program that reads from a terminal. The terminal stays open.
func (f *feeder) endTerminal(file *os.File) {
	end := []byte{endOfInput}
	if f.last != 0 && f.last != '\n' && f.last != '\r' {
		end = append(end, endOfInput)
	}
	_, _ = file.Write(end) // fails when the rank has ended
}

func (f *feeder) run(file *os.File) {
	defer file.Close()
	for {
		data, ok := f.next()
		if !ok && f.terminal {
			f.endTerminal(file)
		}
		if !ok {
			return
		}
		f.last = data[len(data)-1]
		if _, err := file.Write(data); err != nil {
			f.events.RankInputClosed(core.RankInputClosed{Rank: f.rank})
			return
		}
		f.events.RankInputRead(core.RankInputRead{Rank: f.rank, N: len(data)})
	}
}
