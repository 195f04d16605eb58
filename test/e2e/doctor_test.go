package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/executable"
	"ibrun/internal/skip"
	"ibrun/topo"
)

// examined is what --doctor --json prints, as far as these tests look at it.
type examined struct {
	Nodes []struct {
		Name, How string
		Report    struct {
			Host    string `json:"host_name"`
			Kernel  string
			CPUs    struct{ Allowed string }
			Memlock struct{ Soft int64 } `json:"memlock_bytes"`
			Verbs   struct{ Deaf string }
		}
		Clock struct {
			Least float64 `json:"least_ahead_s"`
			Most  float64 `json:"most_ahead_s"`
		}
		Lost *struct{ Phase, Cause string }
	}
	Findings []struct {
		Severity, Subject, Text, Hint string
		Nodes                         []string
	}
	Errors, Warnings int
}

func examine(t *testing.T, o outcome) (all examined) {
	require.NoError(t, json.Unmarshal(o.stdout, &all), "%s%s", o.stdout, o.stderr)
	return all
}

// subject is the first finding about something, by its severity and text; empty: none.
func (e examined) subject(name string) string {
	for _, f := range e.Findings {
		if f.Subject == name {
			return f.Severity + ": " + f.Text
		}
	}
	return ""
}

func TestDoctor(t *testing.T) {
	o := ibrun(t, "--doctor", "--json")
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, o.stderr)
	one := examine(t, o)
	require.Len(t, one.Nodes, 1)
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, host, one.Nodes[0].Report.Host)
	require.Equal(t, "here", one.Nodes[0].How)
	require.Equal(t, topo.Read(os.DirFS("/")).Allowed.String(), one.Nodes[0].Report.CPUs.Allowed)

	o = ibrun(t, "--doctor", "--json", "--launcher", "local", "--hosts", "a,b,c[1-3]", "--tree", "kary:2")
	require.Equal(t, 0, o.code, o.stderr)
	all := examine(t, o)
	require.Len(t, all.Nodes, 5)
	for i, name := range []string{"a", "b", "c1", "c2", "c3"} {
		n := all.Nodes[i]
		require.Equal(t, name, n.Name)
		require.Equal(t, "local", n.How)
		require.Equal(t, one.Nodes[0].Report.Kernel, n.Report.Kernel)
		require.LessOrEqual(t, n.Clock.Least, 0.0, "one clock")
		require.GreaterOrEqual(t, n.Clock.Most, 0.0, "one clock")
	}
	require.Equal(t, "note: these are names of one machine", all.subject("name"))
}

// What is given to the user: equal nodes in one row, and a hint for what is wrong.
func TestDoctorForTheUser(t *testing.T) {
	o := ibrun(t, "--doctor", "--launcher", "local", "--hosts", "n[01-16]")
	require.Equal(t, 0, o.code, o.stderr)
	lines := strings.Split(string(o.stdout), "\n")
	require.Regexp(t, `^nodes +reached +kernel +CPUs +load +memory free +data path +memlock +RDMA$`, lines[0])
	require.Regexp(t, `^n\[01-16\] +local `, lines[1])
	require.Empty(t, lines[2], "one row, since all are alike")
	require.Contains(t, string(o.stdout), "16 nodes examined: 0 errors")
	brief := ibrun(t, "--doctor", "-q", "--launcher", "local", "--hosts", "n[01-16]")
	require.Contains(t, string(o.stdout), "note     n[01-16]: name")
	require.NotContains(t, string(brief.stdout), "note  ")
}

// Where the kernel has no RDMA, that is an error for those who want it.
func TestDoctorWantsRDMA(t *testing.T) {
	plain := examine(t, ibrun(t, "--doctor", "--json"))
	if plain.Nodes[0].Report.Verbs.Deaf == "" {
		skip.Done(t, "test/rdmavm, since this machine has RDMA")
	}
	require.Empty(t, plain.subject("rdma"))
	o := ibrun(t, "--doctor", "--json", "--fabric", "ib")
	require.Equal(t, 1, o.code, o.stderr)
	require.Contains(t, examine(t, o).subject("rdma"), "error: no RDMA device; the kernel says: protocol not supported")
}

// A node that cannot be reached is in the table, wherever it is in the tree,
// and the others are examined: also one that its parent cannot reach.
func TestDoctorWithUnreachableNodes(t *testing.T) {
	shell := t.TempDir() + "/shell"
	require.NoError(t, executable.Write(shell,
		[]byte("#!/bin/sh\nh=$1; shift\ncase $h in bad*) echo $h is out of order >&2; exit 7;; far) test "+
			"\"$IBRUN_TEST_HOP\" || exit 7;; esac\nIBRUN_TEST_HOP= exec sh -c \"$*\"\n")))
	c := command(t, "--doctor", "--json", "--launcher-exec", shell, "--tree", "kary:2", "--hosts",
		"a,far,b,bad1,c,bad2,d")
	c.Env = append(os.Environ(), "IBRUN_TEST_HOP=1")
	o := finish(t, c)
	require.Equal(t, 1, o.code, o.stderr)
	require.Empty(t, o.stderr)
	all := examine(t, o)
	require.Len(t, all.Nodes, 7)
	for _, n := range all.Nodes {
		if strings.HasPrefix(n.Name, "bad") {
			require.NotNil(t, n.Lost, n.Name)
			require.Contains(t, n.Lost.Cause, "ended with code 7")
			continue
		}
		require.Nil(t, n.Lost, n.Name)
		require.NotEmpty(t, n.Report.Kernel, n.Name)
	}
	require.Equal(t, 2, all.Errors)
	var fallbacks []string
	for _, f := range all.Findings {
		if f.Severity == "warning" && f.Subject == "launch" {
			fallbacks = append(fallbacks, f.Nodes...)
			require.Contains(t, f.Text, "cannot be reached from a (")
		}
	}
	require.Equal(t, []string{"far"}, fallbacks)
}

// What an examination does not do is refused.
func TestDoctorRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--doctor true":                    "--doctor runs no program: leave out true",
		"--doctor -n 3":                    "leave out -n",
		"--doctor -ppn 3":                  "leave out -n, -ppn",
		"--doctor --hosts a --display map": "contradicts --display",
		"--doctor --dry-run":               "already asks for something else than a job",
		"--dry-run --doctor":               "already asks for something else than a job",
		"--doctor --hosts a..b":            "empty part",
		"--doctor --hosts a -f b":          "both name hosts",
		"--doctor --nolocal":               "leaves no host",
	} {
		o := ibrun(t, strings.Fields(args)...)
		require.Equal(t, 2, o.code, args+o.stderr)
		require.Contains(t, o.stderr, want)
		require.Empty(t, o.stdout)
	}
}

// A session that says nothing is said, and so is a node that hangs: here the
// library that is looked for is a pipe that nobody writes.
func TestDoctorIsNotHungUp(t *testing.T) {
	shell := t.TempDir() + "/shell"
	require.NoError(t, executable.Write(shell, []byte("#!/bin/sh\nexec sleep 60\n")))
	o := ibrun(t, "--doctor", "--launcher-exec", shell, "--hosts", "deaf", "--launch-timeout", "1")
	require.Equal(t, 1, o.code, o.stderr)
	require.Contains(t, string(o.stdout), "error    deaf: launch: was not examined")
	require.Contains(t, string(o.stdout), "0 nodes examined, 1 not")

	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(dir+"/libibverbs.so.1", 0o600))
	c := command(t, "--doctor", "--timeout", "1", "--launcher", "local", "--hosts", "a,b")
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
	o = finish(t, c)
	require.Equal(t, 1, o.code, o.stderr)
	require.Contains(t, string(o.stdout), "error    a,b: launch: was not examined (examine): no word in 1s (--timeout)")
}

// Ctrl-C ends an examination as it ends a job.
func TestDoctorIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(dir+"/libibverbs.so.1", 0o600))
	c := command(t, "--doctor", "--launcher", "local", "--hosts", "a,b")
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
	require.NoError(t, c.Start())
	eventually(t, 2*time.Minute, "both nodes are examined", func() bool { return len(agents(":agent")) == 2 })
	require.NoError(t, c.Process.Signal(os.Interrupt))
	_ = c.Wait()
	require.Equal(t, 130, c.ProcessState.ExitCode())
	eventually(t, 5*time.Second, "nothing is left", func() bool { return len(agents(":agent")) == 0 })
}
