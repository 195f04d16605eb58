package plan

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/exit"
	"ibrun/internal/options"
	"ibrun/internal/program"
	"ibrun/internal/textfile"
	"ibrun/topo/capture"
)

// around is a made-up place to run ibrun in.
func around(t *testing.T) Surroundings {
	return Surroundings{
		Read: textfile.Read, Machine: capture.Machine,
		Host: "login1.cluster", User: "u", Cwd: t.TempDir(),
		Env: []string{"PATH=/usr/bin:/bin", "HOME=/h", "DISPLAY=:0", "EVIL=a b\n$(x)"},
	}
}

// parse is parseWith the files that there are.
func parse(line []string) (*options.Request, error) { return options.Parse(line, textfile.Read) }

// planOf is the plan of a command line, whose programs are looked for.
func planOf(t *testing.T, line ...string) (*Plan, error) {
	r, err := parse(line)
	if err != nil {
		return nil, err
	}
	p, err := New(r, around(t), Identity{})
	if err == nil && p.Preflight {
		for _, prog := range p.Job.Programs {
			err = errors.Join(err, program.Preflight(prog))
		}
	}
	return p, err
}

func mustPlan(t *testing.T, line ...string) *Plan {
	t.Helper()
	p, err := planOf(t, line...)
	require.NoError(t, err)
	return p
}

func TestProgramIsLookedFor(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	for program, code := range map[string]int{
		"nonexistent-program": 127, "./nonexistent": 127, dir: 126, plain: 126, plain + "/x": 127, "": 127,
	} {
		_, err := planOf(t, "--", program)
		require.Error(t, err, program)
		require.Equal(t, code, exit.Code(err), program)
		_, err = planOf(t, "--no-preflight", "--", program)
		require.NoError(t, err)
	}
}
