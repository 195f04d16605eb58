package rankwire

import (
	"fmt"

	"ibrun/bootstrap/frame"
)

// Rollback asks that all ranks end and start again. Text is for the user.
type Rollback struct{ Text string }

func (Rollback) Kind() frame.Kind { return KindRollback }

func (m Rollback) Encode(w *frame.Encoder) { w.Text(m.Text) }

func parseRollback(r *frame.Decoder) frame.Message { return Rollback{r.TextUpTo(maxTrouble)} }

func (m Rollback) String() string { return fmt.Sprintf("Rollback text=%q", m.Text) }
