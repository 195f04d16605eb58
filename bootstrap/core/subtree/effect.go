package subtree

import (
	"time"

	"ibrun/bootstrap/wire/frame"
)

// Event is something that happened to an agent. Package core and its parts define the events.
type Event interface{ IsEvent() }

// Effect is something that the driver must do, or, as Send and Wake, what a part of the core asks the core to do.
type Effect interface{ IsEffect() }

// Send puts a message on a link. Output and Exit keep their order; other messages may overtake them.
type Send struct {
	To  Link
	Msg frame.Message
}

// Wake asks the core for a call of the part's method Due at the time At.
type Wake struct{ At time.Duration }

func (Send) IsEffect() {}
func (Wake) IsEffect() {}
