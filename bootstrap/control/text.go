package control

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"ibrun/internal/plain"
)

// Table is the rows, a line each, under a head. It keeps their order if ordered; else they are in
// that of ranks.
func (s *Standing) Table(ordered bool) []string {
	rows := s.Rows
	if !ordered {
		rows = s.sorted()
	}
	table := [][]string{{"RANK", "HOST", "PID", "S", "CPU%", "TIME", "MEMORY", "WAITS IN", "CPUS", "HCA", "STATE"}}
	for _, r := range rows {
		pid := "-"
		if r.PID > 0 {
			pid = fmt.Sprint(r.PID)
		}
		table = append(table, []string{
			fmt.Sprint(r.Rank), r.Host, pid, cmp.Or(r.Kernel, "-"),
			fmt.Sprintf("%.1f", r.Busy), TimeText(r.CPU), BytesText(r.Memory), cmp.Or(r.Waits, "-"),
			cmp.Or(r.CPUs, "-"), cmp.Or(r.HCA, "-"), r.state(),
		})
	}
	width := make([]int, len(table[0]))
	for _, row := range table {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var lines []string
	for _, row := range table {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			switch i {
			case 0, 2, 4, 5, 6:
				line.WriteString(pad + cell)
			default:
				line.WriteString(cell + pad)
			}
			line.WriteString("  ")
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	if s.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", s.More))
	}
	return lines
}

// state is what the agent knows of a rank.
func (r StandingRow) state() string {
	if r.State == StandingWaits {
		return fmt.Sprintf("%s %d for %.1f s", r.Call, r.Op, r.Age)
	}
	if r.Op > 0 {
		return fmt.Sprintf("%s, after %d", r.State, r.Op)
	}
	return r.State
}

// Summary is the groups, a line each.
func (s *Standing) Summary() (lines []string) {
	for _, g := range s.Groups {
		state := g.State
		if g.State == StandingWaits {
			state = fmt.Sprintf("in %s %d for up to %.1f s", g.Call, g.Op, g.Age)
		} else if g.Op > 0 && g.State != StandingOver {
			state = fmt.Sprintf("%s, after collective %d", g.State, g.Op)
		}
		lines = append(lines, fmt.Sprintf("%s: %s (ranks %s)", plain.Plural(int(g.Count), "rank"), state, g.Ranks))
	}
	return append(lines, s.rest()...)
}

// rest says what the answer lacks.
func (s *Standing) rest() (lines []string) {
	if s.Cut > 0 {
		lines = append(lines, fmt.Sprintf("and %s in other states", plain.Plural(int(s.Cut), "rank")))
	}
	if s.Silent > 0 {
		lines = append(lines, fmt.Sprintf("%s not answered", have(s.Silent, "node")))
	}
	return lines
}

// have returns n and thing with the form of "have" that agrees with n: "1 node has", "2 nodes have".
func have(n uint32, thing string) string {
	if n == 1 {
		return plain.Plural(1, thing) + " has"
	}
	return plain.Plural(int(n), thing) + " have"
}

// Stacks is the groups with their stacks, the largest first.
func (s *Standing) Stacks() (lines []string) {
	for _, g := range s.Groups {
		head := fmt.Sprintf("%s: %s", plain.Plural(int(g.Count), "rank"), g.Ranks)
		if g.State == StandingWaits {
			head += fmt.Sprintf(" (in %s %d)", g.Call, g.Op)
		} else {
			head += fmt.Sprintf(" (%s)", g.State)
		}
		lines = append(lines, head)
		for line := range strings.Lines(g.Text) {
			lines = append(lines, "    "+strings.TrimRight(line, "\n"))
		}
	}
	return append(lines, s.rest()...)
}

// TimeText formats a CPU time as minutes, seconds and hundredths of a second: "1:02.50".
func TimeText(seconds float64) string {
	minutes := int(seconds) / 60
	return fmt.Sprintf("%d:%05.2f", minutes, seconds-float64(60*minutes))
}

// BytesText formats a number of bytes in units of 1024, with one decimal from 1 KiB on: "512B", "3.0G".
func BytesText(n uint64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%dB", n)
	}
	value, unit := float64(n)/step, 0
	for value >= 1000 && unit < 4 {
		value, unit = value/step, unit+1
	}
	return fmt.Sprintf("%.1f%c", value, "KMGTP"[unit])
}

// Totals are the sums over all groups: ranks, CPU time in seconds, memory in bytes.
func (s *Standing) Totals() (ranks uint32, cpu float64, memory uint64) {
	for _, g := range s.Groups {
		ranks, cpu, memory = ranks+g.Count, cpu+g.CPU, memory+g.Memory
	}
	return ranks, cpu, memory
}
