package doctor

import (
	"fmt"
	"io"
	"strings"

	"ibrun/internal/plain"
)

// WriteJSON is an examination as data: one object, with names that stay.
func WriteJSON(w io.Writer, nodes []Node, found []Finding) error {
	count := Count(found)
	if found == nil {
		found = []Finding{}
	}
	return plain.WriteJSON(w, struct {
		Nodes    []Node    `json:"nodes"`
		Findings []Finding `json:"findings"` // in descending order of severity
		Errors   int       `json:"errors"`
		Warnings int       `json:"warnings"`
	}{nodes, found, count[Error], count[Warning]})
}

// Print is an examination for the user: a table in which nodes that are
// alike share a row, then what was found. brief leaves out the notes.
func Print(w io.Writer, nodes []Node, found []Finding, brief bool) error {
	var b strings.Builder
	writeTable(&b, tableOf(nodes))
	b.WriteByte('\n')
	for _, f := range found {
		if brief && f.Severity == Note {
			continue
		}
		fmt.Fprintf(&b, "%-8s %s: %s: %s\n", f.Severity, Fold(f.Nodes), f.Subject, f.Text)
		if f.Hint != "" {
			fmt.Fprintf(&b, "%-8s   hint: %s\n", "", f.Hint)
		}
		b.WriteString(tails(nodes, f))
	}
	count := Count(found)
	examined, not := 0, ""
	for _, n := range nodes {
		if n.Lost == nil {
			examined++
		}
	}
	if n := len(nodes) - examined; n > 0 {
		not = fmt.Sprintf(", %d not", n)
	}
	fmt.Fprintf(&b, "%s examined%s: %s, %s, %s\n", plain.Plural(examined, "node"), not,
		plain.Plural(count[Error], "error"),
		plain.Plural(count[Warning], "warning"), plain.Plural(count[Note], "note"))
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, plain.Text(strings.TrimRight(line, " \n"))); err != nil {
			return err
		}
	}
	return nil
}

// tailLines is how much is shown of what a session printed.
const tailLines = 3

// tails is what the session of a finding's first node printed, if that is more
// than the cause already says.
func tails(nodes []Node, f Finding) string {
	for _, n := range nodes {
		if n.Name != f.Nodes[0] || n.Lost == nil || strings.Contains(n.Lost.Cause, strings.TrimSpace(n.Lost.Tail)) ||
			f.Severity != Error {
			continue
		}
		var b strings.Builder
		lines := strings.Split(strings.TrimRight(n.Lost.Tail, "\r\n"), "\n")
		for _, l := range lines[max(0, len(lines)-tailLines):] {
			fmt.Fprintf(&b, "%-8s   | %s\n", "", strings.TrimRight(l, "\r"))
		}
		return b.String()
	}
	return ""
}
