package alloc

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/exit"
	"ibrun/internal/hostlist"
	"ibrun/internal/job"
)

// No environment makes the reader fail otherwise than by an error for the user. What passes are
// names that a remote shell takes for nothing else, and numbers within bounds.
func FuzzRead(f *testing.F) {
	names, err := filepath.Glob("testdata/*.txt")
	require.NoError(f, err)
	for _, name := range names {
		s := readScene(f, name)
		_, files, _ := strings.Cut(s.before, "\n-- file ")
		_, content, _ := strings.Cut(files, "\n")
		f.Add(strings.Join(s.Env, "\n"), []byte(content))
	}
	f.Add("SLURM_JOB_NODELIST=n[1-2]x[1-9]\nSLURM_TASKS_PER_NODE=2(x17),1", []byte(nil))
	f.Fuzz(func(t *testing.T, env string, content []byte) {
		p := Process{
			Env: strings.Split(env, "\n"), Host: "here",
			Read: func(string) ([]byte, error) { return content, nil },
			Ask:  func(...string) ([]byte, error) { return content, nil },
		}
		a, err := Read(p, "")
		if err != nil {
			require.Equal(t, exit.Usage, exit.Code(err))
			require.NotContains(t, err.Error(), "\n")
			return
		}
		if a == nil {
			return
		}
		require.NotEmpty(t, a.Hosts)
		slots := uint64(0)
		for _, h := range a.Hosts {
			require.Positive(t, h.Count)
			require.NoError(t, hostlist.ValidName(fmt.Sprintf("%s%0*d%s", h.Prefix, h.Width, h.Lo, h.Suffix)))
			require.True(t, h.Slots >= 1 && h.Slots <= 1<<24)
			slots += uint64(h.Count) * uint64(h.Slots)
		}
		require.LessOrEqual(t, slots, uint64(job.MaxRanks))
		require.True(t, a.Tasks == 0 || a.Task < a.Tasks)
	})
}

// Reading an allocation is on the way of every start of ibrun: its bound is 1 ms.
func BenchmarkRead(b *testing.B) {
	var other []string
	for i := range 150 {
		other = append(other, fmt.Sprintf("SOME_VARIABLE_%d=%s", i, strings.Repeat("x", 80)))
	}
	lines := strings.Builder{}
	for node := range 64 {
		for range 64 {
			fmt.Fprintf(&lines, "node%04d.cluster.example\n", node)
		}
	}
	racks := strings.Builder{}
	for i := range 512 {
		fmt.Fprintf(&racks, ",r%dn[%d-%d]", i/8, i%8*10, i%8*10+7)
	}
	for name, env := range map[string][]string{
		"outside":    nil,
		"slurm-4096": {"SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=n[0001-4096]", "SLURM_TASKS_PER_NODE=128(x4096)"},
		"slurm-512-racks": {"SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=" + racks.String()[1:],
			"SLURM_TASKS_PER_NODE=128(x4096)"},
		"pbs-64x64": {"PBS_JOBID=1", "PBS_NODEFILE=/f"},
	} {
		p := process(append(other[:len(other):len(other)], env...), map[string]string{"/f": lines.String()}, nil)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Read(p, ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
