package lazy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/fabric/mem"
	"ibrun/internal/job"
)

// When nodes leave the job and others come with the same numbers, what is known of all other ranks
// stays: nobody asks for them again. Those that have left are no ranks any more; those that come
// are looked up, and nothing that the old ones had sent is received as theirs.
func TestResized(t *testing.T) {
	for name, streams := range map[string]bool{"datagrams": false, "streams": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, 1, overMem(mem.New(3, mem.Faults{})))
			w.config = func(c *Config) { c.Streams = streams }
			w.start()
			ctx := within(t)
			talk := func(from, to uint32, text string) {
				t.Helper()
				require.NoError(t, w.send(ctx, from, to, text))
				w.receivesFrom(ctx, to, from, []byte(text))
			}
			lookups := func() uint64 { return w.table(0).Tally().Sum[job.CountLookups] }
			talk(0, 1, "stays")
			talk(0, 2, "leaves")
			require.NoError(t, w.send(ctx, 2, 0, "never received"))
			require.NoError(t, w.table(2).Flush(ctx))
			talk(2, 1, "leaves")
			require.EqualValues(t, 2, lookups())

			two := job.NewLayout([]job.Share{{Nodes: 2, Ranks: 1}})
			for rank := range uint32(2) {
				w.table(rank).Resized(two, 0)
			}
			w.table(2).Close()
			talk(0, 1, "still there")
			require.ErrorIs(t, w.send(ctx, 0, 2, "to nobody"), ErrRank)
			_, err := w.table(0).RecvFrom(ctx, 2)
			require.ErrorIs(t, err, ErrRank)
			require.EqualValues(t, 2, lookups())

			for rank := range uint32(2) {
				w.table(rank).Resized(w.layout, 1)
			}
			w.startRank(2, job.Epoch(1, 1))
			talk(0, 2, "new")
			talk(2, 0, "new")
			talk(0, 1, "still there")
			require.EqualValues(t, 3, lookups())
		})
	}
}
