package remote

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
	"ibrun/test/executable"
	"ibrun/test/waitfor"
)

// standIns are starters of resource managers as docs/managers.md has them: those that join the
// words of a command have a shell read it, the others run it.
var standIns = map[string]string{
	"srun":    `shift 5`,
	"qrsh":    `[ "$1 $2" = "-inherit -V" ] || exit 9; shift 3; set -- /bin/sh -c "$*"`,
	"blaunch": `shift; set -- /bin/sh -c "$*"`,
	"flux":    `[ "$1 $2 $3 $4 $5" = "exec -q --setopt stdout_LINE_BUFFER=false -r" ] || exit 9; shift 6`,
}

// managed is a starter with a stand-in for the command of a manager, which prints what it sees.
func managed(t *testing.T, how job.LaunchOptions, script string) (s *Starter, called string) {
	dir := t.TempDir()
	called = filepath.Join(dir, "called")
	path := filepath.Join(dir, filepath.Base(how.Starter[0]))
	text := "#!/bin/sh\necho \"$#: $*\" >" + called + "\nenv >>" + called + "\n" + script + "\nexec \"$@\"\n"
	require.NoError(t, executable.Write(path, []byte(text)))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	how.Timeout = waitfor.Deadline
	s, err := New(how, nil)
	require.NoError(t, err)
	require.NoError(t, s.Check())
	return s, called
}

// The starters of managers run the remote command whole, whether they have a shell read it or not.
func TestManagers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent")
	require.NoError(t, executable.Write(path, []byte("#!/bin/sh\n"+agent+"\n")))
	numbers := []job.NumberedHosts{{Hosts: "a,n[1-3]", First: 4, Step: 1}, {Hosts: "b", First: 9}}
	t.Setenv("SLURM_NTASKS_PER_NODE", "2")
	t.Setenv("SLURM_JOB_ID", "7")
	for _, c := range []struct {
		launcher string
		starter  []string
		host     string
		call     string // what the starter is called with, but for the remote command
		lines    bool
	}{
		{"slurm", []string{"srun", "-Q", "-N1", "-n1", "--nodelist=%h", "--het-group=%n"}, "b",
			"8: -Q -N1 -n1 --nodelist=b --het-group=9 /bin/sh -c exec", true},
		{"sge", []string{"qrsh", "-inherit", "-V", "%h"}, "n2", "4: -inherit -V n2 exec", false},
		{"lsf", []string{"blaunch", "%h"}, "n2", "2: n2 exec", true},
		{"flux", []string{"flux", "exec", "-q", "--setopt", "stdout_LINE_BUFFER=false", "-r", "%n"}, "n2",
			"9: exec -q --setopt stdout_LINE_BUFFER=false -r 6 /bin/sh -c exec", true},
	} {
		t.Run(c.launcher, func(t *testing.T) {
			how := job.LaunchOptions{Launcher: c.launcher, Starter: c.starter, Numbers: numbers, AgentPath: path}
			s, called := managed(t, how, standIns[c.starter[0]])
			session := s.start(t, c.host)
			text := string(content(t, called))
			require.True(t, strings.HasPrefix(text, c.call), "%s", text)
			require.Equal(t, c.lines, how.LineBuffered())
			require.Equal(t, c.launcher != "slurm", strings.Contains(text, "SLURM_NTASKS_PER_NODE"))
			require.Contains(t, text, "SLURM_JOB_ID=7")
			require.NoError(t, session.Stdin.Close())
			<-session.Done()
		})
	}
}

// Arguments of the user's stand before a host that is the last word, and else last.
func TestArgumentsOfManagers(t *testing.T) {
	how := job.LaunchOptions{Launcher: "sge", Starter: []string{"qrsh", "-inherit", "%h"}, Args: []string{"-x"}}
	require.Equal(t, []string{"qrsh", "-inherit", "-x", "a", "true"}, newAllocStarter(how).argv("true", "a"))
	how = job.LaunchOptions{Launcher: "slurm", Starter: []string{"srun", "-w%h", "-u"}, Args: []string{"--mem=1"}}
	require.Equal(t, []string{"srun", "-wa", "-u", "--mem=1", "/bin/sh", "-c", "true"},
		newAllocStarter(how).argv("true", "a"))
	s, err := New(how, nil)
	require.NoError(t, err)
	require.Equal(t, "srun -wa -u --mem=1 /bin/sh -c true", s.trial(Target{Host: "a"}))
	_, err = New(job.LaunchOptions{Launcher: "slurm"}, nil)
	require.ErrorContains(t, err, "unknown launcher")
}

// In a job of PBS agents come by ssh, and their shells join the job before they become agents.
func TestJoinsPBS(t *testing.T) {
	dir := t.TempDir()
	attach := filepath.Join(dir, "pbs_attach")
	require.NoError(t, executable.Write(attach, []byte("#!/bin/sh\necho \"$@\" >"+dir+"/joined\n")))
	agent := filepath.Join(dir, "agent")
	require.NoError(t, executable.Write(agent, []byte("#!/bin/sh\necho $$ $1\n")))
	how := job.LaunchOptions{Launcher: "pbs", Starter: []string{attach, "-j", "12[3].server", "-p"}, AgentPath: agent}
	s, err := New(how, nil)
	require.NoError(t, err)
	require.True(t, s.native)
	out := look(t, "/bin/sh", os.Getuid(), s.command(Target{}))
	joined := string(content(t, filepath.Join(dir, "joined")))
	require.Equal(t, "-j 12[3].server -p "+strings.Fields(out)[0]+"\n", joined)
	how.AgentPath = ""
	s, err = New(how, nil)
	require.NoError(t, err)
	require.Contains(t, s.command(Target{}), `"-j" "12[3].server" "-p" $$`)
}

// What a manager's starter prints says why there is no agent, whatever it exits with.
func TestFailuresOfManagers(t *testing.T) {
	for _, c := range []struct {
		script string
		phase  Phase
		says   string
	}{
		{"echo 'srun: error: Unable to create step for job 7: Requested nodes are busy' >&2; exit 1", Connect,
			"squeue -s"},
		{"echo 'srun: error: task 0 launch failed: Slurmd could not execve job' >&2; exit 0", Begin, "sinfo -n h"},
		{"exit 0", Begin, "before the agent spoke"},
	} {
		s, _ := managed(t, job.LaunchOptions{Launcher: "slurm", Starter: []string{"srun", "-w%h"}}, c.script)
		s.fails(t, c.phase, c.says, c.script)
	}
}

// A node whose sshd does not know of the user's job yet is tried again.
func TestAdoptionIsTriedAgain(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	s := fake(t, "printf x >>"+count+"; if [ $(wc -c <"+count+") -lt 3 ]; then echo 'Access denied by "+
		"pam_slurm_adopt: you have no active jobs on this node' >&2; exit 255; fi; "+agent, waitfor.Deadline)
	s.start(t, "h")
	tries, _ := os.ReadFile(count)
	require.Len(t, tries, 3)
}
