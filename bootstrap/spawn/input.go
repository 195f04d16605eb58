package spawn

import (
	"os"
	"sync"

	"ibrun/bootstrap/core"
	"ibrun/internal/job"
)

// feeder writes standard input to one rank. What may be queued is bounded by
// the core's credit; the goroutine ends with the input or the rank.
type feeder struct {
	rank job.Slot
	post func(Event)
	// terminal says that the rank reads from one: its end of input is a character.
	terminal bool

	mu     sync.Mutex
	queue  [][]byte
	ending bool
	closed bool
	file   *os.File
	wake   chan struct{} // capacity 1

	last byte // that was written; run's alone
}

func newFeeder(rank job.Slot, post func(Event)) *feeder {
	return &feeder{rank: rank, post: post, wake: make(chan struct{}, 1)}
}

func (f *feeder) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *feeder) start(file *os.File) {
	f.mu.Lock()
	f.file = file
	f.mu.Unlock()
	go f.run(file)
}

func (f *feeder) put(data []byte) {
	f.mu.Lock()
	f.queue = append(f.queue, data)
	f.mu.Unlock()
	f.poke()
}

func (f *feeder) end() {
	f.mu.Lock()
	f.ending = true
	f.mu.Unlock()
	f.poke()
}

// more reports whether the rank may still be given something to read.
func (f *feeder) more() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.closed && (!f.ending || len(f.queue) > 0)
}

// close ends the input at once: the rank is dead, or was never started.
func (f *feeder) close() {
	f.mu.Lock()
	f.closed, f.queue = true, nil
	if f.file != nil {
		f.file.Close()
	}
	f.mu.Unlock()
	f.poke()
}

// next returns what to write; ok is false at the end of the input.
func (f *feeder) next() (data []byte, ok bool) {
	for {
		f.mu.Lock()
		switch {
		case f.closed:
			f.mu.Unlock()
			return nil, false
		case len(f.queue) > 0:
			data, f.queue = f.queue[0], f.queue[1:]
			f.mu.Unlock()
			return data, true
		case f.ending:
			f.mu.Unlock()
			return nil, false
		}
		f.mu.Unlock()
		<-f.wake
	}
}

func (f *feeder) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// endOfInput is what a terminal takes for the end of input at the beginning of a line (VEOF of
// termios(3)); elsewhere it ends the line.
const endOfInput = 4

// endTerminal ends the input of a program that reads from a terminal, which stays open.
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
		if !ok && f.terminal && !f.isClosed() {
			f.endTerminal(file)
		}
		if !ok {
			return
		}
		f.last = data[len(data)-1]
		if _, err := file.Write(data); err != nil {
			f.post(core.RankInputClosed{Rank: f.rank})
			return
		}
		f.post(core.RankInputRead{Rank: f.rank, N: len(data)})
	}
}
