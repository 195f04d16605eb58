package lazy

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric/mem"
)

// Whatever share of the datagrams is lost, and some are overtaken, messages arrive once and in
// order, and the pair gets on: no message takes a second, and a lossy link costs milliseconds, not
// time-outs of half a second.
func TestLossRates(t *testing.T) {
	for _, loss := range []float64{0.001, 0.01, 0.05, 0.3} {
		synctest.Test(t, func(t *testing.T) {
			faults := mem.Faults{Loss: loss, Reorder: 0.1, Delay: 50 * time.Microsecond}
			w := newWorld(t, 2, 1, overMem(mem.New(7, faults))).start()
			ctx := within(t)
			const count = 400
			began := time.Now()
			var took []time.Duration
			for n := range uint32(count) {
				at := time.Now()
				require.NoError(t, w.table(0).Send(ctx, 1, payload(0, 1, n, 3000)))
				w.receivesFrom(ctx, 1, 0, payload(0, 1, n, 3000))
				took = append(took, time.Since(at))
			}
			slices.Sort(took)
			p99, longest := took[count*99/100], took[count-1]
			t.Logf("loss %v: %v a message, p99 %v, the longest %v", loss, time.Since(began)/count, p99, longest)
			require.Less(t, longest, time.Second)
			require.Less(t, time.Since(began), 20*time.Second)
			if loss <= 0.01 {
				require.Less(t, p99, 50*time.Millisecond)
			}
			for rank := range uint32(2) {
				require.NoError(t, w.table(rank).Close())
			}
		})
	}
}
