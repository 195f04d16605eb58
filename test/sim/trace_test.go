package sim

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/trace"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// traceOf returns the lines that --trace-events writes at the time now for an event of an agent and its effects.
func traceOf(now time.Duration, ev core.Event, effects []core.Effect) []string {
	text := trace.Event(nil, now, ev)
	for _, e := range effects {
		text = trace.Effect(text, now, e)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// TestTraces runs a simulated job and collects the traces of all its agents. A trace must have a line for each event
// and each effect. Times must never decrease. No trace may contain the job's secret, arguments, environment, values,
// addresses, input or output, in text, decimal or hexadecimal form. The trace of node000002 must contain the main
// events and effects of a job from launch to end, in order.
func TestTraces(t *testing.T) {
	const hidden, port = "hidden", 60606
	cfg := plan(3, 2, "chain")
	copy(cfg.Job.Secret[:], "hidden: the secret of this job")
	cfg.Job.Programs[0].Argv = []string{"app", "hidden argument"}
	cfg.Job.Programs[0].Env = []string{"A=hidden variable"}
	cfg.Job.Preput = []job.KeyValue{{Key: "k", Value: "hidden value of the job"}}
	cfg.Job.Stdin = job.Stdin{Mode: job.StdinAll}
	cfg.Run = 10 * time.Second
	lines, steps := map[string][]string{}, 0
	var w *World
	cfg.Stepped = func(a *agent, ev core.Event, effects []core.Effect) {
		lines[a.host] = append(lines[a.host], traceOf(w.now, ev, effects)...)
		steps += 1 + len(effects)
	}
	answered := 0
	cfg.ToRank = func(_, _ uint32, m frame.Message) {
		if a, ok := m.(rankwire.Answer); ok {
			require.Equal(t, "hidden value", string(a.Value))
			answered++
		}
	}
	cfg.Began = func(node uint32) {
		for rank := 2 * node; rank < 2*node+2; rank++ {
			tuple := tupleOf(node, rank)
			tuple.Num = port
			w.FromRank(node, rank, rankwire.Hello{})
			w.FromRank(node, rank, rankwire.Publish{Tuple: tuple})
			w.FromRank(node, rank, rankwire.Put{Key: "k", Value: []byte("hidden value")})
			w.FromRank(node, rank, rankwire.Ask{Rank: job.Slot(5 - rank), Key: "k"})
			w.FromRank(node, rank, rankwire.Collect{Op: 1, What: rankwire.AllGather, Parcels: rankwire.NewParcels(
				rankwire.Parcel{From: job.Slot(rank), To: rankwire.Everyone, Value: []byte("hidden parcel")})})
			w.Post(node, core.RankOutput{Rank: job.Slot(rank), Stream: 1, Data: []byte("hidden output")})
		}
	}
	w = New(cfg)
	w.At(5*time.Second, func() { w.post(0, w.root, core.StdinRead{Data: []byte("hidden input"), EOF: true}) })
	w.complete(t, time.Hour)
	require.Equal(t, 6, answered)

	total := 0
	for host, of := range lines {
		total += len(of)
		last := 0.0
		for _, line := range of {
			seconds, err := strconv.ParseFloat(strings.Fields(line)[0], 64)
			require.NoError(t, err)
			require.GreaterOrEqual(t, seconds, last, line)
			last = seconds
		}
		text := strings.Join(of, "\n")
		for _, what := range []string{hidden, "104 105 100 100 101 110", "68696464656e", "60606"} {
			require.NotContains(t, text, what, host)
		}
	}
	require.Len(t, lines, 4)
	require.Equal(t, steps, total)
	requireOrder(t, lines["node000002"],
		"event Frame From=-1 Msg=Launch{", "effect Fork ", "event ForkDone",
		"event RankFrame Rank=2 Msg=Put{Key=<1 bytes> Value=<12 bytes>}",
		"effect Send To=-1 Msg=Output{Rank=2 Stream=1 Data=<13 bytes>}", "effect Feed Rank=2 Data=<12 bytes> EOF=true",
		"event RankExited Rank=2", "effect Send To=-1 Msg=Exit{", "effect Finish")
}

// requireOrder requires that lines of a trace contain the texts of want in order. Each text must be in a line of its
// own, directly after the time at the beginning of the line. Other lines may be between these lines.
func requireOrder(t *testing.T, lines []string, want ...string) {
	t.Helper()
	rest := lines
	for _, text := range want {
		at := slices.IndexFunc(rest, func(line string) bool {
			_, line, _ = strings.Cut(line, " ")
			return strings.HasPrefix(line, text)
		})
		require.GreaterOrEqual(t, at, 0, "%s is missing or misplaced in\n%s", text, strings.Join(lines, "\n"))
		rest = rest[at+1:]
	}
}
