package remote

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/build"
	"ibrun/internal/job"
	"ibrun/test/executable"
	"ibrun/test/waitfor"
)

// calledRole is what this program is as the agent of a step: it calls, and says back what it hears.
const calledRole = ":called"

func called() int {
	if err := Call(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("::ibrun-agent:1 %s m 1::\n", build.ID())
	heard, _ := io.ReadAll(os.Stdin)
	fmt.Printf("%s heard %s", os.Getenv(stepHost), heard)
	return 0
}

// steps is a stand-in for srun that starts a task for each host. It notes how often it was called.
// What each host's task does is in a file of its name.
const steps = `#!/bin/sh
cd "${0%/*}" && echo "$*" >>called
case "$2" in --nodelist=*) list="${2#*=}";; esac
export SLURM_LAUNCH_NODE_IPADDR=127.0.0.1
[ "$1" != -n1 ] || SLURMD_NODENAME=$list exec ./$list
for h in $(echo "$list" | tr , ' '); do SLURMD_NODENAME=$h ./$h & done
wait
`

// stepped is a starter over it, with targets for hosts and what their tasks do.
func stepped(t *testing.T, tasks map[string]string) (*Starter, map[string]*Target, func() []string) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, executable.Write(filepath.Join(dir, name), []byte(text)))
	}
	write("srun", steps)
	targets := map[string]*Target{}
	var all []*Target
	for _, host := range []string{"a", "n1", "n2"} {
		write(host, "#!/bin/sh\n"+strings.ReplaceAll(tasks[host], "AGENT", "exec "+os.Args[0]+" "+calledRole)+"\n")
		targets[host] = &Target{Host: host}
		all = append(all, targets[host])
	}
	how := job.LaunchOptions{Launcher: "slurm", Timeout: time.Hour,
		Starter: []string{filepath.Join(dir, "srun"), "-n%c", "--nodelist=%h"}}
	s, err := New(how, nil)
	require.NoError(t, err)
	s.Share(all)
	return s, targets, func() []string {
		text := string(content(t, filepath.Join(dir, "called")))
		return strings.Split(strings.TrimSpace(text), "\n")
	}
}

// alone is what a task does that is started by itself, if others would not.
const alone = `[ -n "$IBRUN_CALL" ] || { echo "::ibrun-agent:1 BUILD m 1::"; ` +
	`echo "$SLURMD_NODENAME heard $(cat)"; exit; }; `

// startAll starts all targets at once.
func startAll(t *testing.T, s *Starter, targets map[string]*Target) map[string]*Session {
	ctx, cancel := context.WithTimeout(t.Context(), waitfor.Deadline)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	sessions := map[string]*Session{}
	for host, target := range targets {
		all.Go(func() {
			ses, err := s.Start(ctx, *target, func(Phase) {})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			sessions[host] = ses
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return sessions
}

// A step brings the agents of several hosts, each with a link of its own that has two ends. A host
// whose task is no agent, whatever it says of that, gets a session of its own.
func TestStep(t *testing.T) {
	alone := strings.ReplaceAll(alone, "BUILD", build.ID())
	for name, c := range map[string]struct {
		tasks map[string]string
		calls int
	}{
		"all":     {map[string]string{"a": "AGENT", "n1": "AGENT", "n2": "AGENT"}, 1},
		"without": {map[string]string{"a": "AGENT", "n1": alone + "echo ::ibrun-alone:1 n1::", "n2": "AGENT"}, 2},
		"other":   {map[string]string{"a": alone + "echo ::ibrun-other:1::; exit 0", "n1": alone, "n2": alone}, 4},
		"failed": {map[string]string{"a": "AGENT", "n2": "AGENT",
			"n1": alone + "echo 'srun: error: n[1-1]: task 1: Exited with exit code 127' >&2; exit 127"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, targets, calls := stepped(t, c.tasks)
			sessions := startAll(t, s, targets) // all are up before the first ends
			for host, ses := range sessions {
				require.True(t, ses.Managed())
				_, err := io.WriteString(ses.Stdin, "hello")
				require.NoError(t, err)
				require.NoError(t, ses.Stdin.Close())
				said, err := io.ReadAll(ses.Stdout)
				require.NoError(t, err)
				require.Equal(t, host+" heard hello", strings.TrimSpace(string(said)))
				ses.Kill()
			}
			for _, ses := range sessions {
				<-ses.Done()
			}
			require.Len(t, calls(), c.calls)
			require.Contains(t, calls()[0],
				"-n3 --nodelist=a,n1,n2 --input=none --no-kill --kill-on-bad-exit=0 --wait=0")
		})
	}
}

// The end of one agent is its own: srun says how it was.
func TestStepLosesOne(t *testing.T) {
	s, targets, _ := stepped(t, map[string]string{"a": "AGENT", "n2": "AGENT",
		"n1": os.Args[0] + ` ` + calledRole + `; echo "srun: error: n1: task 1: Exited with exit code 137" >&2`})
	sessions := startAll(t, s, targets)
	sessions["n1"].Stdin.Close()
	<-sessions["n1"].Done()
	require.Equal(t, "its agent was killed by signal 9 (killed)", sessions["n1"].Cause())
	select {
	case <-sessions["a"].Done():
		t.Error("the others go on")
	default:
	}
	sessions["n1"].Kill()
	sessions["a"].Kill()
	sessions["n2"].Kill()
	<-sessions["n2"].Done()
}

// Without the key of a step nobody becomes its agent, its parent, or the agent of another host.
func TestStepProofs(t *testing.T) {
	for name, c := range map[string]struct {
		agent, parent stepKey
		changed       bool
		host          string
	}{
		"right":           {host: "n1"},
		"agent":           {agent: stepKey{1}},
		"parent":          {parent: stepKey{1}},
		"name on its way": {changed: true},
	} {
		t.Run(name, func(t *testing.T) {
			one, other := net.Pipe()
			failed := make(chan error, 1)
			go func() {
				defer one.Close()
				var conn io.ReadWriter = one
				if c.changed {
					conn = changing{one}
				}
				failed <- c.agent.answer(conn, "n1")
			}()
			host, err := c.parent.ask(other)
			other.Close()
			require.Equal(t, c.host, host)
			require.Equal(t, c.host == "", err != nil)
			if err := <-failed; c.agent != c.parent {
				require.ErrorIs(t, err, errUnproved, "the agent obeys nobody else")
			}
		})
	}
}

// changing changes the last byte of what is written, but for nonces.
type changing struct{ io.ReadWriter }

func (c changing) Write(p []byte) (int, error) {
	if len(p) > nonceSize {
		p = append(p[:len(p)-1:len(p)-1], p[len(p)-1]+1)
	}
	return c.ReadWriter.Write(p)
}

// Targets share no step if the starter has none, if their hosts have other numbers, or if the loss
// of a session is to cost one node only.
func TestShares(t *testing.T) {
	how := job.LaunchOptions{Launcher: "slurm", Starter: []string{"true", "-n%c", "-w%h", "--het-group=%n"},
		Numbers: []job.NumberedHosts{{Hosts: "a", First: 0}, {Hosts: "n[1-2]", First: 1}}}
	for _, c := range []struct {
		change func(*job.LaunchOptions)
		shared int
	}{
		{func(*job.LaunchOptions) {}, 2},
		{func(l *job.LaunchOptions) { l.Repair = true }, 0},
		{func(l *job.LaunchOptions) { l.Starter = []string{"true", "-n1", "-w%h"} }, 0},
	} {
		how := how
		c.change(&how)
		s, err := New(how, nil)
		require.NoError(t, err)
		shared, all := 0, []*Target{{Host: "a"}, {Host: "n1"}, {Host: "n2"}, {Host: "n1", Local: true}}
		s.Share(all)
		for _, target := range all {
			if target.member != nil {
				shared++
				require.Contains(t, target.Host, "n")
				<-target.member.decided // the stand-in has ended
			}
		}
		require.Equal(t, c.shared, shared)
	}
}
