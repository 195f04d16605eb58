package peer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// CutBundled does not read beyond the end of a malformed bundle.
func TestBadBundle(t *testing.T) {
	for b, want := range map[string][]string{
		"": nil, "\x00": nil, "\x00\x02a": nil, "\x00\x01a\xff\xff": {"a"}, "\x00\x01a\x00": {"a"},
		string(AppendBundled(AppendBundled(nil, nil), []byte("bc"))): {"", "bc"},
	} {
		var got []string
		for m, rest, ok := CutBundled([]byte(b)); ok; m, rest, ok = CutBundled(rest) {
			got = append(got, string(m))
		}
		require.Equal(t, want, got, "%q", b)
		require.Equal(t, len(want) > 0, bundledBytes([]byte(b)) > 0, "%q", b)
	}
}
