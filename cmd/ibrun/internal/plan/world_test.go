package plan

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/spawn"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/exit"
	"ibrun/topo/capture"
)

// around is a made-up place to run ibrun in.
func around(t *testing.T) Surroundings {
	return Surroundings{
		Read: cli.ReadTextFile, Machine: capture.Machine,
		Host: "login1.cluster", User: "u", Cwd: t.TempDir(),
		Env: []string{"PATH=/usr/bin:/bin", "HOME=/h", "DISPLAY=:0", "EVIL=a b\n$(x)"},
	}
}

// parse is parseWith the files that there are.
func parse(line []string) (*cli.Request, error) { return cli.Parse(line, cli.ReadTextFile) }

// planOf is the plan of a command line, whose programs are looked for.
func planOf(t *testing.T, line ...string) (*Plan, error) {
	r, err := parse(line)
	if err != nil {
		return nil, err
	}
	p, err := New(r, around(t), Identity{})
	if err == nil && p.Preflight {
		for _, prog := range p.Job.Programs {
			err = errors.Join(err, spawn.Preflight(prog))
		}
	}
	return p, err
}

// planAt is the plan of a command line in a place.
func planAt(t *testing.T, at Surroundings, line ...string) *Plan {
	t.Helper()
	r, err := parse(line)
	require.NoError(t, err, line)
	p, err := New(r, at, Identity{})
	require.NoError(t, err, line)
	return p
}

// refuses checks that ibrun refuses command lines as a wrong usage, and why.
func refuses(t *testing.T, lines map[string]string) {
	t.Helper()
	for line, why := range lines {
		_, err := planOf(t, strings.Fields(line)...)
		require.ErrorContains(t, err, why, line)
		require.NotContains(t, err.Error(), "\n")
		require.Equal(t, exit.Usage, exit.Code(err), line)
	}
}

// places checks which ranks the nodes of command lines have.
func places(t *testing.T, lines map[string]string) {
	t.Helper()
	for line, want := range lines {
		require.Equal(t, want, ranksByNode(mustPlan(t, strings.Fields(line)...)), line)
	}
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
	_, err := planOf(t, "-K", "2", ":", "true")
	require.ErrorContains(t, err, "not found")
}
