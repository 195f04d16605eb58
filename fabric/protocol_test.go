package fabric

import (
	"encoding/binary"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// section is a part of docs/dev/protocol.md, from its heading to the next one.
func section(t *testing.T, heading string) string {
	text, err := os.ReadFile("../docs/dev/protocol.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	require.True(t, ok, heading)
	part, _, _ := strings.Cut(rest, "\n## ")
	return part
}

// boxes are the lines of a diagram that have fields in them, without their margins.
func boxes(text string) (lines []string) {
	const from, to = 14, 36 // columns
	for line := range strings.Lines(text) {
		if len(line) > to && line[from] == '|' {
			lines = append(lines, line[from:to])
		}
	}
	return lines
}

var fieldForm = regexp.MustCompile(`([A-Za-z0][A-Za-z ]*): ?(\d+)`)

// bits takes the fields of boxes off some bytes, up to the first box whose fields have no width.
func bits(t *testing.T, boxes []string, b []byte) map[string]uint64 {
	found, at := map[string]uint64{}, 0
	for _, box := range boxes {
		fields := fieldForm.FindAllStringSubmatch(box, -1)
		if fields == nil {
			break
		}
		for _, field := range fields {
			width, err := strconv.Atoi(field[2])
			require.NoError(t, err)
			value := uint64(0)
			for range width {
				value = value<<1 | uint64(b[at/8]>>(7-at%8)&1)
				at++
			}
			found[field[1]] = value
		}
	}
	return found
}

var sizeForm = regexp.MustCompile(`\d+(?:,|$)`) // of a part of a tuple, at the end of its description

// TestProtocol compares docs/dev/protocol.md with what is written: tuples' parts, and the places of the
// fields in the heads of tuples, blocks and datagrams.
func TestProtocol(t *testing.T) {
	kind := Kind(0)
	for line := range strings.Lines(section(t, "I-tuples")) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 8 || strings.TrimSpace(cells[1]) != strconv.Itoa(int(kind)) {
			continue
		}
		parts := kindParts[kind]
		require.Equal(t, strings.ToUpper(parts.name), strings.TrimSpace(cells[2]))
		for column, want := range []int{parts.lid, parts.addr, parts.num} {
			sum := 0
			for _, size := range sizeForm.FindAllString(strings.TrimSpace(cells[3+column]), -1) {
				n, err := strconv.Atoi(strings.TrimSuffix(size, ","))
				require.NoError(t, err)
				sum += n
			}
			require.Equal(t, want, sum, line)
		}
		require.Equal(t, strconv.Itoa(1+parts.lid+parts.addr+parts.num), strings.TrimSpace(cells[6]))
		kind++
	}
	require.Equal(t, kinds, kind)

	tuple := Tuple{Kind: IB, LID: 0x1234, Rails: 2, Path: 1}
	head, _, _ := strings.Cut(section(t, "I-tuples"), "LID")
	found := bits(t, []string{head}, tuple.Append(nil))
	require.Equal(t, map[string]uint64{"kind": 2, "rails": 2, "path": 1, "version": 0}, found)

	block := Block{Node: 0x1020304, First: 0x5060708, TTL: 9, Base: tuple, Ranks: []Entry{{Epoch: 0x0a0b, Num: 1}, {}}}
	require.Equal(t, map[string]uint64{
		"version": blockVersion, "kind": 2, "flags": flagPartial, "epoch": 0x0a0b, "node": 0x1020304,
		"first rank": 0x5060708, "ranks": 2, "TTL": 9, "0": 0, "rails": 2, "path": 1,
	}, bits(t, boxes(section(t, "Node blocks")), block.Append(nil)))

	key := DeriveKey([32]byte{1, 2, 3})
	e := Envelope{Kind: 3, Dst: 0x02030405, DstEpoch: 0x0607, Gen: 0x08090a0b, Path: 0x1213}
	sealed := NewSeal(key, 0x0c0d0e0f, 0x1011).Append(nil, e, []byte("body"))
	require.Equal(t, map[string]uint64{
		"version": envelopeVersion,
		"kind":    3,
		"job tag": uint64(binary.BigEndian.Uint32(key[16:])),

		"source rank":    0x0c0d0e0f,
		"source epoch":   0x1011,
		"count":          1,
		"receiver epoch": 0x0607,
		"receiver rank":  0x02030405,

		"generation": 0x08090a0b,
		"path":       0x1213,
	}, bits(t, boxes(section(t, "Datagrams")), sealed))
}
