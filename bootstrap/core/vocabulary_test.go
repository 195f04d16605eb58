package core

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// What a scenario says is the names of this package, of wire and of rankwire, in one line:
//
//	RankExited rank=2 status=exit:3
//	0 -> Ready up=1                  a frame came over a link: up, or the number of a child
//	up <- Fault what=rank ...        a frame is sent
//	rank 2 -> Hello, rank 2 <- ...   the same with a rank of this node
//
// value_test.go has the fields.

// named are the types that scenarios name: what can happen, and what is sent.
var named = map[string]reflect.Type{}

func init() {
	for _, v := range []any{
		ChildUp{}, ChildPhase{}, ChildFailed{}, LinkLost{}, ForkDone{}, Placed{}, Notice{}, RankOutput{}, RankExited{}, RankDrained{}, BulkRequested{},
		Opened{}, BulkRead{}, MPIFindings{}, RankInputRead{}, RankInputClosed{}, Killed{}, Swept{}, JobSwept{}, NodeSwept{}, ReaperLost{}, EndRequested{}, NodeSignal{}, Probed{}, StdinRead{}, Wrote{}, SinkFailed{},
		RankFenced{}, JoinRefused{}, Relinked{}, SessionsObserved{}, NodeEmptied{}, Respawned{}, JobAnswered{}, JobAsked{}, JobEnded{}, ParentAnswered{}, Interrupted{}, Asked{}, Inspected{},
		flow.DaemonsAsked{}, flow.DaemonsTaken{}, flow.DaemonsLeft{}, flow.DaemonOutput{}, flow.DaemonExited{}, CCSAsked{}, CCSReplied{}, ResizeAsked{},
		flow.SessionAsked{}, flow.SessionSent{}, flow.SessionTaken{}, flow.DaemonsKept{}, flow.DaemonFed{}, flow.DaemonInputRead{}, flow.DaemonInputClosed{},
	} {
		named[reflect.TypeOf(v).Name()] = reflect.TypeOf(v)
	}
	// notForged lists the messages that the fuzz test of fuzz_lies_test.go never forges. sayable and sayableOfRestarts
	// list those that it forges.
	notForged := typesOf(
		wire.Heartbeat{}, wire.Sweep{}, wire.Swept{}, rankwire.Restarted{}, rankwire.Rollback{},
		wire.Below{}, wire.Join{}, wire.Joined{}, wire.Resume{}, wire.State{}, wire.Report{}, wire.Passed{},
		wire.Chunk{}, rankwire.Member{}, rankwire.ToolPiece{}, rankwire.ToolRoom{},
	)
	for _, t := range slices.Concat(sayable, sayableOfRestarts, notForged) {
		named["-> "+t.Name()] = t
	}
}

// readEvent reads an event's line.
func readEvent(line string) (Event, error) {
	from, message, isFrame := strings.Cut(line, " -> ")
	if !isFrame {
		v, err := readNamed(line, "")
		ev, _ := v.(Event)
		return ev, err
	}
	v, err := readNamed(message, "-> ")
	m, _ := v.(frame.Message)
	if rank, ok := strings.CutPrefix(from, "rank "); ok && err == nil {
		n, err := strconv.Atoi(rank)
		return RankFrame{job.Slot(n), m}, err
	}
	link := Up
	if from != "up" && err == nil {
		var n int
		n, err = strconv.Atoi(from)
		link = Link(n)
	}
	return Frame{link, m}, err
}

func readNamed(line, kind string) (any, error) {
	name, rest, _ := strings.Cut(line, " ")
	t, ok := named[kind+name]
	if !ok {
		return nil, fmt.Errorf("%s is no event", name)
	}
	v := reflect.New(t).Elem()
	r := &reader{rest: rest}
	if r.fields(v); r.err == nil && r.rest != "" {
		r.err = fmt.Errorf("%q is left", r.rest)
	}
	return v.Interface(), r.err
}

// showEffect is an effect's line.
func showEffect(e Effect) string {
	switch e := e.(type) {
	case Send:
		to := "up"
		if e.To != Up {
			to = strconv.Itoa(int(e.To))
		}
		return to + " <- " + showNamed(e.Msg)
	case SendRank:
		return fmt.Sprintf("rank %d <- %s", e.Rank, showNamed(e.Msg))
	case Report:
		return "Report " + showNamed(e.What)
	}
	return showNamed(e)
}

func showNamed(v any) string {
	t := reflect.TypeOf(v)
	return strings.TrimSpace(t.Name() + " " + showFields(reflect.ValueOf(v)))
}
