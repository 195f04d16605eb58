package wire

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/internal/fields"
	"ibrun/job"
)

// allSamples are samples, and more messages that set what those leave at zero.
func allSamples() []Message {
	full := *samples()[0].(Launch).Job
	for i := range full.Secret {
		full.Secret[i] = byte(100 + i)
	}
	full.Output.StderrFile, full.Output.StdinFile, full.Output.Unbuffered = "err.%r", "in.%r", true
	full.Launch.Exec, full.Launch.AgentPath, full.Launch.Verbose = []string{"rsh", "-4"}, "/opt/ibrun", true
	full.Transport.SL, full.Transport.PKey, full.Transport.GID, full.Transport.Spin = 3, 0x8001, 4, true
	ordered := full
	ordered.Size, ordered.Nodes, ordered.Programs = 5, 3, []job.Program{{Count: 5, Argv: []string{"a"}}}
	ordered.Layout = job.NewLayout([]job.Share{{Nodes: 2, Ranks: 2}, {Nodes: 1, Ranks: 1}}).By([]job.NodeIndex{1, 2, 0, 0, 1})
	run := job.Run{Prefix: "n", Suffix: "-ib", Width: 2, Lo: 7, Count: 1, User: "u", HCA: "mlx5_0:2", Slots: 8, Ranks: 2}
	one := job.Run{Prefix: "m", Suffix: "-ib", Width: 2, Lo: 7, Count: 1, User: "v", HCA: "mlx5_1:1", Slots: 9, Ranks: 1}
	two := job.NewNodes(0, []job.Run{run})
	last := job.Part{First: 2, Nodes: job.NewNodes(4, []job.Run{one})}
	spawn := SpawnJob{Rank: 1, Commands: NewCommands(Command{Argv: NewStrings("a"), Ranks: 1})}
	var key fabric.Key
	var addr [16]byte
	copy(addr[:], full.Secret[:])
	copy(key[:], full.Secret[:])
	tally := job.Tally{}
	for i := range tally.Sum {
		tally.Sum[i] = uint64(1000 + i)
	}
	for i := range tally.Latency {
		tally.Latency[i] = uint32(2000 + i)
	}
	timed := job.NewNodeTimes(5)
	for i := range timed.At {
		timed.At[i] = time.Duration(1+i) * time.Millisecond
	}
	return append(samples(),
		Launch{Job: &full, Nodes: samples()[0].(Launch).Nodes, First: 2, Share: samples()[0].(Launch).Share},
		Launch{Job: &ordered, Nodes: two, Share: []job.Part{last}},
		Offspring{Job: &ordered, Alloc: two, Spawn: spawn}, Offspring{Job: &full, Alloc: two, Spawn: spawn},
		Return{Part: last}, Welcome{Layout: full.Layout, Key: key, How: full.Transport},
		Fault{What: FaultRank, Status: job.Status{Kind: job.Signaled, Code: 11, Core: true}},
		Answer{Rank: 5, Key: "k", Fresh: true, Value: []byte("v")},
		Collect{Op: 3, What: Gather, Root: 7, Trouble: "rank 7 ended"},
		Release{Op: 4, What: AllToAll, Parcels: NewParcels(Parcel{5, 6, []byte("y")})},
		Publish{fabric.Tuple{Kind: fabric.ROCE6, Rails: 2, Path: 1, Addr: addr, Num: 5}}, Tally{&tally},
		Times{Nodes: NewTimings(slices.Values([]job.NodeTimes{timed}))},
	)
}

// TestSamplesAreWhole refuses samples that leave a field at zero: a codec that drops the field would
// bring them back all the same. What is looked at has been through the codec, lists included.
func TestSamplesAreWhole(t *testing.T) {
	var parsed []any
	for _, m := range allSamples() {
		got, err := Parse(Append(nil, m)[4:])
		require.NoError(t, err)
		parsed = append(parsed, got)
	}
	require.Empty(t, fields.Zero(view, parsed...))
}

// Each field has a place of its own: the samples come back without any one of their fields, too,
// where that is still a message.
func TestFieldsAreApart(t *testing.T) {
	tried := map[Kind]int{}
	for _, m := range allSamples() {
		for path, changed := range fields.Without(m) {
			m := changed.(Message)
			got, err := Parse(Append(nil, m)[4:])
			if err != nil || path == "Publish.Tuple.Kind" {
				continue // the field may not be zero, or says which others there are
			}
			require.Equal(t, m, got, path)
			tried[m.Kind()]++
		}
	}
	require.Greater(t, tried[KindLaunch], 50)
	require.Greater(t, tried[KindFault], 8)
	require.Greater(t, tried[KindTally], int(job.Counts))
}

// view shows what tables and lists have in them.
func view(v any) any {
	switch v := v.(type) {
	case job.Nodes:
		return struct {
			Base job.Slot
			Runs []job.Run
		}{v.Base(), v.Runs()}
	case job.Layout:
		return struct {
			Plane  uint32
			Shares []job.Share
			Order  []job.Stretch
		}{v.Plane(), slices.Collect(v.Shares()), v.Order()}
	case Values:
		return slices.Collect(v.All())
	case Parcels:
		return elements(v)
	case Endings:
		return elements(v)
	case Placements:
		return elements(v)
	case Timings:
		return elements(v)
	case NodeSpans:
		return elements(v)
	case SlotSpans:
		return elements(v)
	case Commands:
		return elements(v)
	case Strings:
		return elements(v)
	case Pairs:
		return elements(v)
	}
	return nil
}

// elements are those of a list. It panics if one of them, or one without one of its fields, does not
// come through the codec as it was.
func elements[T any, C codec[T]](l List[T, C]) (all []T) {
	var c C
	again := func(v T) (got T) {
		var w writer
		c.append(&w, v)
		r := reader{rest: w, room: len(w) + slack}
		if got = c.read(&r); r.err != nil {
			panic(r.err)
		}
		return got
	}
	for v := range l.All() {
		all = append(all, v)
		if !assert.ObjectsAreEqual(v, again(v)) {
			panic(fmt.Sprintf("%+v comes back as %+v", v, again(v)))
		}
		for path, changed := range fields.Without(v) {
			if !assert.ObjectsAreEqual(changed, again(changed.(T))) {
				panic(fmt.Sprintf("without %s: %+v comes back as %+v", path, changed, again(changed.(T))))
			}
		}
	}
	return all
}
