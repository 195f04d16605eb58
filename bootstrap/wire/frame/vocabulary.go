package frame

import "fmt"

// Sender is who a frame comes from. Several may be joined with |.
type Sender uint8

const (
	Parent Sender = 1 << iota // an agent's
	Child                     // an agent's
	Rank                      // at its agent
	Agent                     // of a rank
	Root                      // of the job by whose rank this one was spawned, or of such a job
)

func (s Sender) String() string {
	return map[Sender]string{Parent: "parent", Child: "child", Rank: "rank", Agent: "agent", Root: "root"}[s]
}

// Format says of one kind how it is called, who may send it and how its payload is read.
type Format struct {
	Name  string
	From  Sender
	Parse func(*Decoder) Message
	Once  bool // it is the first of its sender's frames, and comes once
}

// Vocabulary is what two ends may say to each other: the format of each kind, by its number. A kind
// that is not in it has no Parse, or a number beyond the end.
type Vocabulary []Format

// Format is that of a kind. It is the zero value if the vocabulary has no such kind.
func (v Vocabulary) Format(k Kind) Format {
	if int(k) < len(v) {
		return v[k]
	}
	return Format{}
}

// Name is how a kind is called, or its number.
func (v Vocabulary) Name(k Kind) string {
	if name := v.Format(k).Name; name != "" {
		return name
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Allows reports whether a sender may say a message of this kind.
func (v Vocabulary) Allows(k Kind, from Sender) bool { return v.Format(k).From&from != 0 }

// Check says why nobody would take a message, before it is sent: its frame would
// be longer than MaxSize less spare bytes, or refused.
func (v Vocabulary) Check(m Message, spare int) error {
	frame := encode(nil, m)[lengthSize:]
	if size := len(frame); size > MaxSize-spare {
		return fmt.Errorf("%w: %v of %d bytes", ErrSize, v.Name(m.Kind()), size)
	}
	_, err := v.Parse(frame)
	return err
}

// Parse reads one frame without its length. What it returns may share memory
// with the frame, and takes no more than that again, and the slack.
func (v Vocabulary) Parse(frame []byte) (Message, error) {
	if len(frame) == 0 {
		return nil, ErrShort
	}
	format := v.Format(Kind(frame[0]))
	if format.Parse == nil {
		return nil, fmt.Errorf("%w: %d", ErrKind, frame[0])
	}
	room := len(frame) + Slack
	if format.Once {
		room = len(frame) + OnceSlack
	}
	r := NewDecoder(frame[1:], room)
	m := format.Parse(r)
	if r.err != nil {
		return nil, fmt.Errorf("%v: %w", format.Name, r.err)
	}
	if len(r.rest) > 0 {
		return nil, fmt.Errorf("%v: %w", format.Name, ErrTrailing)
	}
	return m, nil
}
