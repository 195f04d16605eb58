//go:build soak

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/internal/plain"
	"ibrun/test/vcluster/cluster"
)

// rival is a launcher to which the same faults are applied.
type rival struct {
	name   string
	daemon string // the name of the launcher's program on a node, or "" for ibrun, whose agents have a role instead
	words  func(hosts []string) []string
}

func allRivals() []rival {
	number := func(hosts []string) string { return strconv.Itoa(len(hosts)) }
	return []rival{
		{"ibrun", "", func(hosts []string) []string {
			return []string{program, "--tree", "kary:2", "--no-preflight", "--hosts", strings.Join(hosts, ",")}
		}},
		{"mpiexec.hydra", "hydra_pmi_proxy", func(hosts []string) []string {
			return []string{"mpiexec.hydra", "-launcher", "ssh", "-hosts", strings.Join(hosts, ","), "-ppn", "1",
				"-n", number(hosts)}
		}},
		{"mpirun", "orted", func(hosts []string) []string {
			return []string{"mpirun.openmpi", "--host", strings.Join(hosts, ":1,") + ":1", "-n", number(hosts)}
		}},
	}
}

// trial is a fault that is applied to every launcher.
type trial struct {
	fault  string
	hosts  []string
	script string
	strike func(*site, *job, rival) error // called when all ranks run; nil if the fault exists from the beginning
	before func(*site) error
	after  func(*site) error
}

// rivalEnds limits the time from a fault to the end of a launcher. rivalClean limits the time from then on to the end
// of the processes that the launcher started.
const (
	rivalEnds  = time.Minute
	rivalClean = 15 * time.Second
)

func trials() []trial {
	var hosts []string
	for i := range 6 {
		hosts = append(hosts, fmt.Sprintf("node%04d", i+1))
	}
	const target = "node0002"
	on := func(text string) string { return "[ $(hostname) != " + target + " ] || " + text + "; exec sleep 1000" }
	root := func(sig unix.Signal) func(*site, *job, rival) error {
		return func(_ *site, j *job, _ rival) error { return j.cmd.Process.Signal(sig) }
	}
	return []trial{
		{fault: "a rank exits with 7", hosts: hosts, script: on("exit 7")},
		{fault: "a rank ends by SIGSEGV", hosts: hosts, script: on("kill -SEGV $$")},
		{fault: "SIGKILL of a rank", hosts: hosts, script: leaves, strike: func(s *site, _ *job, _ rival) error {
			return s.signalNamed(target, "sleep 1000")
		}},
		{fault: "ranks leave processes in sessions of their own, and end", hosts: hosts,
			script: "env -i setsid sleep 1000 </dev/null >/dev/null 2>&1 & true"},
		{fault: "SIGKILL of the launcher", hosts: hosts, script: leaves, strike: root(unix.SIGKILL)},
		{fault: "SIGKILL of the process on an inner node", hosts: hosts, script: leaves,
			strike: func(s *site, j *job, of rival) error {
				if of.daemon == "" {
					return send(unix.SIGKILL, target, agent)(s, j)
				}
				return s.signalNamed(target, of.daemon)
			}},
		{fault: "Ctrl-C, ranks ignore signals", hosts: hosts, script: deaf, strike: root(unix.SIGINT)},
		{fault: "SIGTERM, ranks ignore signals", hosts: hosts, script: deaf, strike: root(unix.SIGTERM)},
		{fault: "a node is cut off", hosts: hosts, script: leaves,
			strike: func(s *site, _ *job, _ rival) error { return s.Cut(target) },
			after:  func(s *site) error { return s.Heal(target) }},
		{fault: "a node loses its power", hosts: hosts, script: leaves,
			strike: func(s *site, _ *job, _ rival) error { return s.Crash(target) },
			after:  func(s *site) error { return s.restart(target) }},
		{fault: "an unknown host", hosts: append(hosts[:3:3], "nowhere"), script: "exec sleep 1000"},
		{fault: "a host that does not answer", hosts: hosts, script: "exec sleep 1000",
			before: func(s *site) error { return s.Cut(target) }, after: func(s *site) error { return s.Heal(target) }},
	}
}

// signalNamed kills the first process on a host whose command line begins with a name.
func (s *site) signalNamed(host, name string) error {
	for _, p := range s.processes() {
		words := strings.Join(append([]string{filepath.Base(p.Argv[0])}, p.Argv[1:]...), " ")
		if p.host == host && strings.HasPrefix(words, name) {
			return s.signal(p, unix.SIGKILL)
		}
	}
	return fmt.Errorf("no %s on %s", name, host)
}

// try applies a fault to a launcher, and returns what followed as a cell of the table.
func (s *site) try(r rival, f trial) (text string, err error) {
	if f.before != nil {
		if err := f.before(s); err != nil {
			return "", err
		}
	}
	env := []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
	began := time.Now()
	j, err := s.start(append(r.words(f.hosts), "sh", "-c", up+f.script), env...)
	if err != nil {
		return "", err
	}
	if f.strike != nil {
		if !s.until(func() bool { return j.over() || j.up() >= len(f.hosts) }) || j.over() {
			return "", fmt.Errorf("%s did not start: %s", r.name, s.output(j))
		}
		<-time.After(500 * time.Millisecond) // lets the launcher finish its start before the fault
		began = time.Now()
		if err := f.strike(s, j, r); err != nil {
			return "", err
		}
	}
	select {
	case <-j.ended:
		text = fmt.Sprintf("%d after %.1f s", j.code(), time.Since(began).Seconds())
	case <-time.After(rivalEnds):
		text = fmt.Sprintf("hangs (%.0f s)", rivalEnds.Seconds())
	}
	var left []process
	late := time.Now().Add(rivalClean)
	s.until(func() bool { left = s.ofJob(); return len(left) == 0 || time.Now().After(late) })
	if len(left) > 0 {
		text += fmt.Sprintf("; **%d processes left**", len(left))
	}
	if !j.over() {
		_ = j.cmd.Process.Kill()
		<-j.ended
	}
	errs, _ := os.ReadFile(j.err)
	if line := firstWords(r, string(errs)); line != "" {
		text += "; " + line
	}
	s.restore(f.after, func(format string, args ...any) { err = fmt.Errorf(format, args...) })
	return text, err
}

// ofJob returns the processes of a job without the launcher and sessions, which sshd keeps for a node that is cut off.
func (s *site) ofJob() []process {
	return slices.DeleteFunc(s.processes(), func(p process) bool { return p.role == session || p.role == root })
}

// mostWords is the length of a message in the table, in bytes.
const mostWords = 90

// firstWords returns the cell of the table that quotes a message in text, cut off after mostWords bytes. From ibrun it
// takes the line that firstCause returns. From another launcher it takes the first line that does not consist of
// spaces, "-" and "=".
func firstWords(r rival, text string) string {
	line := firstCause(text)
	if r.name != "ibrun" {
		for l := range strings.Lines(text) {
			if line = strings.Trim(l, " -=\r\n"); line != "" {
				break
			}
		}
	}
	if line = plain.Text(strings.TrimPrefix(line, "ibrun: ")); len(line) > mostWords {
		line = line[:mostWords] + "..."
	}
	return strings.ReplaceAll(line, "|", "\\|") // escape the separator of cells in a Markdown table
}

// TestRivals applies the same twelve faults to all launchers. It prints what each does, and writes it to
// out/rivals.md. No result fails the test.
func TestRivals(t *testing.T) {
	all, cells := allRivals(), map[string]string{}
	var mu sync.Mutex
	onSites(t, len(all), cluster.Config{Nodes: 6}, all, func(s *site, r rival) {
		for _, f := range trials() {
			text, err := s.try(r, f)
			if err != nil {
				t.Errorf("%s: %s: %v", r.name, f.fault, err)
			}
			mu.Lock()
			cells[f.fault+r.name] = text
			mu.Unlock()
		}
	})
	table := "| fault |"
	rule := "\n| --- |"
	for _, r := range all {
		table += " " + r.name + " |"
		rule += " --- |"
	}
	table += rule + "\n"
	for _, f := range trials() {
		table += "| " + f.fault + " |"
		for _, r := range all {
			table += " " + cells[f.fault+r.name] + " |"
		}
		table += "\n"
	}
	fmt.Print(table)
	require.NoError(t, os.MkdirAll("../../../out", 0o755))
	require.NoError(t, os.WriteFile("../../../out/rivals.md", []byte(table), 0o644))
}
