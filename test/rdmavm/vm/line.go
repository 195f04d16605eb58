package vm

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Kinds of frames on the line between host and guest, which is a virtual serial port. The guest first sends frameUp.
// The host answers with frameJob, followed by frameInput if the job has input. The guest sends frameOut and frameErr,
// and at the end frameEnd or frameFailed.
const (
	frameUp     = 'u'
	frameJob    = 'j' // a job as JSON
	frameInput  = 'i' // standard input of the command; an empty frame marks its end
	frameOut    = 'o' // standard output of the command
	frameErr    = 'e' // standard error of the command
	frameEnd    = 'x' // the exit code as JSON
	frameFailed = 'f' // an error of the guest, as text
)

// job describes the command that the guest must run.
type job struct {
	Command []string
	Dir     string
	Env     []string
	Share   string // a folder of the host in which files can be changed, or ""
	Devices int
	Memlock uint64 // bytes
	Input   bool   // the host sends frameInput
}

// maxFrame limits the length of a frame in bytes, so that corrupt data are detected.
const maxFrame = 1 << 20

// line sends and receives frames. Several goroutines may send at the same time.
type line struct {
	mu   sync.Mutex
	port io.Writer
	from *bufio.Reader
}

func newLine(port io.ReadWriter) *line { return &line{port: port, from: bufio.NewReader(port)} }

func (l *line) send(kind byte, content []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	frame := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(content)))
	_, err := l.port.Write(append(frame, content...))
	return err
}

func (l *line) sendJSON(kind byte, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return l.send(kind, content)
}

func (l *line) receive() (kind byte, content []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(l.from, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("a frame %q of %d bytes", head[0], n)
	}
	content = make([]byte, n)
	_, err = io.ReadFull(l.from, content)
	return head[0], content, err
}

// stream sends all bytes of a reader as frames of one kind.
func (l *line) stream(kind byte, from io.Reader) error {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if err := l.send(kind, b[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
