package wire

import (
	"fmt"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// The frames of a job that restarts ranks (docs/dev/decisions/0020-restart.md).
const (
	KindFloor     frame.Kind = 36 // down
	KindFloorSet  frame.Kind = 37 // up
	KindRespawn   frame.Kind = 38 // down
	KindRespawned frame.Kind = 39 // up
)

// Floor says that ranks count from an epoch on. What of them runs in an older epoch ends first. Op
// is the number of the last collective that they took no part in: all ranks go on after it.
type Floor struct {
	Serial uint32 // counted from 1
	Op     uint32
	First  job.Slot
	Count  uint32
	Epoch  uint16 // the first of a start (job.Epoch)
}

// FloorSet says that all agents of a subtree have the floors up to Serial.
type FloorSet struct{ Serial uint32 }

// Respawn orders that ranks start again.
type Respawn struct {
	Serial uint32 // of their floor
	First  job.Slot
	Count  uint32
	Epoch  uint16
}

// Respawned answers Respawn for ranks of one node: they run, or Cause says why they cannot.
type Respawned struct {
	Serial uint32
	First  job.Slot
	Count  uint32
	Code   uint8 // as of a rank that could not be started; 0: they run
	Cause  string
}

func (Floor) Kind() frame.Kind     { return KindFloor }
func (FloorSet) Kind() frame.Kind  { return KindFloorSet }
func (Respawn) Kind() frame.Kind   { return KindRespawn }
func (Respawned) Kind() frame.Kind { return KindRespawned }

func (m Floor) Encode(w *frame.Encoder) {
	w.U32(m.Serial)
	w.U32(m.Op)
	w.U32(uint32(m.First))
	w.U32(m.Count)
	w.U32(uint32(m.Epoch))
}

func (m FloorSet) Encode(w *frame.Encoder) { w.U32(m.Serial) }

func (m Respawn) Encode(w *frame.Encoder) {
	w.U32(m.Serial)
	w.U32(uint32(m.First))
	w.U32(m.Count)
	w.U32(uint32(m.Epoch))
}

func (m Respawned) Encode(w *frame.Encoder) {
	w.U32(m.Serial)
	w.U32(uint32(m.First))
	w.U32(m.Count)
	w.Byte(m.Code)
	w.UserText(m.Cause)
}

func parseFloor(r *frame.Decoder) frame.Message {
	m := Floor{Serial: r.U32(), Op: r.U32(), First: job.Slot(r.U32()), Count: r.U32(), Epoch: epoch(r)}
	checkRanks(r, m.First, m.Count)
	return m
}

func parseFloorSet(r *frame.Decoder) frame.Message { return FloorSet{Serial: r.U32()} }

func parseRespawn(r *frame.Decoder) frame.Message {
	m := Respawn{Serial: r.U32(), First: job.Slot(r.U32()), Count: r.U32(), Epoch: epoch(r)}
	checkRanks(r, m.First, m.Count)
	return m
}

func parseRespawned(r *frame.Decoder) frame.Message {
	m := Respawned{Serial: r.U32(), First: job.Slot(r.U32()), Count: r.U32(), Code: r.Byte(), Cause: r.UserText()}
	checkRanks(r, m.First, m.Count)
	return m
}

// epoch reads the first epoch of a start that is not a rank's first.
func epoch(r *frame.Decoder) uint16 {
	e := uint16(r.Uint(1<<16 - 1))
	if job.StartOf(e) == 0 || job.ProgramOf(e) != 1 {
		r.Fail(frame.ErrRange)
	}
	return e
}

// checkRanks refuses what is no stretch of ranks.
func checkRanks(r *frame.Decoder, first job.Slot, count uint32) {
	if count == 0 || uint64(first)+uint64(count) > job.MaxRanks {
		r.Fail(frame.ErrRange)
	}
}

func (m Floor) String() string {
	return fmt.Sprintf("Floor serial=%d op=%d rank=%d+%d epoch=%d", m.Serial, m.Op, m.First, m.Count, m.Epoch)
}
func (m FloorSet) String() string { return fmt.Sprintf("FloorSet serial=%d", m.Serial) }
func (m Respawn) String() string {
	return fmt.Sprintf("Respawn serial=%d rank=%d+%d epoch=%d", m.Serial, m.First, m.Count, m.Epoch)
}
func (m Respawned) String() string {
	return fmt.Sprintf("Respawned serial=%d rank=%d+%d code=%d cause=%q", m.Serial, m.First, m.Count, m.Code, m.Cause)
}
