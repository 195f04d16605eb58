package report

import (
	"fmt"
	"html"
	"slices"
	"strings"

	"ibrun/bootstrap/tree"
	"ibrun/internal/job"
)

// shownNodes bounds the table of nodes: the slowest are what users look for.
const shownNodes = 1000

const pageStyle = `body{margin:0 auto;max-width:1240px;padding:20px;background:#fff;color:#1f2933;font:14px/1.5 system-ui,"Segoe UI","DejaVu Sans",sans-serif}
svg{width:100%;height:auto;display:block}h2{font-size:16px;margin:28px 0 8px}
table{border-collapse:collapse;font-size:13px}th,td{padding:3px 14px 3px 0;text-align:right;white-space:nowrap}
th{font-weight:600;color:#52606d;border-bottom:1px solid #cbd2d9}td{border-bottom:1px solid #eef0f2;font-variant-numeric:tabular-nums}
th.l,td.l{text-align:left}p{max-width:70em;color:#3e4c59}.chip{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:7px}
`

// Page is a whole HTML document with the picture and the tables. It needs
// nothing from anywhere: no script, no font, no network.
func Page(l *tree.Launch) string {
	var b strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	s := l.Summarize()
	put("<!DOCTYPE html>\n" +
		`<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">`)
	put(`<link rel="icon" href="data:,"><title>%s</title><style>%s</style></head><body>`,
		html.EscapeString(title(l)), pageStyle)
	b.WriteString(picture(l))
	put("<h2>Phases</h2>\n" +
		`<table id="phases"><tr><th class="l">phase</th><th>nodes</th>` +
		`<th>p50</th><th>p99</th><th>max</th><th class="l">slowest</th></tr>`)
	colour := map[string]string{}
	for p := range tree.Phases {
		colour[p.String()] = colours[p]
	}
	for _, p := range s.Phases {
		put(`<tr><td class="l"><span class="chip" style="background:%s"></span>%s</td><td>%d</td>`+
			`<td>%s</td><td>%s</td><td>%s</td><td class="l">%s</td></tr>`,
			colour[p.Phase], p.Phase, p.Nodes,
			tree.MillisText(p.P50), tree.MillisText(p.P99), tree.MillisText(p.Max),
			html.EscapeString(strings.Join(p.Slowest, ", ")))
	}
	put("</table>\n<h2>Predicted and measured</h2>")
	put(`<table id="model"><tr><th class="l"></th><th>SEQ</th><th>REM</th>` +
		`<th>last agent up</th><th>best tree</th></tr>`)
	model := func(name string, m *tree.Model) {
		put(`<tr><td class="l">%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>`,
			html.EscapeString(name), tree.MillisText(m.SEQ), tree.MillisText(m.REM),
			tree.MillisText(m.LastUp), tree.MillisText(m.Optimum))
	}
	model("planned with ("+s.Predicted.Source+")", s.Predicted)
	if m := s.Measured; m != nil {
		model(fmt.Sprintf("model with the costs of this launch (%d sessions, up to %d at a time)",
			m.Sessions, m.Window), m)
	}
	put(`<tr><td class="l">measured</td><td></td><td></td><td>%s</td><td></td></tr></table>`,
		tree.MillisText(s.LastUp))
	put("<p>SEQ: a parent's time between two starts. "+
		"REM: from the start of a session until the agent behind it can start others. "+
		"Times of a node are mapped into the root's clock; they may be off by %s at most.</p>",
		tree.MillisText(s.Error))
	nodeTable(l, put)
	put("</body></html>")
	return b.String()
}

// nodeTable has a row for each node, the last to come up first.
func nodeTable(l *tree.Launch, put func(format string, args ...any)) {
	nodes := make([]*tree.Node, len(l.Nodes))
	host := map[job.NodeIndex]string{0: l.Root}
	for i := range l.Nodes {
		nodes[i] = &l.Nodes[i]
		host[l.Nodes[i].Node+1] = l.Nodes[i].Host
	}
	slices.SortStableFunc(nodes, func(a, b *tree.Node) int { return int(b.Up() - a.Up()) })
	put("<h2>Nodes, the last to come up first</h2>\n" +
		`<table id="nodes"><tr><th class="l">node</th><th class="l">started by</th><th>begun at</th><th>up at</th>`)
	for p := range tree.Phases {
		put("<th>%s</th>", p)
	}
	put("</tr>")
	for _, n := range nodes[:min(len(nodes), shownNodes)] {
		var took [tree.Phases]string
		for _, s := range n.Spans() {
			took[s.Phase] = tree.MillisText(tree.Millis(s.To - s.From))
		}
		at := func(m job.Moment) string {
			if n.At[m] == job.Never {
				return ""
			}
			return tree.MillisText(tree.Millis(n.At[m]))
		}
		up := "never"
		if n.Up() != job.Never {
			up = tree.MillisText(tree.Millis(n.Up()))
		}
		put(`<tr><td class="l">%s</td><td class="l">%s</td><td>%s</td><td>%s</td><td>%s</td></tr>`,
			html.EscapeString(n.Host), html.EscapeString(host[n.Parent]), at(job.SessionStarted), up,
			strings.Join(took[:], "</td><td>"))
	}
	put("</table>")
	if more := len(nodes) - shownNodes; more > 0 {
		put("<p>and %d more</p>", more)
	}
}
