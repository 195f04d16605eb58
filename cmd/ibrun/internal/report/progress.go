package report

import (
	"fmt"
	"io"
	"sync"
	"time"

	"ibrun/internal/plain"
)

// A launch that lasts longer than progressAfter shows how far it is, on a
// terminal, and again every progressEvery.
const (
	ProgressAfter = time.Second
	progressEvery = 250 * time.Millisecond
)

// Progress keeps one line on a terminal while a launch goes on. What others
// write goes through under, which takes the line away first.
type Progress struct {
	mu     sync.Mutex
	to     io.Writer
	hidden func() bool // whether the line is not to be shown at present
	began  time.Time
	nodes  int
	up     int
	shown  bool
	timer  *time.Timer
	done   bool
}

// NewProgress begins to wait for the launch of so many nodes.
func NewProgress(to io.Writer, hidden func() bool, nodes int, after time.Duration) *Progress {
	p := &Progress{to: to, hidden: hidden, began: time.Now(), nodes: nodes}
	p.mu.Lock() // draw needs the timer
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(after, p.draw)
	return p
}

func (p *Progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return
	}
	if p.timer.Reset(progressEvery); !p.hidden() {
		fmt.Fprintf(p.to, "\r%s\x1b[K", progressText(p.up, p.nodes, time.Since(p.began)))
		p.shown = true
	}
}

// progressText counts nodes whose whole subtree is up.
func progressText(up, nodes int, since time.Duration) string {
	return fmt.Sprintf("ibrun: launching, %d of %s settled (%d s)", up, plain.Plural(nodes, "node"), int(since.Seconds()))
}

// set notes how many nodes are settled.
func (p *Progress) set(up int) {
	p.mu.Lock()
	p.up = up
	p.mu.Unlock()
}

// end takes the line away for good.
func (p *Progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	p.timer.Stop()
	p.clear()
}

func (p *Progress) clear() {
	if p.shown {
		_, _ = io.WriteString(p.to, "\r\x1b[K")
		p.shown = false
	}
}

// Under is a writer to the same terminal.
func (p *Progress) Under(w io.Writer) io.Writer { return beneath{p, w} }

type beneath struct {
	p *Progress
	w io.Writer
}

func (b beneath) Write(text []byte) (int, error) {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	b.p.clear()
	return b.w.Write(text)
}
