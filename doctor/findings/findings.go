// Package findings shows the user an examination: nodes and findings, as a table or as data. It
// judges nothing.
package findings

import (
	"fmt"
	"io"
	"strings"

	"ibrun/doctor"
	"ibrun/internal/plain"
	"ibrun/internal/plural"
)

// WriteJSON is an examination as data: one object, with names that stay.
func WriteJSON(w io.Writer, nodes []doctor.Node, found []doctor.Finding) error {
	count := doctor.Count(found)
	if found == nil {
		found = []doctor.Finding{}
	}
	return plain.WriteJSON(w, struct {
		Nodes    []doctor.Node    `json:"nodes"`
		Findings []doctor.Finding `json:"findings"` // the worst first
		Errors   int              `json:"errors"`
		Warnings int              `json:"warnings"`
	}{nodes, found, count[doctor.Error], count[doctor.Warning]})
}

// Print is an examination for the user: a table in which nodes that are
// alike share a row, then what was found. brief leaves out the notes.
func Print(w io.Writer, nodes []doctor.Node, found []doctor.Finding, brief bool) error {
	var b strings.Builder
	writeTable(&b, tableOf(nodes))
	b.WriteByte('\n')
	for _, f := range found {
		if brief && f.Severity == doctor.Note {
			continue
		}
		fmt.Fprintf(&b, "%-8s %s: %s: %s\n", f.Severity, doctor.Fold(f.Nodes), f.Subject, f.Text)
		if f.Hint != "" {
			fmt.Fprintf(&b, "%-8s   hint: %s\n", "", f.Hint)
		}
		b.WriteString(tails(nodes, f))
	}
	count := doctor.Count(found)
	not := ""
	if n := lost(nodes); n > 0 {
		not = fmt.Sprintf(", %d not", n)
	}
	fmt.Fprintf(&b, "%s examined%s: %s, %s, %s\n", plural.Of(len(nodes)-lost(nodes), "node"), not,
		plural.Of(count[doctor.Error], "error"),
		plural.Of(count[doctor.Warning], "warning"), plural.Of(count[doctor.Note], "note"))
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, plain.Text(strings.TrimRight(line, " \n"))); err != nil {
			return err
		}
	}
	return nil
}

func lost(nodes []doctor.Node) (n int) {
	for _, node := range nodes {
		if node.Lost != nil {
			n++
		}
	}
	return n
}

// tailLines is how much is shown of what a session printed.
const tailLines = 3

// tails is what the session of a finding's first node printed, if that is more
// than the cause already says.
func tails(nodes []doctor.Node, f doctor.Finding) string {
	for _, n := range nodes {
		if n.Name != f.Nodes[0] || n.Lost == nil || strings.Contains(n.Lost.Cause, strings.TrimSpace(n.Lost.Tail)) ||
			f.Severity != doctor.Error {
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
