//go:build soak

package faults

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/test/product"
	"ibrun/test/vcluster/cluster"
)

var (
	kills = flag.Int("kills", 100, "rounds in which one process is killed")
	stops = flag.Int("stops", 6, "rounds in which one agent is stopped; each takes more than a minute")
	cuts  = flag.Int("cuts", 60, "rounds in which one node is cut off")
	only  = flag.Int("only", -1, "the only round of each kind that is run, by its number")
)

// campaignNodes is the number of nodes of a campaign's clusters.
const campaignNodes = 16

// round is one fault in one job.
type round struct {
	kind  string // the name of its flag
	index int
	rng   *rand.Rand
	fault fault
	shape shape
}

// fault describes a fault that TestFaults applies to a job, and the result that it expects.
type fault struct {
	class string
	phase string // launch, running, ending
	after time.Duration
	// strike applies the fault and returns a description of it. undo, if it is not nil, repairs the host for the next
	// round.
	strike  func(*site, *round) (string, error)
	undo    func(*site) error
	victim  string // the host that is hit
	cutOff  bool   // sshd does not notice that sessions have ended
	litters bool   // files may stay behind
	code    int    // expected exit code of ibrun
	goesOn  bool   // the job may also run on after the fault; play then interrupts it
}

func (r *round) String() string {
	return fmt.Sprintf("-%s, -seed %d -only %d: %s while %s: %s", r.kind, *seed, r.index, r.fault.class,
		r.fault.phase, r.shape)
}

// drawRounds returns count rounds of a kind, or only round number *only if that flag is set. It calls draw to choose
// the fault and the job of each round from random numbers, which depend only on -seed, the kind and the number of the
// round.
func drawRounds(kind string, count int, draw func(*round)) (rounds []*round) {
	var salt uint64
	for _, c := range kind {
		salt = salt*31 + uint64(c)
	}
	for i := range count {
		if *only < 0 || *only == i {
			r := &round{kind: kind, index: i, rng: rand.New(rand.NewPCG(*seed, salt<<32+uint64(i)))}
			draw(r)
			rounds = append(rounds, r)
		}
	}
	return rounds
}

// TestFaults runs many random jobs, and in each of them kills or stops a process or cuts off a node. The job must end
// with the exit code and the message that docs/faults.md promises, and leave neither processes nor files.
func TestFaults(t *testing.T) {
	ranks := t.TempDir()
	for _, name := range []string{"cluster/talker", "pmi"} {
		require.NoError(t, product.Program(filepath.Join(ranks, filepath.Base(name)), "ibrun/test/"+name))
	}
	out, err := exec.Command("mpicc.mpich", "-o", filepath.Join(ranks, "mpi"), "../../mpi/testdata/mpi.c").CombinedOutput()
	require.NoError(t, err, "packages mpich and libmpich-dev are needed: %s", out)
	rounds := slices.Concat(drawRounds("stops", *stops, drawStop),
		drawRounds("cuts", *cuts, drawCut), drawRounds("kills", *kills, drawKill))
	onSites(t, 6, cluster.Config{Nodes: campaignNodes}, rounds, func(s *site, r *round) {
		wrong, output := s.play(r, ranks)
		report(t, r, wrong, output)
	})
}

const (
	launch  = "launch"
	running = "running"
	ending  = "ending"
)

// goesOnAfter is the time after which a job is interrupted if it survives its fault.
const goesOnAfter = 15 * time.Second

// play runs one round, and leaves the site as it was.
func (s *site) play(r *round, ranks string) (wrong []string, output string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if err := command("cp", "-r", ranks+"/.", s.Shared()); err != nil {
		fail("%v", err)
	}
	if r.shape.fresh {
		for _, host := range r.shape.hosts {
			_ = os.RemoveAll(filepath.Join(s.Root(host), "root/.cache/ibrun"))
		}
	}
	words := slices.Concat([]string{program}, r.shape.args, []string{"--hosts", strings.Join(r.shape.hosts, ",")},
		r.shape.words(s.Shared()))
	j, err := s.start(words)
	if err != nil {
		fail("starting ibrun: %v", err)
		return wrong, ""
	}
	if !s.reach(r, j) && !j.over() {
		fail("phase %s was never reached", r.fault.phase)
	}
	happened, err := r.fault.strike(s, r)
	missed := errors.Is(err, unix.ESRCH) // the process had ended before it got the signal
	if err != nil && !missed {
		fail("%v", err)
	}
	interrupted := r.interrupts()
	if (r.fault.goesOn || missed) && !interrupted && s.survives(r, j) {
		interrupted = true
		j.interrupt()
	}
	s.awaitEnd(j, fail)
	wrong = append(wrong, s.judge(r, j, missed || interrupted)...)
	var left []string
	gone := s.until(func() bool {
		left = left[:0]
		for _, p := range s.processes() {
			if r.fault.cutOff && p.role == session { // The sshd of a host that is cut off keeps its sessions.
				continue
			}
			left = append(left, p.String())
		}
		return len(left) == 0
	})
	if gone && !r.fault.litters {
		left = s.litter()
	}
	if len(left) > 0 {
		fail("processes or files are left:\n\t%s", strings.Join(left, "\n\t"))
	}
	output = happened + "\n" + s.output(j)
	s.restore(r.fault.undo, fail)
	return wrong, output
}

// interrupts reports whether an interrupt ends the job.
func (r *round) interrupts() bool { return r.fault.phase == ending && r.shape.program != brief }

// reach waits for the phase in which the fault is to happen.
func (s *site) reach(r *round, j *job) bool {
	started := r.rng.IntN(len(r.shape.hosts) + 1) // number of agents that must run before a fault during the launch
	if r.fault.litters {                          // the fault hits a shell, which runs before any agent
		started = 0
	}
	return s.until(func() bool {
		if j.up() == r.shape.ranks() || j.over() {
			return true
		}
		return r.fault.phase == launch && len(s.of(agent, "")) >= started && len(s.of(root, "")) > 0
	})
}

// survives reports whether a job still runs some time after all its ranks have started.
func (s *site) survives(r *round, j *job) bool {
	calm := time.Now()
	return s.until(func() bool {
		if j.up() < r.shape.ranks() {
			calm = time.Now()
		}
		return j.over() || time.Since(calm) > goesOnAfter
	}) && !j.over()
}

// judge compares the exit code and the messages of ibrun with those that docs/faults.md promises, and returns one text
// for each difference. If interrupted is true, the job may also end with code 0 or 130.
func (s *site) judge(r *round, j *job, interrupted bool) (wrong []string) {
	text, _ := os.ReadFile(j.err)
	code, allowed := j.code(), []int{r.fault.code}
	switch {
	case interrupted:
		allowed = append(allowed, 130, 0)
	case r.fault.phase == ending:
		allowed = append(allowed, 0)
	case r.fault.phase == launch && r.fault.code != 0:
		allowed = append(allowed, 125)
	}
	if !slices.Contains(allowed, code) {
		wrong = append(wrong, fmt.Sprintf("exit code %d, not one of %v", code, allowed))
	}
	if traces.Match(text) {
		wrong = append(wrong, "it crashed")
	}
	silent := []int{0, 130, 128 + int(unix.SIGKILL)}
	if !slices.Contains(silent, code) && !bytes.Contains(text, []byte("ibrun: ")) {
		wrong = append(wrong, "no message gives the cause")
	}
	lost := code == 125 && r.fault.phase == running
	if lost && !bytes.Contains(text, []byte(r.fault.victim)) {
		wrong = append(wrong, "no message names "+r.fault.victim)
	}
	return wrong
}
