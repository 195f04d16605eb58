package vm

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Kinds of frames that host and guest exchange over a virtual serial port. First the guest sends frameUp. The host
// replies with frameJob and, if the command has standard input, frames of the kind frameInput. The guest sends frames
// of the kinds frameOut and frameErr, and last frameEnd or frameFailed.
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
	Input   bool   // the host sends frames of the kind frameInput
}

// maxFrame is the largest length of a frame's content in bytes. A larger length shows that the data is corrupt.
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

// stream sends all data of the reader from in frames of this kind, until the data ends or an error occurs.
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
