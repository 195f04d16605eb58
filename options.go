package ibrun

import (
	"context"
	"log/slog"
	"time"

	"ibrun/bootstrap/wire/rankwire"
)

// Option changes what Init does. Most programs need none.
type Option func(*config)

// config is what options change.
type config struct {
	log    *slog.Logger
	bundle time.Duration
}

// WithLogger lets the package log to l: which network the messages of this rank take and why, ranks
// that have failed, and the loss of the agent. Without it the package logs nothing, and it never
// writes to standard output or standard error by itself. The text and the attributes of records are
// for users and may change.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithAggregation lets small messages of this rank to the same rank of another node share packets.
// A message may wait for others as long as delay says, usually 100 us to 1 ms. It is for programs
// that send many small messages to many ranks and do not wait for each answer; other programs
// become slower by it. Messages still arrive once and in order, Flush and Finalize send what waits,
// and other ranks need not use the option. Without it, or with 0 or less, nothing waits.
func WithAggregation(delay time.Duration) Option { return func(c *config) { c.bundle = delay } }

// newConfig applies options to the defaults.
func newConfig(options []Option) config {
	c := config{log: slog.New(slog.DiscardHandler)}
	for _, o := range options {
		o(&c)
	}
	return c
}

// wantsReasons reports whether somebody will read why this rank takes the network that it takes:
// the user of ibrun -v, who is told by the first rank of each node, or the program's logger.
func (w *World) wantsReasons() bool {
	return w.notifiesUser() || w.log.Enabled(context.Background(), slog.LevelInfo)
}

// notifiesUser reports whether this rank tells the user of ibrun for those of its node.
func (w *World) notifiesUser() bool { return w.welcome.How.Verbose && w.welcome.Rank == w.first }

// report logs a sentence and, if this rank is to, has ibrun show it to its user.
func (w *World) report(text string) {
	w.log.Info(text)
	if w.notifiesUser() {
		w.notifyUser(text)
	}
}

// notifyUser has ibrun show a sentence to its user, who is not told if the agent is lost.
func (w *World) notifyUser(text string) { _ = w.control.Send(rankwire.Notice{Text: text}) }
