package core

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

var update = flag.Bool("update", false, "rewrite what the scenarios in testdata expect")

// TestScenarios runs each scenario of testdata: a comment, the plan, and what
// happens to one agent. A line of the trace at the margin is an event, as
// vocabulary_test.go reads it; the indented lines after it are all effects that it
// had, in their order, as vocabulary_test.go prints them. Fields that are zero are
// left out.
//
// Timers are obeyed rather than shown: a deadline that the core does not ask
// for never comes. "wait 3s" lets time pass, and names when each effect came;
// "late 30s" is a process that was stopped meanwhile, so that its timer is late.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 60)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			about, rest, ok := strings.Cut(string(text), "-- plan --\n")
			require.True(t, ok && about != "", "a scenario begins with what it is about")
			plan, trace, ok := strings.Cut(rest, "-- trace --\n")
			require.True(t, ok)
			got := about + "-- plan --\n" + plan + "-- trace --\n" + newScenario(t, plan).replay(trace)
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(text), got, "go test ./bootstrap/core -update, and read what changes")
		})
	}
}

// scenario is one agent and its time.
type scenario struct {
	t     *testing.T
	core  *Core
	now   time.Duration
	timer time.Duration // 0: none
	begin Event         // of the job, for this agent
}

// replay makes the events of a trace happen and returns the trace as it is now.
func (s *scenario) replay(trace string) string {
	var out strings.Builder
	for line := range strings.Lines(trace) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, " ") {
			continue
		}
		fmt.Fprintln(&out, line)
		for _, effect := range s.happens(line) {
			fmt.Fprintf(&out, "  %s\n", effect)
		}
	}
	return out.String()
}

func (s *scenario) happens(line string) []string {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "", "#":
		return nil
	case "begin":
		return s.step(s.begin)
	case "wait":
		return s.wait(s.duration(rest))
	case "late":
		s.now += s.duration(rest)
		return s.step(Tick{})
	}
	ev, err := readEvent(line)
	require.NoError(s.t, err, line)
	return s.step(ev)
}

func (s *scenario) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(s.t, err)
	return d
}

// step lets one event happen and lists its effects.
func (s *scenario) step(ev Event) (lines []string) {
	for _, e := range s.core.Step(s.now, ev) {
		if t, ok := e.(SetTimer); ok {
			s.timer = t.At
			continue
		}
		lines = append(lines, showEffect(e))
	}
	return lines
}

// wait lets the timer fire as often as it was asked to.
func (s *scenario) wait(d time.Duration) (lines []string) {
	until := s.now + d
	for s.timer > 0 && s.timer <= until {
		s.now, s.timer = max(s.now, s.timer), 0
		for _, line := range s.step(Tick{}) {
			lines = append(lines, fmt.Sprintf("@%v %s", s.now, line))
		}
	}
	s.now = until
	return lines
}

// inOne makes one parcel of several.
func inOne(parcels rankwire.Parcels) rankwire.Parcels {
	if parcels.Len() < 2 {
		return parcels
	}
	all := rankwire.Parcel{From: rankwire.Everyone, To: rankwire.Everyone}
	for p := range parcels.All() {
		all.From = min(all.From, p.From)
		all.Value = append(all.Value, p.Value...)
	}
	return rankwire.NewParcels(all)
}

// newScenario makes the agent of a plan.
//
//	root | agent LO HI           the root, or the agent of nodes LO to HI-1; node i is "ni"
//	nodes 1 2 1                  ranks on each node
//	tree kary:2, grace 2s, batch 1, stdin all, stdin 3, here 1, timeout 9s, patience 9s,
//	kill-on-bad, keep-going, restart 3 (as often as that), restart-all 3, replaces (a lost one), eager,
//	session 3s, learn, stats, timed, report, dealt, join,
//	offspring, depth 8, credit 65536, contain, late, held, spares 2 (s0 and s1), least 3,
//	hosts (the job knows them), repair
//	from running | from hello    the launch is over; and the agent's ranks have said hello
//	from up                      the same, and the ranks are held
func newScenario(t *testing.T, plan string) *scenario {
	s := &scenario{t: t}
	cfg := Config{Root: true, Host: "front", Here: -1, Check: true}
	j := &job.Job{ID: "j", Launch: job.LaunchOptions{Tree: "flat", Grace: 2 * time.Second, Timeout: 15 * time.Second}}
	var nodes job.Nodes
	launch := wire.Launch{Job: j, Level: 1, Credit: 1 << 20}
	from, hosts, lo, hi := "", false, 0, 0
	flags := map[string]*bool{
		"hosts": &hosts, "kill-on-bad": &cfg.Policy.KillOnBad, "offspring": &cfg.HasSpawner, "replaces": &launch.Replaces,
		"late": &j.Launch.LateBinding, "repair": &j.Launch.Repair, "keep-going": &j.Launch.KeepGoing,
		"contain": &j.Launch.Contain, "timed": &j.Launch.Timed, "eager": &j.Transport.Eager,
		"learn": &j.Transport.Learn, "stats": &j.Transport.Stats, "report": &j.Binding.Report,
	}
	for line := range strings.Lines(plan) {
		words := strings.Fields(line)
		number := func(i int) (n int) {
			require.Greater(t, len(words), i, line)
			_, err := fmt.Sscan(words[i], &n)
			require.NoError(t, err, line)
			return n
		}
		if flag := flags[words[0]]; flag != nil {
			*flag = true
			continue
		}
		switch words[0] {
		case "root":
		case "agent":
			cfg.Root, cfg.Host, lo, hi = false, "", number(1), number(2)
		case "nodes":
			var runs []job.Run
			for i := range words[1:] {
				runs = append(runs, job.Run{Prefix: "n", Width: 1, Lo: uint64(i), Count: 1, Ranks: uint32(number(i + 1))})
			}
			nodes = job.NewNodes(0, runs)
		case "tree":
			j.Launch.Tree = words[1]
		case "grace":
			j.Launch.Grace = s.duration(words[1])
		case "batch":
			j.Launch.Batch = uint32(number(1))
		case "stdin":
			j.Stdin.Mode = job.StdinAll
			if words[1] != "all" {
				j.Stdin = job.Stdin{Mode: job.StdinOne, Rank: job.Slot(number(1))}
			}
		case "here":
			cfg.Here = number(1)
		case "timeout":
			cfg.Policy.Timeout = s.duration(words[1])
		case "patience":
			cfg.Policy.Wait = s.duration(words[1])
		case "join":
			cfg.Join = inOne
		case "held":
			j.Launch.StartBarrier = true
			j.FirstHost = "n0"
		case "spares":
			cfg.Policy.Spares = job.NewNodes(0, []job.Run{{Prefix: "s", Width: 1, Count: uint32(number(1))}})
		case "least":
			cfg.Policy.MinNodes = number(1)
		case "restart":
			j.Launch.Restarts, cfg.Policy.MaxRestarts = true, number(1)
		case "restart-all":
			j.Launch.Restarts, j.Launch.RestartAll, cfg.Policy.MaxRestarts = true, true, number(1)
		case "session":
			launch.SessionMs = uint32(s.duration(words[1]) / time.Millisecond)
		case "dealt":
			j.Layout = j.Layout.Dealt(1)
		case "depth":
			j.Depth = uint32(number(1))
		case "credit":
			launch.Credit = uint32(number(1))
		case "from":
			from = words[1]
		default:
			require.Fail(t, "the plan has an unknown word", line)
		}
	}
	j.Programs = []job.Program{{Count: nodes.Ranks()}}
	j.Size, j.Nodes, j.Layout = nodes.Ranks(), uint32(nodes.Len()), nodes.Layout().Dealt(j.Layout.Plane())
	if hosts {
		j.Hosts = nodes.HostList()
	}
	if cfg.Root {
		lo, hi = 0, nodes.Len()
	}
	launch.Nodes, launch.First = nodes.Slice(lo, hi), job.NodeIndex(lo)
	s.core, s.begin = New(cfg), Frame{Up, launch}
	if cfg.Root {
		launch.Level = 0
		s.begin = Begin{launch}
	}
	if from != "" {
		s.launched(from == "hello", from == "up")
	}
	return s
}

// launched brings the agent up.
func (s *scenario) launched(hello, held bool) {
	s.step(s.begin)
	for i := range s.core.children {
		s.step(ChildUp{Child: Link(i)})
		s.step(Frame{Link(i), wire.Ready{Up: uint32(s.core.children[i].part.Len())}})
	}
	if !s.core.cfg.Root && !held {
		s.step(ForkDone{})
	}
	require.Equal(s.t, running, s.core.stage)
	for rank := range s.core.below.Own.All() {
		if hello {
			s.step(RankFrame{rank, rankwire.Hello{}})
		}
	}
}
