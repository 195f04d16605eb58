package rankwire

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// SpawnJob is a rank's request for further programs (MPI_Comm_spawn), on its way to
// the root, which starts them as a job of their own.
type SpawnJob struct {
	Rank     job.Slot // which asks
	Commands Commands
	Preput   Pairs // what the new job's key-value space begins with
}

// Command is one program of a SpawnJob.
type Command struct {
	Argv  Strings // the program first
	Env   Strings // NAME=VALUE, besides what the asking rank's program has
	Ranks uint32  // 1 or more
	Dir   string  // working directory; empty: the asking rank's
}

// What a SpawnJob lists.
type (
	Commands = frame.List[Command, commandCodec]
	Strings  = frame.List[string, stringCodec]
	Pairs    = frame.List[job.KeyValue, pairCodec]
)

type (
	commandCodec struct{}
	stringCodec  struct{}
	pairCodec    struct{}
)

// JobSpawned answers a SpawnJob: all ranks run, or Refused says why not.
type JobSpawned struct {
	Rank      job.Slot
	JobID     string // of the new job
	Namespace string // of the new job, for clients of PMIx
	Refused   string
}

// Limits of a SpawnJob; PMI's own is 64 KiB for all its words.
const (
	maxSpawn     = 4 << 20 // bytes of programs and pairs: the kernel takes no more for one program
	maxSpawnWord = 1 << 16 // bytes of an argument, directory, key or value
	maxRefusal   = 1 << 12 // bytes of the reason
	maxJobID     = 16
	maxNamespace = 64
)

func (SpawnJob) Kind() frame.Kind   { return KindSpawnJob }
func (JobSpawned) Kind() frame.Kind { return KindJobSpawned }

func (m SpawnJob) Encode(w *frame.Encoder) {
	w.U32(uint32(m.Rank))
	m.Commands.Encode(w)
	m.Preput.Encode(w)
}

// NewStrings packs strings.
func NewStrings(list ...string) Strings {
	return frame.ListOf[string, stringCodec](slices.Values(list))
}

// DecodeStrings takes strings.
func DecodeStrings(r *frame.Decoder) Strings {
	return frame.DecodeList[string, stringCodec](r, 1, nil)
}

// NewCommands packs programs.
func NewCommands(list ...Command) Commands {
	return frame.ListOf[Command, commandCodec](slices.Values(list))
}

// NewPairs packs pairs.
func NewPairs(list ...job.KeyValue) Pairs {
	return frame.ListOf[job.KeyValue, pairCodec](slices.Values(list))
}

func (stringCodec) Encode(w *frame.Encoder, s string) { w.Text(s) }
func (stringCodec) Decode(r *frame.Decoder) string    { return string(r.Bytes(maxSpawnWord)) }

func (commandCodec) Encode(w *frame.Encoder, c Command) {
	c.Argv.Encode(w)
	c.Env.Encode(w)
	w.U32(c.Ranks)
	w.Text(c.Dir)
}

func (commandCodec) Decode(r *frame.Decoder) Command {
	return Command{
		Argv:  DecodeStrings(r),
		Env:   DecodeStrings(r),
		Ranks: uint32(r.Uint(job.MaxRanks)), Dir: r.TextUpTo(maxSpawnWord),
	}
}

func (pairCodec) Encode(w *frame.Encoder, p job.KeyValue) { EncodeKeyValue(w, p) }
func (pairCodec) Decode(r *frame.Decoder) job.KeyValue    { return DecodeKeyValue(r) }

// EncodeKeyValue writes a pair that a key-value space begins with.
func EncodeKeyValue(w *frame.Encoder, p job.KeyValue) {
	w.Text(p.Key)
	w.Text(p.Value)
}

// DecodeKeyValue takes what EncodeKeyValue writes.
func DecodeKeyValue(r *frame.Decoder) job.KeyValue {
	return job.KeyValue{Key: r.TextUpTo(maxSpawnWord), Value: r.TextUpTo(maxSpawnWord)}
}

func parseSpawnJob(r *frame.Decoder) frame.Message { return DecodeSpawnJob(r) }

// DecodeSpawnJob takes the payload of a SpawnJob, which other messages may have in them.
func DecodeSpawnJob(r *frame.Decoder) SpawnJob {
	total := uint64(0)
	m := SpawnJob{Rank: job.Slot(r.U32())}
	m.Commands = frame.DecodeList[Command, commandCodec](r, 5, func(c Command) error {
		if total += uint64(c.Ranks); c.Argv.Len() == 0 || c.Ranks == 0 || total > job.MaxRanks {
			return frame.ErrRange
		}
		return nil
	})
	m.Preput = frame.DecodeList[job.KeyValue, pairCodec](r, 2, nil)
	if m.Commands.Len() == 0 || m.Commands.Size()+m.Preput.Size() > maxSpawn {
		r.Fail(frame.ErrRange)
	}
	return m
}

func (m JobSpawned) Encode(w *frame.Encoder) {
	w.U32(uint32(m.Rank))
	w.Text(m.JobID)
	w.Text(m.Namespace)
	w.Text(m.Refused[:min(len(m.Refused), maxRefusal)])
}

func parseJobSpawned(r *frame.Decoder) frame.Message {
	return JobSpawned{
		Rank: job.Slot(r.U32()), JobID: r.TextUpTo(maxJobID), Namespace: r.TextUpTo(maxNamespace),
		Refused: r.TextUpTo(maxRefusal),
	}
}

func (m SpawnJob) String() string {
	return fmt.Sprintf("SpawnJob rank=%d commands=%d preput=%d", m.Rank, m.Commands.Len(), m.Preput.Len())
}

func (m JobSpawned) String() string { return fmt.Sprintf("JobSpawned rank=%d %q", m.Rank, m.Refused) }
