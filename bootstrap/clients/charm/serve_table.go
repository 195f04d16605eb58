package charm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// The table of all processes is an AllGather: the last rank of a node to join brings the node's
// part,
//
//	generation u8, address of the node 4 bytes, then for each rank in the order of its slots:
//	PEs uvarint, data port u16
//
// The table is the same for all ranks of a node, and there is one in memory.
type table struct {
	tried   bool
	err     error
	gen     Generation
	entries []byte
	pes     []uint32 // of all processes, by number
}

func (s *Server) joinTable(r *rank) {
	if !s.all(func(r *rank) bool { return r.welcomed }) {
		s.join(r, stepTable)
		return
	}
	b := append([]byte{byte(s.ranks[0].init.Generation)}, s.addr[:]...)
	for i := range s.ranks {
		of := &s.ranks[i]
		if g := of.init.Generation; g != s.ranks[0].init.Generation {
			b[0] = 0
		}
		b = binary.AppendUvarint(b, uint64(of.pes))
		b = binary.BigEndian.AppendUint16(b, of.init.Port)
	}
	s.join(r, stepTable, rankwire.Parcel{From: r.slot, To: rankwire.Everyone, Value: b})
}

// begin gives a program the table, when all that it has written to its descriptors has been read.
func (s *Server) begin(r *rank, parcels rankwire.Parcels) {
	t := &s.table
	if !t.tried {
		t.tried = true
		t.err = t.fill(s.job.Layout, parcels)
	}
	if t.err != nil {
		s.fail(r, t.err.Error())
		return
	}
	if r.prints {
		r.muting = true
		s.do(Mute{r.slot})
		return
	}
	s.run(r)
}

// Muted says that nothing more comes of a rank's descriptors.
func (s *Server) Muted(slot job.Slot) []Effect {
	if r := s.local(slot); s.table.gen != 0 && !r.running && !r.over {
		s.run(r)
	}
	return s.done()
}

// run lets a program run.
func (s *Server) run(r *rank) {
	r.muting, r.running = false, true
	s.send(r, s.table.gen.TableHead(s.job.Size, uint32(r.number)))
	s.send(r, s.table.entries)
	for _, request := range r.held {
		s.send(r, request)
	}
	r.held = nil
	if r.resizes && r.number == 0 && r.change.Layout.Nodes() == 0 && s.onePE() {
		s.report(r, rankwire.Follow{Step: rankwire.FollowCan})
	}
	s.askForSize(r) // while it executed itself again, another change may have come
}

// onePE reports whether each process has one PE: programs that can change their size know no other.
func (s *Server) onePE() bool {
	return !slices.ContainsFunc(s.table.pes, func(n uint32) bool { return n != 1 })
}

// Errors of a table that cannot be.
var (
	errVersions = errors.New("the programs of this job are of different versions of Charm++")
	errParts    = errors.New("not all ranks of this job are programs of Charm++")
)

func (t *table) fill(l job.Layout, parcels rankwire.Parcels) error {
	all := make([]Process, l.Ranks())
	filled := uint32(0)
	for p := range parcels.All() {
		node := l.NodeOf(p.From)
		first, count := l.SlotsOn(node)
		if len(p.Value) < 5 {
			return errParts
		}
		gen, rest := Generation(p.Value[0]), p.Value[5:]
		if gen < Gen65 || gen > Gen69 || t.gen != 0 && gen != t.gen {
			return errVersions
		}
		t.gen = gen
		for i := range count {
			pes, n := binary.Uvarint(rest)
			if n <= 0 || len(rest) < n+2 || pes == 0 || pes > maxPEs {
				return errParts
			}
			of := &all[l.Rank(first+job.Slot(i))]
			if of.PEs == 0 {
				filled++
			}
			*of = Process{
				OnHost: count, PEs: uint32(pes), Port: binary.BigEndian.Uint16(rest[n:]), Addr: [4]byte(p.Value[1:5]),
			}
			rest = rest[n+2:]
		}
	}
	if filled != l.Ranks() || filled == 0 {
		return errParts
	}
	for number, p := range all {
		t.entries = t.gen.AppendEntry(t.entries, uint32(number), p)
		t.pes = append(t.pes, p.PEs)
	}
	return nil
}

// maxPEs bounds the PEs of one process.
const maxPEs = 1 << 16

// PEs is how many a program says on its command line that each process has: +ppn N, as charmrun
// reads it.
func PEs(argv []string) (uint32, error) {
	for i, word := range argv {
		if word != "+ppn" && word != "++ppn" {
			continue
		}
		n := uint64(0)
		if i+1 < len(argv) {
			_, _ = fmt.Sscanf(argv[i+1], "%d", &n)
		}
		if n == 0 || n > maxPEs {
			return 0, fmt.Errorf("invalid %s: a number of PEs from 1 to %d follows it", word, maxPEs)
		}
		return uint32(n), nil
	}
	return 1, nil
}
