//go:build cluster

package attack

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// plantProgram puts a program on a node where the victim's ibrun lies on the front.
func plantProgram(s *stage, _ *job) {
	node := s.Nodes()[1]
	at, mark := "/dev/shm/bin/ibrun", "/tmp/planted"
	s.root(node, "rm", "-r", home+"/.cache") // where it would be found first
	out, err := s.Command(s.t.Context(), "sh", "-c", "install -D -o "+victimID+" "+s.ibrun+" "+at).CombinedOutput()
	require.NoError(s.t, err, "%s", out)
	s.succeed(attackerID, node, "sh", "-c", `mkdir -m 755 /dev/shm/bin && printf '#!/bin/sh\nid -un >>`+mark+
		`; chmod 666 `+mark+`\nexit 1\n' >`+at+` && chmod 755 `+at)
	_, _ = s.by(victimID, node, "sh", "-c", "test -x "+at+" && "+at)
	require.Equal(s.t, victim+"\n", s.root(node, "cat", mark), "a program that is run without a look at its owner")
	s.root(node, "rm", mark)
	defer s.root(node, "rm", "-f", mark)

	as := *s
	as.ibrun = at
	j := as.on("-n", "3", "hostname")
	require.Contains(s.t, j.end(), node)
	require.Empty(s.t, s.root(node, "sh", "-c", "cat "+mark+" 2>/dev/null; :"))
}

// swapShipped watches for the folder that the binary is put into where the cache
// cannot be used, to put another program there.
func swapShipped(s *stage, _ *job) {
	node := s.Nodes()[2]
	s.root(node, "sh", "-c", "cd "+home+" && mv .cache sent && install -m 600 /dev/null .cache")
	defer s.root(node, "sh", "-c", "cd "+home+" && rm .cache && mv sent .cache")
	out, end := s.begin(node, "swap", "weak", "/tmp")
	s.root(node, "sh", "-c", "mkdir -m 777 /tmp/weak.1")
	s.await("a folder that everybody can write to is taken", func() bool {
		return s.root(node, "ls",
			"/tmp/weak.1") != ""
	})
	end()
	require.Contains(s.t, out.String(), "swapped")
	s.root(node, "sh", "-c", "rm -rf /tmp/weak*")

	out, end = s.begin(node, "swap", "ibrun", "/tmp", "/var/tmp", "/dev/shm")
	s.await("the folder is seen", func() bool { // it is there for some milliseconds
		j := s.on("-n", "3", "hostname")
		require.Contains(s.t, j.end(), node)
		return strings.Contains(out.String(), "seen\n")
	})
	end()
	require.NotContains(s.t, out.String(), "swapped")
}

// linksFollowed reports whether this machine's kernel follows links of others in
// folders of everybody: then the attack works against a program that does not look.
func linksFollowed(t *testing.T) bool {
	b, err := os.ReadFile("/proc/sys/fs/protected_symlinks")
	require.NoError(t, err)
	return strings.TrimSpace(string(b)) == "0"
}

func linkOutput(s *stage, _ *job) {
	node := s.Nodes()[0]
	intact := s.decoy(node, home+"/work/decoy")
	link := func(name string) {
		s.succeed(attackerID, node, "ln", "-sf", home+"/work/decoy", name)
	}
	link("/tmp/log")
	_, err := s.by(victimID, node, "sh", "-c", "echo log >/tmp/log")
	require.Equal(s.t, linksFollowed(s.t), err == nil && !intact(),
		"a program that does not look writes through the link")
	intact = s.decoy(node, home+"/work/decoy")

	link("/tmp/out.0")
	s.succeed(attackerID, node, "sh", "-c", "ln -s "+home+
		" /tmp/way; install -m 666 /dev/null /tmp/mine.0; mkfifo -m 666 /tmp/pipe.0")
	for pattern, why := range map[string]string{
		"/tmp/out.%r":         "is a link that belongs to user " + attackerID,
		"/tmp/way/work/decoy": "is a link that belongs to user " + attackerID,
		"/tmp/mine.%r":        "it belongs to user " + attackerID, "/tmp/pipe.%r": "it belongs to user " + attackerID,
	} {
		for _, option := range []string{"--output", "--error"} {
			j := s.run("--hosts", node, "-n", "1", option, pattern, "hostname")
			<-j.over
			require.NotEqual(s.t, 0, j.cmd.ProcessState.ExitCode(), pattern)
			require.Contains(s.t, j.err.String(), why)
			require.True(s.t, intact(), pattern)
		}
	}
	s.root(node, "sh", "-c", "rm -f /tmp/log /tmp/out.0 /tmp/way /tmp/mine.0 /tmp/pipe.0; rm -r "+home+"/work")
}

// linkReport does the same on the host where ibrun is called.
func linkReport(s *stage, _ *job) {
	front := func(id, script string) {
		out, err := s.Command(s.t.Context(), as(id, "sh", "-c", script)...).CombinedOutput()
		require.NoError(s.t, err, "%s", out)
	}
	front(victimID, "echo 'ten years of work' >"+home+"/decoy")
	front(attackerID, "ln -s "+home+"/decoy /run/scratch/page.html; install -m 666 /dev/null /run/scratch/trace")
	for option, name := range map[string]string{"--report": "page.html", "--trace": "trace"} {
		j := s.on(option, "/run/scratch/"+name, "-n", "3", "true")
		<-j.over
		require.Equal(s.t, 2, j.cmd.ProcessState.ExitCode(), j.err.String())
		require.Contains(s.t, j.err.String(), "belongs to user "+attackerID)
	}
	front(victimID, "grep -qx 'ten years of work' "+home+"/decoy && test ! -s /run/scratch/trace")
	j := s.on("--report", "/run/scratch/own.html", "-n", "3", "true") // nobody is in the way
	j.end()
	front(victimID, "grep -q html /run/scratch/own.html")
}

// linkLeftovers leads the clean-up behind ranks of Open MPI to the victim's files.
func linkLeftovers(s *stage, _ *job) {
	node := s.Nodes()[0]
	j := s.run("--hosts", node, "--mpi", "openmpi", "-n", "1", "sh", "-c", `echo "job $FLUX_JOB_ID."; read -r end`)
	j.await(".")
	var id uint32
	_, err := fmt.Sscanf(j.out.String(), "job %d.", &id)
	require.NoError(s.t, err, "ibrun was built without libpmi: make libpmi, with gcc")
	family, number := fmt.Sprintf("jf.%d", id>>16), fmt.Sprint(id&0xffff)
	intact := s.decoy(node, fmt.Sprintf("%s/work/%s/%s/0/decoy", home, family, number))
	for _, line := range []string{
		"d=/tmp/ompi.x." + victimID + "; mkdir $d; ln -s " + home + "/work/" + family + " $d/" + family,
		"d=/tmp/ompi." + node + "." + victimID + "; mkdir -p $d/" + family + "; ln -s " + home + "/work/" + family +
			"/" + number + " $d/" + family + "/" + number,
	} {
		s.succeed(attackerID, node, "sh", "-c", line)
	}
	naive := "for d in /tmp/ompi.*." + victimID + "/" + family + "/" + number + "/0; do ls $d; done"
	out := s.succeed(victimID, node, "sh", "-c", naive)
	require.Contains(s.t, out, "decoy", "a pattern leads to the victim's own files")
	j.write("end")
	j.end()
	s.awaitEnd(node)
	require.True(s.t, intact())
	s.root(node, "sh", "-c", "rm -r /tmp/ompi.* "+home+"/work")
}
