package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/wire"
)

// callers are those who start daemons in a random run, and what they must get: each one answer, in
// which each node is counted once.
type callers struct {
	rng     *rand.Rand
	left    map[uint32]bool // orders whose caller has left
	asked   int
	printed int
}

// callers lets up to six callers start daemons at random times, most of them while faults happen.
func (c *chaos) callers(seed uint64) *callers {
	x := &callers{rng: rand.New(rand.NewPCG(seed, 10)), left: map[uint32]bool{}}
	c.w.cfg.Daemon = func(node uint32, e flow.StartDaemons) time.Duration {
		for range x.rng.IntN(3) {
			x.print(c, node, e)
		}
		if x.rng.IntN(4) == 0 {
			return Forever // until it is killed
		}
		return time.Duration(x.rng.Int64N(int64(4 * time.Second)))
	}
	for range 1 + x.rng.IntN(6) {
		x.asked++
		order := flow.DaemonsAsked{ID: uint32(x.asked), PerRank: x.rng.IntN(2) == 0, Argv: []string{"true"}}
		at := 50*time.Millisecond + time.Duration(x.rng.Int64N(int64(20*time.Second)>>x.rng.IntN(4)))
		c.w.At(at, func() {
			if !c.w.root.dead && !c.w.root.done {
				c.w.Exec(order)
			} else {
				x.left[order.ID] = true
			}
		})
		if x.rng.IntN(4) == 0 {
			c.w.At(at+time.Duration(x.rng.Int64N(int64(3*time.Second))), func() {
				x.left[order.ID] = true
				c.w.post(0, c.w.root, flow.DaemonsLeft{ID: order.ID})
			})
		}
	}
	return x
}

// print lets a daemon of the order e on the node print at a random time.
func (x *callers) print(c *chaos, node uint32, e flow.StartDaemons) {
	a, number := c.w.agents[node], e.Number
	if e.PerRank {
		number = uint32(e.Ranks[0])
	}
	c.w.At(c.w.now+time.Duration(x.rng.Int64N(int64(time.Second))), func() {
		if a.daemons[daemon{e.ID, number}] && !a.dead && !a.done {
			data := make([]byte, 1+x.rng.IntN(32<<10))
			x.printed += len(data)
			m := wire.DaemonOutput{ID: e.ID, Number: number, Stream: 1, Data: data}
			c.w.post(0, a, flow.DaemonOutput{DaemonOutput: m})
		}
	})
}

// ended compares the answers with the orders.
func (x *callers) ended(c *chaos) (wrong []string) {
	if c.killed || c.asked > 1 || c.w.Outcome == nil || c.w.Outcome.Code == -1 {
		return nil
	}
	over := map[uint32]int{}
	for _, e := range c.w.Ends {
		over[e.ID]++
		nodes, all := e.Daemons+e.Over+e.Lost, uint32(c.nodes)
		if e.Refused == "" && nodes < all || e.Over+e.Lost > all {
			wrong = append(wrong, fmt.Sprintf("order %d is answered for %d of %d nodes: %+v", e.ID, nodes, c.nodes, e))
		}
	}
	for id := range uint32(x.asked) {
		if n := over[id+1]; n > 1 || n == 0 && !x.left[id+1] {
			wrong = append(wrong, fmt.Sprintf("order %d has %d answers", id+1, n))
		}
	}
	if c.w.Printed > x.printed {
		wrong = append(wrong, fmt.Sprintf("%d bytes of %d are there", c.w.Printed, x.printed))
	}
	return wrong
}

// TestRandomDaemons: daemons run while agents, sessions and ranks are lost, adopted and started
// again. Nobody is taken for a liar, each caller is answered once, and no daemon is left.
func TestRandomDaemons(t *testing.T) {
	ended, lost := 0, uint32(0)
	eachSeed(t, scale.daemons, func(seed uint64, printLine func(string)) (*chaos, []string) {
		c := chaosOf(seed, repairing+flavour(seed%2), printLine)
		x := c.callers(seed)
		wrong := append(played(c), x.ended(c)...)
		for _, e := range c.w.Ends {
			if len(wrong) == 0 && e.Refused == "" {
				ended, lost = ended+1, lost+e.Lost
			}
		}
		return c, wrong
	})
	t.Logf("%d orders were answered, %d of their nodes were lost", ended, lost)
	if scale.daemons >= 20 && *seed == 0 && (ended < scale.daemons || lost == 0) {
		t.Error("too few")
	}
}
