package proc

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
)

// outputOf is what a process that is started with a thread's properties prints.
func outputOf(t *testing.T, thread Thread, argv ...string) string {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	p, err := Start(Cmd{Path: argv[0], Argv: argv, Env: os.Environ(), Files: []*os.File{nil, w, w}, Thread: thread})
	w.Close()
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	<-p.Done()
	return string(text)
}

// allowed is the CPUs of a process that was started so.
func allowed(t *testing.T, thread Thread) cpuset.Set {
	text := outputOf(t, thread, "/bin/grep", "Cpus_allowed_list", "/proc/self/status")
	s, err := cpuset.ParseList(strings.TrimPrefix(text, "Cpus_allowed_list:"))
	require.NoError(t, err)
	return s
}

func TestThreadIsInherited(t *testing.T) {
	own := allowed(t, Thread{})
	for cpu := range own.All() {
		require.Equal(t, cpuset.Of(cpu), allowed(t, Thread{CPUs: cpuset.Of(cpu)}))
		for range 2 * spawnerThreads { // each thread is as it was
			require.Equal(t, own.String(), allowed(t, Thread{}).String())
		}
	}
	for range 2 * spawnerThreads { // a second time, too
		_, err := Start(Cmd{Path: "/bin/true", Argv: []string{"true"}, Thread: Thread{CPUs: cpuset.Of(cpuset.Max - 1)}})
		require.ErrorContains(t, err, "sched_setaffinity")
	}
	require.Equal(t, own.String(), allowed(t, Thread{}).String())
}

func TestMemoryPolicyIsInherited(t *testing.T) {
	if !HasMemoryPolicies() { // then nothing can be set, and it is said
		_, err := Start(Cmd{Path: "/bin/true", Argv: []string{"true"}, Thread: Thread{Mems: cpuset.Of(0)}})
		require.ErrorContains(t, err, "set_mempolicy")
		return
	}
	for _, c := range []struct {
		thread Thread
		want   string
	}{
		{Thread{Mems: cpuset.Of(0)}, "prefer:0"},
		{Thread{Mems: cpuset.Of(0), Interleave: true}, "interleave:0"},
	} {
		require.Contains(t, outputOf(t, c.thread, "/bin/cat", "/proc/self/numa_maps"), c.want)
		require.NotContains(t, outputOf(t, Thread{}, "/bin/cat", "/proc/self/numa_maps"), c.want)
	}
}

func TestPolicyInWords(t *testing.T) {
	require.Equal(t, []string{"", "prefer 2", "interleave 0-1"}, []string{
		Thread{}.Policy(), Thread{Mems: cpuset.Of(2)}.Policy(), Thread{Mems: cpuset.Of(0, 1),
			Interleave: true}.Policy(),
	})
}
