package alloc

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
)

var update = flag.Bool("update", false, "rewrite the expected allocations in testdata")

// scene is a process as one file of testdata describes it: sections that begin with a line
// "-- env --", "-- file NAME --" or "-- command WORDS --", and what is read there, "-- want --".
type scene struct {
	before string // the file up to the section "want"
	want   string
	Process
}

func readScene(t testing.TB, name string) (s scene) {
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	files, answers := map[string]string{}, map[string]string{}
	var found bool
	s.before, s.want, found = strings.Cut(string(content), "-- want --\n")
	require.True(t, found, name)
	section := ""
	for _, line := range strings.SplitAfter(s.before, "\n") {
		if title, ok := strings.CutPrefix(line, "-- "); ok {
			section = strings.TrimSuffix(title, " --\n")
			continue
		}
		kind, of, _ := strings.Cut(section, " ")
		switch kind {
		case "env":
			s.Env = append(s.Env, strings.TrimSuffix(line, "\n"))
		case "file":
			files[of] += line
		case "command":
			answers[of] += line
		default:
			require.Empty(t, section, name)
		}
	}
	s.Process = process(s.Env, files, answers)
	return s
}

// process is a process with files and commands that are made up.
func process(env []string, files, answers map[string]string) Process {
	return Process{
		Env: env, Host: "here",
		Read: func(name string) ([]byte, error) {
			content, ok := files[name]
			if !ok {
				return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
			}
			return []byte(content), nil
		},
		Ask: func(argv ...string) ([]byte, error) {
			answer, ok := answers[strings.Join(argv, " ")]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(answer), nil
		},
	}
}

// shown is an allocation as text, a line for each stretch of hosts.
func shown(a *Allocation) string {
	if a == nil {
		return "none\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s job %s by %s\n", a.Manager, a.ID, a.Source)
	for _, h := range a.Hosts {
		run := job.Run{Prefix: h.Prefix, Suffix: h.Suffix, Width: uint8(h.Width), Lo: h.Lo, Count: h.Count}
		fmt.Fprintf(&b, "%v slots %d\n", run, h.Slots)
	}
	if a.Ranks > 0 {
		fmt.Fprintf(&b, "ranks %d\n", a.Ranks)
	}
	if !a.End.IsZero() {
		fmt.Fprintf(&b, "ends %s\n", a.End.Format(time.RFC3339))
	}
	if !a.Confines {
		fmt.Fprintf(&b, "does not confine\n")
	}
	if len(a.Starter) > 0 {
		fmt.Fprintf(&b, "starter %s\n", strings.Join(a.Starter, " "))
	}
	if len(a.Numbers) > 0 {
		fmt.Fprintf(&b, "by number %v\n", a.Numbers)
	}
	if len(a.Local) > 0 {
		fmt.Fprintf(&b, "local %s\n", strings.Join(a.Local, " "))
	}
	if a.Tasks > 0 {
		fmt.Fprintf(&b, "task %d of %d\n", a.Task, a.Tasks)
	}
	for _, v := range a.Own {
		fmt.Fprintf(&b, "own %s %d\n", v.Name, v.Fact)
	}
	return b.String()
}

// Each file of testdata is an environment of a manager, and the allocation that it means.
func TestScenes(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.Greater(t, len(names), 20)
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			s := readScene(t, name)
			a, err := Read(s.Process, "")
			require.NoError(t, err)
			if got := shown(a); *update {
				require.NoError(t, os.WriteFile(name, []byte(s.before+"-- want --\n"+got), 0o644))
			} else {
				require.Equal(t, s.want, got)
			}
		})
	}
}
