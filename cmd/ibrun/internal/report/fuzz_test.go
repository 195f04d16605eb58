package report

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/tree"
	"ibrun/internal/job"
)

// FuzzViews draws launches whose times somebody made up, as an agent that lies
// can: whatever they are, what is written is no longer than for honest ones.
func FuzzViews(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, uint8(4))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0, 1}, uint8(9))
	f.Add(bytes.Repeat([]byte{0xc0}, 1000), uint8(62))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x00\x00\x00\x00\x00\x00\x80\x00\x00\x01"), uint8(0x86))
	f.Fuzz(func(t *testing.T, input []byte, nodes uint8) {
		number := func() (n int64) {
			var b [8]byte
			input = input[copy(b[:], input):]
			return int64(binary.LittleEndian.Uint64(b[:]) >> (b[0] & 63))
		}
		l := &tree.Launch{
			Root: "front", Launcher: "ssh", Agents: int(nodes),
			Shape: tree.Shape{Kind: tree.Flat, Cost: tree.DefaultCost},
		}
		for i := range nodes {
			n := job.NewNodeTimes(job.NodeIndex(i))
			n.Parent = job.NodeIndex(uint32(number()) % uint32(i+1))
			for m := range n.At {
				n.At[m] = min(time.Duration(number()), 1<<60) - 1
			}
			n.CPU, n.Error = time.Duration(number()), time.Duration(number())
			l.Nodes = append(l.Nodes, tree.Node{Host: strings.Repeat("h", int(uint64(number())%300)), NodeTimes: n})
		}
		size := len(Page(l)) + len(picture(l))
		s := l.Summarize()
		s.Text(func(string, ...any) {})
		_ = s.JSON(io.Discard) // numbers that are none are refused
		require.NoError(t, Trace(l, io.Discard))
		require.Less(t, size, 100<<10+int(nodes)*20<<10)
	})
}
