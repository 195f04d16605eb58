package peer

import (
	"encoding/binary"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
)

// A packet in docs/dev/protocol.md: its number, its name and its fields. A width is in bits; the tuple
// and the payload have the rest.
var (
	packetForm = regexp.MustCompile(`(?m)^    ([1-9])  ([A-Z]+) +((?:\w+:\d+ )*(?:\w+:\d+|tuple|payload))(?:  .*)?$`)
	fieldForm  = regexp.MustCompile(`(\w+):?(\d*)`)
)

// TestProtocol decodes the samples by the page alone. Each field of a kind is set in some sample of
// that kind, and no other one is: what encoder and decoder both drop is missed.
func TestProtocol(t *testing.T) {
	text, err := os.ReadFile("../../docs/dev/protocol.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## Packets\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	rows := packetForm.FindAllStringSubmatch(section, -1)
	require.Len(t, rows, int(packetKinds)-1)
	for i, row := range rows {
		kind := PacketKind(i + 1)
		require.Equal(t, []string{strconv.Itoa(int(kind)), kind.String()}, row[1:3])
		set := map[string]bool{}
		for _, k := range samples {
			if k.kind != kind {
				continue
			}
			v, b := reflect.ValueOf(k), k.append(nil)
			for _, field := range fieldForm.FindAllStringSubmatch(row[3], -1) {
				name := strings.ToLower(field[1])
				part := v.FieldByName(name)
				require.True(t, part.IsValid(), "%v has no field %s", kind, name)
				set[name] = set[name] || !part.IsZero()
				bits, _ := strconv.Atoi(field[2])
				switch {
				case bits > 0:
					require.GreaterOrEqual(t, len(b), bits/8, "%v ends before %s", kind, name)
					whole := append(make([]byte, 8-bits/8), b[:bits/8]...)
					require.Equal(t, part.Uint(), binary.BigEndian.Uint64(whole), "%s of %v", name, kind)
					b = b[bits/8:]
				case name == "tuple":
					tuple, n, err := fabric.ParseTuple(b)
					require.NoError(t, err)
					require.Equal(t, k.tuple, tuple)
					b = b[n:]
				default:
					require.Equal(t, k.payload, b)
					b = nil
				}
			}
			require.Empty(t, b, "%v has more than the page says", kind)
			for i := range v.NumField() {
				name := v.Type().Field(i).Name
				_, known := set[name]
				require.True(t, known || name == "kind" || v.Field(i).IsZero(), "the page has no %s in %v", name, kind)
			}
		}
		for name, set := range set {
			require.True(t, set, "no sample of %v has %s", kind, name)
		}
	}
}
