package subtree

import (
	"time"

	"ibrun/bootstrap/wire/frame"
)

// Event is an event of an agent. Package core and the packages below it define the events.
type Event interface{ IsEvent() }

// Effect is an action that the driver must perform. If a package below core returns Send or Wake, the core performs it.
type Effect interface{ IsEffect() }

// Send sends a message over a link. Output and Exit messages keep their order. Other messages may overtake them.
type Send struct {
	To  Link
	Msg frame.Message
}

// Wake asks the core to call the method Due of the package that has returned this effect, at the time At.
type Wake struct{ At time.Duration }

func (Send) IsEffect() {}
func (Wake) IsEffect() {}
