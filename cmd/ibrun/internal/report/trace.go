package report

import (
	"bufio"
	"encoding/json"
	"io"

	"ibrun/bootstrap/tree"
)

// event is one entry of the Trace Event Format of Chrome, which Perfetto reads
// too: "X" is a span, "M" names a process or thread. Times are microseconds.
type event struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	From  int64          `json:"ts"`
	Took  int64          `json:"dur"`
	Node  int            `json:"pid"`
	Lane  int            `json:"tid"`
	Group string         `json:"cat,omitempty"`
	More  map[string]any `json:"args,omitempty"`
}

// Trace writes the launch as a trace: a process for each node, the root being
// 1, and a thread for each phase. It is an array of events, one a line.
func Trace(l *tree.Launch, w io.Writer) error {
	out := bufio.NewWriter(w)
	before := "[\n"
	put := func(e event) {
		text, _ := json.Marshal(e) // Marshal cannot fail, because e has only numbers and strings
		_, _ = out.WriteString(before + string(text))
		before = ",\n"
	}
	name := func(node int, host string) {
		put(event{Name: "process_name", Phase: "M", Node: node, More: map[string]any{"name": host}})
		put(event{Name: "process_sort_index", Phase: "M", Node: node, More: map[string]any{"sort_index": node}})
	}
	name(1, l.Root)
	end := l.End().Microseconds()
	put(event{Name: "launch", Phase: "X", Took: end, Node: 1, Group: "launch"})
	for i := range l.Nodes {
		n := &l.Nodes[i]
		id := int(n.Node) + 2
		name(id, n.Host)
		for _, s := range n.Spans() {
			put(event{
				Name: "thread_name", Phase: "M", Node: id, Lane: int(s.Phase),
				More: map[string]any{"name": s.Phase.String()},
			})
			put(event{
				Name: s.Phase.String(), Phase: "X", Node: id, Lane: int(s.Phase), Group: "launch",
				From: s.From.Microseconds(), Took: (s.To - s.From).Microseconds(),
				More: map[string]any{"parent": int(n.Parent) + 1, "clock_error_us": n.Error.Microseconds()},
			})
		}
	}
	_, _ = out.WriteString("\n]\n")
	return out.Flush() // Flush returns the first error of the writes above
}
