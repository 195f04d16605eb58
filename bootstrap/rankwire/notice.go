package rankwire

import (
	"fmt"

	"ibrun/bootstrap/frame"
)

// Notice is what a node has to say to the user: a sentence that ends nothing. A rank leaves Host
// empty.
type Notice struct{ Host, Text string }

func (Notice) Kind() frame.Kind { return KindNotice }

func (m Notice) Encode(w *frame.Encoder) {
	w.UserText(m.Host)
	w.UserText(m.Text)
}

func parseNotice(r *frame.Decoder) frame.Message {
	return Notice{Host: r.UserText(), Text: r.UserText()}
}

func (m Notice) String() string { return fmt.Sprintf("Notice host=%q text=%q", m.Host, m.Text) }
