package core

import (
	"bytes"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/internal/job"
)

// The values of fields in scenarios: name=value, and the name alone for true.
// Bytes and text are quoted where they must be; #1000 is so many zero bytes.
//
//	status=exit:3, signal:9, norun:127, lost
//	runs=[0+4:exit:0 4+1:lost]           first rank, ranks, status
//	parcels=[{from=1 value=a to=0}]      to=everyone is ^0
//	layout=2x3,1x1                       two nodes of three ranks, one of one
//	value=@1/2/10.0.0.1:7,-              the block of node 1, first rank 2; "-" has not published

// words are the values of small enumerations.
var words = map[reflect.Type][]string{
	reflect.TypeFor[wire.FaultKind]():        {"-", "rank", "spawn", "launch", "lost", "abort", "fallback", "rollback", "told"},
	reflect.TypeFor[CauseKind]():             {"none", "fault", "timeout", "signal", "sink", "wait", "offspring"},
	reflect.TypeFor[rankwire.Naming]():       {"publish", "unpublish", "lookup"},
	reflect.TypeFor[rankwire.Answered]():     {"found", "exited", "failed", "norank"},
	reflect.TypeFor[rankwire.Collective]():   {"Barrier", "Broadcast", "Gather", "AllGather", "Scatter", "AllToAll", "Resize"},
	reflect.TypeFor[rankwire.Standing]():     {"-", "runs", "joined", "waits", "left", "over", "signaled"},
	reflect.TypeFor[rankwire.QuestionKind](): {"-", "look", "stacks", "signal"},
	reflect.TypeFor[rankwire.ResizeStep]():   {"waits", "agreed", "done"},
	reflect.TypeFor[job.StatusKind]():        {"exit", "signal", "norun", "lost"},
}

// packed are the lists of package wire: what they are slices of, and how they are packed.
var packed = map[reflect.Type]struct {
	slice reflect.Type
	pack  func(reflect.Value) reflect.Value
}{}

func packs[T, L any](pack func(...T) L) {
	p := packed[reflect.TypeFor[L]()]
	p.slice = reflect.TypeFor[[]T]()
	p.pack = func(v reflect.Value) reflect.Value { return reflect.ValueOf(pack(v.Interface().([]T)...)) }
	packed[reflect.TypeFor[L]()] = p
}

func init() {
	packs(rankwire.NewParcels)
	packs(frame.NewValues)
	packs(wire.NewEndings)
	packs(wire.NewPlacements)
	packs(wire.NewNodeSpans)
	packs(wire.NewMemberSpans)
	packs(rankwire.NewSlotSpans)
	packs(rankwire.NewFailedDaemons)
	packs(rankwire.NewCommands)
	packs(rankwire.NewStrings)
	packs(rankwire.NewPairs)
	packs(rankwire.NewRankGroups)
	packs(rankwire.NewRankRows)
	packs(wire.NewTimings)
}

// alwaysShown are fields that are shown though they are zero.
func alwaysShown(name string, t reflect.Type) bool {
	return t == reflect.TypeFor[Link]() || name == "rank" || name == "what"
}

func showFields(v reflect.Value) string {
	var parts []string
	for i := range v.NumField() {
		f, ft := v.Field(i), v.Type().Field(i)
		name := strings.ToLower(ft.Name)
		if ft.Anonymous {
			parts = append(parts, showFields(f))
			continue
		}
		switch {
		case f.IsZero() && !alwaysShown(name, ft.Type), ft.Type == reflect.TypeFor[*job.Job](), ft.Type == reflect.TypeFor[job.Layout]() && v.Type() != reflect.TypeFor[rankwire.Resize](), ft.Type == reflect.TypeFor[fabric.Key]():
		case f.Kind() == reflect.Bool:
			parts = append(parts, name)
		default:
			if text := showValue(f); text != "[]" {
				parts = append(parts, name+"="+text)
			}
		}
	}
	return strings.Join(parts, " ")
}

func showValue(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case []byte:
		return showBytes(x)
	case string:
		return showBytes([]byte(x))
	case time.Duration:
		return x.String()
	case fabric.Tuple:
		return x.String()
	case job.Status:
		return showStatus(x)
	case job.StatusRun:
		return fmt.Sprintf("%d+%d:%s", x.First, x.Count, showStatus(x.Status))
	case job.Nodes:
		if x.Len() == 1 {
			return x.At(0).Host
		}
		return x.At(0).Host + ".." + x.At(x.Len()-1).Host
	case job.Layout:
		var shares []string
		for s := range x.Shares() {
			shares = append(shares, fmt.Sprintf("%dx%d", s.Nodes, s.Ranks))
		}
		return strings.Join(shares, ",")
	case job.Tally:
		return "{" + showTally(&x) + "}"
	case *job.Tally:
		return "{" + showTally(x) + "}"
	case Link:
		if x == Up {
			return "up"
		}
		return strconv.Itoa(int(x))
	}
	if names, ok := words[v.Type()]; ok {
		return names[v.Uint()]
	}
	if p, ok := packed[v.Type()]; ok {
		list := reflect.MakeSlice(p.slice, 0, 0)
		for e := range v.MethodByName("All").Call(nil)[0].Seq() {
			list = reflect.Append(list, e)
		}
		return showValue(list)
	}
	switch v.Kind() {
	case reflect.Struct:
		return "{" + showFields(v) + "}"
	case reflect.Slice:
		var list []string
		for i := range v.Len() {
			list = append(list, showValue(v.Index(i)))
		}
		return "[" + strings.Join(list, " ") + "]"
	}
	if v.Kind() == reflect.Uint32 && v.Uint() == uint64(rankwire.Everyone) {
		return "everyone"
	}
	return fmt.Sprint(v.Interface())
}

func showTally(t *job.Tally) string {
	var parts []string
	for i, n := range t.Sum {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", job.CountNames[i], n))
		}
	}
	if len(t.Levels) > 0 {
		parts = append(parts, "levels="+showValue(reflect.ValueOf(t.Levels)))
	}
	return strings.Join(parts, " ")
}

func showStatus(s job.Status) string {
	text := fmt.Sprintf("%s:%d", words[reflect.TypeOf(s.Kind)][s.Kind], s.Code)
	if s.Kind == job.Lost {
		text = "lost"
	}
	return text
}

const longBytes = 100

func showBytes(b []byte) string {
	if block, err := fabric.ParseBlock(b); err == nil {
		return showBlock(block)
	}
	if len(b) > longBytes && bytes.Count(b, []byte{0}) == len(b) {
		return fmt.Sprintf("#%d", len(b))
	}
	if text := string(b); strings.IndexFunc(text, func(r rune) bool {
		return !strings.ContainsRune("-.:/", r) && (r < '0' || r > 'z' || r > '9' && r < 'A')
	}) < 0 && text != "" && text[0] != '@' {
		return text
	}
	return strconv.Quote(string(b))
}

func showBlock(b *fabric.Block) string {
	var ranks []string
	for i := range b.Ranks {
		text := "-"
		if t, _, ok := b.Tuple(b.First + uint32(i)); ok {
			text = t.String()
		}
		ranks = append(ranks, text)
	}
	return fmt.Sprintf("@%d/%d/%s", b.Node, b.First, strings.Join(ranks, ","))
}

// readBlock is the reverse of showBlock.
func readBlock(text string) ([]byte, error) {
	b := fabric.Block{}
	var list string
	if _, err := fmt.Sscanf(text, "@%d/%d/%s", &b.Node, &b.First, &list); err != nil {
		return nil, err
	}
	var bases []fabric.Tuple
	for _, word := range strings.Split(list, ",") {
		if word == "-" {
			b.Ranks = append(b.Ranks, fabric.Entry{})
			continue
		}
		at, err := netip.ParseAddrPort(word)
		if err != nil {
			return nil, err
		}
		base := fabric.Ethernet(netip.AddrPortFrom(at.Addr(), 0))
		if !slices.Contains(bases, base) {
			bases = append(bases, base)
		}
		b.Ranks = append(b.Ranks, fabric.Entry{Epoch: 1, Num: uint32(at.Port()), Base: uint8(slices.Index(bases, base))})
	}
	b.Base.Kind = fabric.NONE
	if len(bases) > 0 {
		b.Base, b.More = bases[0], bases[1:]
	}
	return b.Append(nil), nil
}
