package flight

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/rankwire"
	"ibrun/job"
)

// Agent is what was recorded of one agent.
type Agent struct {
	Host    string
	Node    job.NodeIndex
	Config  core.Config
	entries []byte
}

// Open takes a file apart. build is that of the ibrun which wrote it.
func Open(file []byte) (build string, agents []Agent, err error) {
	rest, ok := bytes.CutPrefix(file, []byte(mark))
	end := bytes.IndexByte(rest, '\n')
	if !ok || end < 0 {
		return "", nil, errors.New("it is no record of ibrun")
	}
	build, rest = string(rest[:end]), rest[end+1:]
	for len(rest) > 0 {
		var one []byte
		if one, rest, ok = cutBytes(rest); !ok {
			return build, agents, errors.New("it has been cut short")
		}
		a, err := openAgent(one)
		if err != nil {
			return build, agents, err
		}
		agents = append(agents, a)
	}
	return build, agents, nil
}

func openAgent(b []byte) (a Agent, err error) {
	host, b, ok := cutBytes(b)
	node, size := binary.Uvarint(b)
	if !ok || size <= 0 {
		return a, errEntry
	}
	text, b, ok := cutBytes(b[size:])
	if !ok {
		return a, errEntry
	}
	a = Agent{Host: string(host), Node: job.NodeIndex(node), entries: b}
	a.Config, err = decodeConfig(text)
	return a, err
}

func cutBytes(b []byte) (one, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	return b[size : size+int(n)], b[size+int(n):], true
}

// Step is one event of a replay, and what it does.
type Step struct {
	At      time.Duration
	Event   core.Event
	Effects []core.Effect // until the first gap; it is the core's until the next step
	Gap     uint64        // instead of all that: so many entries were dropped
	Differs bool          // the core decides otherwise than it did
}

// Replay runs an agent's events through a core of this build, and calls do for each. Behind a gap
// events are shown, and nothing is decided. join is the core's Join. A core trusts its driver, so
// entries that no recorder wrote may make it panic: that is an error of the file.
func (a Agent) Replay(join func(rankwire.Parcels) rankwire.Parcels, do func(Step)) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("%w: %v", errEntry, why)
		}
	}()
	cfg := a.Config
	cfg.Join = join
	c, now, whole := core.New(cfg), time.Duration(0), true
	for b := a.entries; len(b) > 0; {
		var numbers [3]uint64
		for i := range numbers {
			n, size := binary.Uvarint(b)
			if size <= 0 {
				return errEntry
			}
			numbers[i], b = n, b[size:]
		}
		body, rest, ok := cutBytes(b)
		if !ok {
			return errEntry
		}
		b = rest
		now += time.Duration(numbers[0])
		if numbers[1] == kindGap {
			dropped, size := binary.Uvarint(body)
			if size <= 0 {
				return errEntry
			}
			do(Step{At: now, Gap: dropped})
			whole = false
			continue
		}
		ev, err := decodeEvent(int(numbers[1]), body)
		if err != nil {
			return err
		}
		s := Step{At: now, Event: ev}
		if whole {
			s.Effects = c.Step(now, ev)
			s.Differs = sum(s.Effects) != numbers[2]
		}
		do(s)
	}
	return nil
}

// Print replays all agents of a file as text. It reports whether all of them decided as they did.
func Print(w io.Writer, agents []Agent, join func(rankwire.Parcels) rankwire.Parcels) (same bool, err error) {
	same = true
	for _, a := range agents {
		fmt.Fprintf(w, "agent %s, node %d\n", a.Host, a.Node)
		err := a.Replay(join, func(s Step) {
			switch {
			case s.Gap > 0:
				fmt.Fprintf(w, "  %d events were not kept; nothing is decided from here on\n", s.Gap)
				return
			case s.Differs:
				same = false
				fmt.Fprintf(w, "  ! this build decides otherwise than the one that wrote the record\n")
			}
			fmt.Fprintf(w, "%v %s\n", s.At, shown(s.Event))
			for _, e := range s.Effects {
				fmt.Fprintf(w, "    %s\n", shown(e))
			}
		})
		if err != nil {
			return same, fmt.Errorf("agent %s: %w", a.Host, err)
		}
	}
	return same, nil
}

// shown is an event or an effect as a line.
func shown(v any) string {
	switch v := v.(type) {
	case core.Frame:
		return fmt.Sprintf("%d -> %v", v.From, v.Msg)
	case core.RankFrame:
		return fmt.Sprintf("rank %d -> %v", v.Rank, v.Msg)
	case core.Begin:
		return fmt.Sprintf("Begin %v", v.Launch)
	case core.RankOutput:
		return fmt.Sprintf("RankOutput rank=%d stream=%d bytes=%d", v.Rank, v.Stream, len(v.Data))
	case core.StdinRead:
		return fmt.Sprintf("StdinRead bytes=%d eof=%t", len(v.Data), v.EOF)
	case core.Send:
		return fmt.Sprintf("%d <- %v", v.To, v.Msg)
	case core.SendRank:
		return fmt.Sprintf("rank %d <- %v", v.Rank, v.Msg)
	case core.Fork:
		return fmt.Sprintf("Fork node=%d ranks=%d", v.Index, v.Node.Ranks)
	case core.Write:
		return fmt.Sprintf("Write rank=%d stream=%d bytes=%d", v.Rank, v.Stream, len(v.Data))
	case core.Feed:
		return fmt.Sprintf("Feed rank=%d bytes=%d eof=%t", v.Rank, len(v.Data), v.EOF)
	}
	return fmt.Sprintf("%T %+v", v, v)[len("core."):]
}
