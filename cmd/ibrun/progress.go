package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"ibrun/internal/plural"
)

// A launch that lasts longer than progressAfter shows how far it is, on a
// terminal, and again every progressEvery.
const (
	progressAfter = time.Second
	progressEvery = 250 * time.Millisecond
)

// progress keeps one line on a terminal while a launch goes on. What others
// write goes through under, which takes the line away first.
type progress struct {
	mu    sync.Mutex
	to    io.Writer
	began time.Time
	nodes int
	up    int
	shown bool
	timer *time.Timer
	done  bool
}

// newProgress begins to wait for the launch of so many nodes.
func newProgress(to io.Writer, nodes int, after time.Duration) *progress {
	p := &progress{to: to, began: time.Now(), nodes: nodes}
	p.mu.Lock() // draw needs the timer
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(after, p.draw)
	return p
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return
	}
	fmt.Fprintf(p.to, "\r%s\x1b[K", progressText(p.up, p.nodes, time.Since(p.began)))
	p.shown = true
	p.timer.Reset(progressEvery)
}

// progressText counts nodes whose whole subtree is up.
func progressText(up, nodes int, since time.Duration) string {
	return fmt.Sprintf("ibrun: launching, %d of %s settled (%d s)", up, plural.Of(nodes, "node"), int(since.Seconds()))
}

// set notes how many nodes are settled.
func (p *progress) set(up int) {
	p.mu.Lock()
	p.up = up
	p.mu.Unlock()
}

// end takes the line away for good.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	p.timer.Stop()
	p.clear()
}

func (p *progress) clear() {
	if p.shown {
		_, _ = io.WriteString(p.to, "\r\x1b[K")
		p.shown = false
	}
}

// under is a writer to the same terminal.
func (p *progress) under(w io.Writer) io.Writer { return beneath{p, w} }

type beneath struct {
	p *progress
	w io.Writer
}

func (b beneath) Write(text []byte) (int, error) {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	b.p.clear()
	return b.w.Write(text)
}
