package plan

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The command lines of user guides, written with ibrun in the place of their launcher, start in a
// job of two nodes with eight tasks what docs/managers.md says. One that is refused says so.
func TestUserGuides(t *testing.T) {
	const env = "SLURM_JOB_ID=7;SLURM_JOB_NODELIST=n[1-2];SLURM_TASKS_PER_NODE=4(x2);SLURM_NTASKS=8"
	text, err := os.ReadFile("../../../../docs/managers.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "## Command lines of user guides\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.Contains(cells[3], "`ibrun ") {
			continue
		}
		rows++
		command := strings.Trim(strings.TrimSpace(cells[3]), "`")
		words := strings.Fields(strings.TrimPrefix(command, "ibrun "))
		want := strings.Trim(strings.TrimSpace(cells[4]), "`")
		r, err := parse(words)
		if err == nil {
			var p *Plan
			if p, err = New(r, within(t, env, ""), Identity{}); err == nil {
				require.Equal(t, want, ranksByNode(p), command)
				continue
			}
		}
		require.ErrorContains(t, err, want, command)
	}
	require.Equal(t, 14, rows)
}
