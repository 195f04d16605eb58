package child

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite docs/dev/children.md")

const page = "../../../docs/dev/children.md"

// constants returns the names and the comments of the constants in child.go whose type is of, in source order.
func constants(t *testing.T, of string) (names, about []string) {
	file, err := parser.ParseFile(token.NewFileSet(), "child.go", nil, parser.ParseComments)
	require.NoError(t, err)
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		if first, ok := g.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); !ok || first.Name != of {
			continue
		}
		for _, s := range g.Specs[:len(g.Specs)-1] { // the last constant is the number of constants
			v := s.(*ast.ValueSpec)
			names, about = append(names, v.Names[0].Name), append(about, strings.TrimSpace(v.Comment.Text()))
		}
	}
	return names, about
}

// named returns the names of the bits in set, separated by commas. names[i] is the name of bit i.
func named[B State | Event](set B, names []string) string {
	var all []string
	for i, name := range names {
		if set&(1<<i) != 0 {
			all = append(all, name)
		}
	}
	return strings.Join(all, ", ")
}

func render(t *testing.T) string {
	var b strings.Builder
	states, meanings := constants(t, "State")
	events, causes := constants(t, "Event")
	require.Len(t, states, stateCount)
	require.Len(t, events, eventCount)
	b.WriteString("# States of a child\n\n" +
		"For engineers who change how agents are started, lost or replaced. After reading it you know what a\n" +
		"parent does about each event of a child. The table is made from the one in bootstrap/core/child, which\n" +
		"is executed; `go test ./bootstrap/core/child -run TestPage -update` rewrites it.\n\n" +
		"| state | meaning |\n|---|---|\n")
	for i, name := range states {
		fmt.Fprintf(&b, "| %s | %s |\n", name, meanings[i])
	}
	b.WriteString("\n| event | meaning |\n|---|---|\n")
	for i, name := range events {
		fmt.Fprintf(&b, "| %s | %s |\n", name, causes[i])
	}
	b.WriteString("\n## The table\n\n| states | events | next | what happens | why |\n|---|---|---|---|---|\n")
	for _, r := range table {
		what := make([]string, 0, len(r.actions))
		for _, a := range r.actions {
			what = append(what, string(a))
		}
		if len(what) == 0 {
			what = append(what, "-")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", named(r.states, states), named(r.events, events),
			named(r.next, states), strings.Join(what, "; "), r.why)
	}
	return b.String()
}

// TestTableIsTotal requires that the table contains each pair of a state and an event exactly once, with a reason.
func TestTableIsTotal(t *testing.T) {
	states, _ := constants(t, "State")
	events, _ := constants(t, "Event")
	for s, state := range states {
		for e, event := range events {
			var rows []row
			for _, r := range table {
				if r.states&(1<<s) != 0 && r.events&(1<<e) != 0 {
					rows = append(rows, r)
				}
			}
			require.Len(t, rows, 1, "%s, %s", state, event)
			require.NotEmpty(t, rows[0].why, "%s, %s", state, event)
			idle := rows[0].actions == nil && rows[0].next == stay
			require.True(t, idle || !rows[0].impossible(), "%s, %s", state, event)
		}
	}
}

func TestPage(t *testing.T) {
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(render(t)), 0o644))
	}
	have, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, render(t), string(have), "go test ./bootstrap/core/child -run TestPage -update")
}

// TestInvariants applies random events to children, and requires that the invariants of Child hold.
func TestInvariants(t *testing.T) {
	used := map[*row]bool{}
	for seed := range uint64(10_000) {
		rng := rand.New(rand.NewPCG(seed, 38))
		first := []State{Waiting, GrowWaiting, SuccessorStarting, Rejoining, Joining, Lost}[rng.IntN(6)]
		c := New(first)
		slots, removed, accounted := 0, 0, 0
		if first == SuccessorStarting {
			slots = 1 // the parent has opened the first session of the child
		}
		for range 60 {
			e := Event(1) << rng.IntN(eventCount)
			if c.Cannot(e) != "" {
				continue
			}
			was := c
			used[index[place(c.state)][place(e)]] = true
			actions := c.Step(e)
			must := func(holds bool, number int) {
				require.True(t, holds, "%d: seed %d: %d, %d, %v", number, seed, place(was.state), place(e), actions)
			}
			for _, a := range actions {
				switch a {
				case OpenSession:
					slots++
				case FreeSlot:
					slots--
				case Remove, LeavePlace:
					removed++
				case AddEnds, AddNotRun, AddLost, YieldNodes:
					accounted++
				case Rejoin, AdoptBelow:
					removed, accounted = removed+1, accounted+1
				}
			}
			must(slots == 1 == c.In(Opening) && slots < 2, 1)
			must(removed == 1 == c.In(Ended) && removed < 2, 2)
			must(accounted == removed, 3)
			itself := e&(SessionFailed|Unjoined|LinkLost|LinkLeft|LinkAdopted) != 0 // no Close is needed
			must(!was.In(Opening|Heard) || !c.In(Gone) || itself || slices.Contains(actions, Close), 4)
			must(!was.In(Ended) || c.In(Ended), 5)
		}
		for _, e := range []Event{End, GiveUp} {
			if c.Cannot(e) == "" {
				c.Step(e)
			}
		}
		require.True(t, c.In(Ended), "5: seed %d", seed)
	}
	for i := range table {
		require.Equal(t, !table[i].impossible(), used[&table[i]], "row %d: %s", i, table[i].why)
	}
}
