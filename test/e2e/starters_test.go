package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whole jobs through the starters of managers that are not there: testdata/managers has commands
// that behave as docs/managers.md says. The second agent is started by the first one. A rank of the
// second node gives back all bytes that there are; all others note which process their agent is a
// child of.
func TestManagersByStandIns(t *testing.T) {
	const rank = `[ $IBRUN_RANK = 3 ] && exec cat; ` +
		`echo "agent below $(cut -d ' ' -f 4 /proc/$PPID/stat)" >>$STAND_IN_LOG`
	commands, err := filepath.Abs("testdata/managers")
	require.NoError(t, err)
	input := make([]byte, 1<<16)
	for i := range input {
		input[i] = byte(i ^ i>>8)
	}
	for _, c := range []struct {
		name    string
		env     []string
		options []string
		why     string // agents are started so
	}{
		{name: "LSF", env: []string{"LSB_JOBID=4711", "LSB_MCPU_HOSTS=n1 2 n2 2"},
			why: "agents by blaunch: the manager's own"},
		{name: "Flux", env: []string{"FLUX_URI=local:///run/flux/local"},
			why: "agents by flux: the manager's own"},
		{name: "PBS", env: []string{"PBS_JOBID=12.server", "PBS_NODEFILE=nodes"},
			options: []string{"--launcher", "pbs", "--ssh", "exec"},
			why:     "agents by ssh and pbs_attach: as --launcher says"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := command(t, append(c.options, "-v", "--tree", "chain", "--stdin", "3", "sh", "-c", rank)...)
			log := filepath.Join(j.Dir, "log")
			require.NoError(t, os.WriteFile(filepath.Join(j.Dir, "nodes"), []byte("n1\nn1\nn2\nn2\n"), 0o600))
			j.Env = append(os.Environ(), "PATH="+commands+":"+os.Getenv("PATH"), "STAND_IN_LOG="+log)
			j.Env = append(j.Env, c.env...)
			j.Stdin = bytes.NewReader(input)
			o := finish(t, j)
			require.Equal(t, 0, o.code, o.stderr)
			require.True(t, bytes.Equal(input, o.stdout), "%d bytes", len(o.stdout))
			require.Contains(t, o.stderr, c.why)
			text, err := os.ReadFile(log)
			require.NoError(t, err)
			var started, attached, below []string
			for _, l := range regexp.MustCompile(`(?m)^(.*) (\w+)$`).FindAllStringSubmatch(string(text), -1) {
				switch list := map[string]*[]string{"started": &started, "attached": &attached}[l[1]]; {
				case list != nil:
					*list = append(*list, l[2])
				case !slices.Contains(below, l[2]):
					below = append(below, l[2])
				}
			}
			require.Equal(t, []string{"n1", "n2"}, started)
			require.Len(t, below, 2, string(text))
			if c.name == "PBS" {
				require.ElementsMatch(t, below, attached, "the reapers are what has joined the job")
			}
		})
	}
}
