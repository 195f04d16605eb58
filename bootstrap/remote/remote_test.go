package remote

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/bootstrap/remote/native"
	"ibrun/internal/build"
	"ibrun/internal/job"
	"ibrun/test/executable"
	"ibrun/test/waitfor"
)

// The command passes through sh, csh and fish, and is short enough for in.rshd.
func TestCommandIsForEveryShell(t *testing.T) {
	for name, text := range map[string]string{"find": find, "install": install, "step": search + orAlone} {
		require.NotContains(t, text, "'", name)
		require.NotContains(t, text, "\\", name)
		require.NotContains(t, text, "!", name)
		require.NotContains(t, text, "\n", name)
	}
	long := "/home/a" + strings.Repeat("/directory", 9) + "/ibrun"
	for _, path := range []string{"", "/usr/local/bin/ibrun", long, strings.Repeat("/a", 500)} {
		text := command(job.LaunchOptions{}, path, reaper.Role)
		require.LessOrEqual(t, len(text), 1000)
		require.Equal(t, path != "" && len(path) < 120, strings.Contains(text, `p="`+path+`";`), path)
		require.Equal(t, path != "" && len(path) < 120, strings.Contains(text, "test -f"), path)
	}
	cached := "/home/a/.cache/ibrun/" + cachedName()
	require.Equal(t, command(job.LaunchOptions{}, "", reaper.Role), command(job.LaunchOptions{}, cached, reaper.Role),
		"a copy is looked for by its digest only")
	for _, bad := range []string{"/a'b", "/a b", "/a;b", "/$x", "/\xff"} {
		require.NotContains(t, command(job.LaunchOptions{}, bad, reaper.Role), bad)
	}
}

func TestMarks(t *testing.T) {
	for line, want := range map[string]string{
		"::ibrun-agent:1 b m 7::\n":             agentMark,
		"noise without end::ibrun-need:1 m::\n": needMark,
		"::ibrun-send:1::\n":                    sendMark,
		"::ibrun-fail:1 no room::\n":            failMark,
		"::ibrun-other:1::\n":                   otherMark,
		"::ibrun-alone:1 n1::\n":                aloneMark,
		"::ibrun-agent:1 b m 7\n":               "",
		"hello\n":                               "",
	} {
		mark, _ := marked([]byte(line))
		require.Equal(t, want, mark, line)
	}
	_, words := marked([]byte("x::ibrun-agent:1 b m 7::\n"))
	require.Equal(t, []string{"b", "m", "7"}, words)
	require.NoError(t, ready("h", []string{build.ID(), "m", "7"}))
	require.ErrorContains(t, ready("h", []string{"other", "m", "7"}), "build other")
}

// fake is a launcher: a shell script that is called as launcher host command.
func fake(t *testing.T, script string, timeout time.Duration) *Starter {
	f := filepath.Join(t.TempDir(), "launcher")
	require.NoError(t, executable.Write(f, []byte("#!/bin/sh\n"+script+"\n")))
	s, err := New(job.LaunchOptions{Exec: []string{f}, Timeout: timeout}, nil)
	require.NoError(t, err)
	s.jitter = func() float64 { return 0 }
	return s
}

// start starts an agent on a host, which comes up.
func (s *Starter) start(t *testing.T, host string) *Session {
	session, err := s.Start(context.Background(), Target{Host: host}, func(Phase) {})
	require.NoError(t, err)
	t.Cleanup(func() { session.Kill(); <-session.Done() })
	return session
}

// fails starts an agent on host h, which does not come up: it ends in a phase, and the error says why.
func (s *Starter) fails(t *testing.T, phase Phase, says, script string) {
	_, err := s.Start(context.Background(), Target{Host: "h"}, func(Phase) {})
	var e *Error
	require.ErrorAs(t, err, &e, script)
	require.Equal(t, phase, e.Phase, "%s: %v", script, err)
	require.ErrorContains(t, err, says, script)
	require.Equal(t, "h", e.Host)
}

// agent is what a script prints and does as an agent of this build.
var agent = fmt.Sprintf("echo '::ibrun-agent:1 %s m 1::'; cat", build.ID())

func TestFailuresAreNamed(t *testing.T) {
	for _, c := range []struct {
		script string
		phase  Phase
		says   string
	}{
		{"echo ssh: Could not resolve hostname h: Name or service not known >&2; exit 255", Resolve, "getent hosts"},
		{"echo ssh: connect to host h port 22: Connection refused >&2; exit 255", Connect, "refused"},
		{"echo ssh: connect to host h port 22: Connection timed out >&2; exit 255", Connect, "timed out"},
		{"echo Host key verification failed. >&2; exit 255", Authenticate, "known"},
		{"echo 'root@h: Permission denied (publickey).' >&2; exit 255", Authenticate, "BatchMode"},
		{"echo This account is currently not available.; exit 1", Begin, "code 1"},
		{"echo '::ibrun-fail:1 no folder::'; exit 125", Ship, "no folder"},
		{"echo '::ibrun-need:1 vax::'; cat >/dev/null", Ship, "vax"},
		{"echo '::ibrun-agent:1 0000 x 1::'; cat >/dev/null", Agent, "build 0000"},
		{"while echo \"::ibrun-need:1 $(uname -m)::\"; do read -r x; done", Ship, "again"},
		{"echo \"::ibrun-need:1 $(uname -m)::\"; read -r x; echo ::ibrun-send:1::; echo ::ibrun-send:1::; cat " +
			">/dev/null", Ship, "again"},
		{"echo ::ibrun-send:1::; cat >/dev/null", Ship, "out of turn"},
		{need + send + "echo '" + failMark + "the disk is full::'", Ship, "the disk is full"}, // while it is written to
		{"yes | head -c 70000; cat >/dev/null", Agent, "64 KiB"},
		{"echo last words >&2; exec sleep 1000", Begin, "no answer"},
	} {
		within := waitfor.Deadline
		if c.says == "no answer" {
			within = 500 * time.Millisecond
		}
		fake(t, c.script, within).fails(t, c.phase, c.says, c.script)
	}
}

// Only what fails before authentication is tried again.
func TestRetries(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	tries := func() int { b, _ := os.ReadFile(count); return len(b) }
	again := fake(t, "printf x >>"+count+"; if [ $(wc -c <"+count+
		") -lt 3 ]; then echo kex_exchange_identification: closed >&2; exit 255; fi; printf noise; "+agent,
		waitfor.Deadline)
	again.start(t, "h")
	require.Equal(t, 3, tries())
	require.NoError(t, os.Remove(count))
	denied := fake(t, "printf x >>"+count+"; echo Permission denied >&2; exit 255", waitfor.Deadline)
	denied.fails(t, Authenticate, "Permission denied", "")
	require.Equal(t, 1, tries())
}

// Where this binary lies here may be another build there: then one is looked for
// elsewhere, with a second session, and no third.
func TestAnotherBuild(t *testing.T) {
	var refusal strings.Builder
	require.False(t, Refuse(&refusal, build.ID()))
	require.False(t, Refuse(&refusal, ""))
	require.True(t, Refuse(&refusal, "0123456789abcdef"))
	look := `case "$2" in *'p="` + build.Path() + `"'*) printf '` + refusal.String() + `'; exit 125;; esac; `
	fake(t, look+agent, waitfor.Deadline).start(t, "h")
	fake(t, "printf '"+refusal.String()+"'", waitfor.Deadline).fails(t, Agent, "another build", "")
}

// What native ssh cannot do the user's ssh does, and each reason is notices once;
// unless the user wants native ssh and nothing else.
func TestLeftToSSH(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	require.NoError(t, executable.Write(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\n"+agent+"\n")))
	how := job.LaunchOptions{Launcher: "ssh", Args: []string{"-J", "gate"}, Timeout: waitfor.Deadline}
	var notices []string
	s, err := New(how, func(text string) { notices = append(notices, text) })
	require.NoError(t, err)
	require.NoError(t, s.Check())
	for _, host := range []string{"a", "b"} {
		require.Len(t, s.start(t, host).Pids(), 1)
	}
	require.Equal(t, []string{
		"native ssh leaves a to ssh: --ssh-args: -J",
		"a is behind a proxy (proxyjump gate): if it is cut off, or all its processes are stopped, " +
			"that is noticed after 12 s",
	}, notices)
	how.SSH = "native"
	s, err = New(how, nil)
	require.NoError(t, err)
	_, err = s.Start(context.Background(), Target{Host: "a"}, func(Phase) {})
	require.ErrorContains(t, err, "leave --ssh native out")
	require.NoError(t, os.Remove(filepath.Join(dir, "ssh")))
	t.Setenv("PATH", dir)
	how.SSH = "auto"
	s, err = New(how, nil)
	require.NoError(t, err)
	_, err = s.Start(context.Background(), Target{Host: "a"}, func(Phase) {})
	require.ErrorContains(t, err, "--ssh-args: -J; exec: \"ssh\"")
}

// How soon ssh notices that a node is gone depends on what stands between.
func TestAliveInterval(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(home, ".ssh"), 0o700))
	write := func(text string) native.System {
		file := filepath.Join(home, ".ssh", "config")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return native.System{User: "u", UID: os.Getuid(), Home: home, UserFile: file, SystemFile: "/nonexistent"}
	}
	for _, c := range []struct {
		config, args string
		every        int
		notices      string
	}{
		{"", "", aliveDirect, ""},
		{"", "-J gate", aliveProxied, "proxyjump gate"},
		{"", "-v -Jgate", aliveProxied, "proxyjump gate"},
		{"", "-o ProxyCommand=none", aliveDirect, ""},
		{"Nonsense yes\nHost h\n ProxyCommand nc %h %p\n", "-q", aliveProxied, "proxycommand nc"},
		{"Host g\n ProxyJump gate\n", "", aliveDirect, ""},
		{"Match exec true\n ProxyJump gate\n", "", aliveDirect, ""},
		{"ControlPath ~/.ssh/%C\n", "", aliveDirect, "60 s"},
		{"", "-S none", aliveDirect, ""},
	} {
		var notices []string
		notify := func(text string) { notices = append(notices, text) }
		s, err := New(job.LaunchOptions{Launcher: "ssh", Args: strings.Fields(c.args)}, notify)
		require.NoError(t, err)
		s.system = func() (native.System, error) { return write(c.config), nil }
		for range 2 {
			argv := strings.Join(s.argv(Target{Host: "h"}), " ")
			require.Contains(t, argv, fmt.Sprintf("-o ServerAliveInterval=%d -- h", c.every), c)
		}
		require.Equal(t, c.notices != "", len(notices) == 1, "%v: %v", c, notices)
		require.Contains(t, strings.Join(notices, " "), c.notices)
	}
}

func TestDashedHostIsRefused(t *testing.T) {
	_, err := fake(t, "exit 0", waitfor.Deadline).Start(context.Background(), Target{Host: "-oProxyCommand=x"},
		func(Phase) {})
	require.ErrorContains(t, err, "not a host name")
	s, err := New(job.LaunchOptions{Launcher: "ssh"}, nil)
	require.NoError(t, err)
	argv := strings.Join(s.argv(Target{Host: "h", User: "u"}), " ")
	require.Contains(t, argv, "-l u -- h exec /bin/sh")
}

func TestSockets(t *testing.T) {
	s, ok := parseSocket("   3: 0101004D:0016 0201004D:D431 01 00000024:00000000 01:000003E8 00000005     0        " +
		"0 12345 4 0000000000000000 1600 4 30 10 -1")
	require.True(t, ok)
	require.Equal(t, tcpSocket{local: netip.MustParseAddrPort("77.0.1.1:22"),
		remote: netip.MustParseAddrPort("77.0.1.2:54321"), Evidence: Evidence{Resent: 5}, inode: "12345"}, s)
	_, ok = parseSocket("  sl  local_address rem_address   st")
	require.False(t, ok)
}
