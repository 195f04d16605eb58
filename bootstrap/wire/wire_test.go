package wire

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/frame/frametest"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// FuzzParse requires that each message has only one encoded form: a frame that can be decoded is encoded to the same
// bytes again.
func FuzzParse(f *testing.F) { suite().Fuzz(f) }

// view returns the elements of v if it is a list, and otherwise the result of showOpaque.
func view(v any) any {
	switch v := v.(type) {
	case frame.Values:
		return slices.Collect(v.All())
	case rankwire.SlotSpans:
		return frametest.Elements(v)
	case rankwire.Strings:
		return frametest.Elements(v)
	case rankwire.Parcels:
		return frametest.Elements(v)
	case rankwire.Pairs:
		return frametest.Elements(v)
	case rankwire.Commands:
		return frametest.Elements(v)
	case rankwire.LocalRanks:
		return frametest.Elements(v)
	case rankwire.RankGroups:
		return frametest.Elements(v)
	case rankwire.RankRows:
		return frametest.Elements(v)
	case rankwire.FailedDaemons:
		return frametest.Elements(v)
	case NodeSpans:
		return frametest.Elements(v)
	case Endings:
		return frametest.Elements(v)
	case Placements:
		return frametest.Elements(v)
	case Timings:
		return frametest.Elements(v)
	case MemberSpans:
		return frametest.Elements(v)
	}
	return showOpaque(v)
}

func TestEveryKindRoundTrips(t *testing.T) { suite().RoundTrips(t) }

func TestDecodingIsStrict(t *testing.T) { suite().Strict(t) }

func TestReaderKnowsWhoSends(t *testing.T) { suite().Senders(t) }

func TestFieldsAreApart(t *testing.T) {
	tried := suite().Fields(t)
	require.Greater(t, tried[KindLaunch], 50)
	require.Greater(t, tried[KindFault], 8)
}

func TestProtocol(t *testing.T) {
	suite().Protocol(t, "../../docs/dev/protocol.md", map[string]int{"job.Moments": int(job.Moments), "job.Counts": int(job.Counts)})
}

// TestNumbersAreApart checks that a number has the same name in the vocabularies of wire and of rankwire.
func TestNumbersAreApart(t *testing.T) {
	for number, format := range rankwire.Vocabulary {
		if ours := Vocabulary.Format(frame.Kind(number)); ours.Parse != nil && format.Parse != nil {
			require.Equal(t, format.Name, ours.Name)
		}
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	m := samples()[0].(Launch)
	m.Job.Secret = [32]byte([]byte(strings.Repeat("s3cr", 8)))
	require.NotContains(t, m.String(), "s3cr")
	require.NotContains(t, m.String(), "A=b")
}

func TestRefused(t *testing.T) {
	encoded := func(m frame.Message) []byte { return frame.Append(nil, m)[4:] }
	first, second := job.Epoch(1, 1), job.Epoch(2, 1)
	part := func(first job.NodeIndex) job.Part {
		return job.Part{First: first, Nodes: job.NewNodes(0, []job.Run{{Prefix: "a", Count: 1, Ranks: 1}})}
	}
	for name, c := range map[string]struct {
		frame []byte
		err   error
	}{
		"a rank's kind":     {[]byte{byte(rankwire.KindHello)}, frame.ErrKind},
		"short":             {[]byte{byte(KindReady), 1}, frame.ErrShort},
		"trailing":          {[]byte{byte(KindHeartbeat), 0}, frame.ErrTrailing},
		"long form of 1":    {[]byte{byte(KindGrant), 0x81, 0x00}, frame.ErrCanonical},
		"33 bits":           {[]byte{byte(KindGrant), 0x80, 0x80, 0x80, 0x80, 0x10}, frame.ErrRange},
		"stream 3":          {[]byte{byte(KindOutput), 0, 3, 1, 'x'}, frame.ErrRange},
		"empty output":      {[]byte{byte(KindOutput), 0, 1, 0}, frame.ErrRange},
		"empty input":       {[]byte{byte(KindStdin), 0, 0, 0, 0}, frame.ErrRange},
		"slots of nothing":  {[]byte{byte(KindMembership), 0, 1, 3, 0}, frame.ErrCanonical},
		"slots that touch":  {[]byte{byte(KindMembership), 0, 2, 3, 1, 4, 1}, frame.ErrCanonical},
		"slots backwards":   {[]byte{byte(KindMembership), 0, 2, 3, 1, 1, 1}, frame.ErrCanonical},
		"no nodes returned": {[]byte{byte(KindReturn), 0, 0, 0, 0, 0, 0}, frame.ErrRange},
		"boolean 2":         {[]byte{byte(KindStdin), 0, 2, 0, 0}, frame.ErrCanonical},
		"signal 65":         {[]byte{byte(KindSignal), 65}, frame.ErrRange},
		"a node of 65,536 members": {
			[]byte{byte(KindSession), 0, 1, 0, 1, 0x80, 0x80, 4, 0, 1, 1, 'a', 0, 0}, frame.ErrRange,
		},
		"bulk fetch of fence 0":  {[]byte{byte(KindBulkFetch), 0}, frame.ErrRange},
		"table fetch of round 0": {[]byte{byte(KindTableFetch), 0}, frame.ErrRange},
		"table of round 0":       {[]byte{byte(KindTableValues), 0, 0}, frame.ErrRange},
		"bulk values of fence 0": {[]byte{byte(KindBulkValues), 0, 0}, frame.ErrRange},
		"a billion runs":         {[]byte{byte(KindExit), 0x80, 0x94, 0xeb, 0xdc, 0x03, 0, 0, 0}, frame.ErrShort},
		"floors backwards":       {encoded(Enter{Floors: []RankFloor{{6, first}, {5, first}}}), frame.ErrRange},
		"floor of no restart":    {encoded(Enter{Floors: []RankFloor{{6, 1}}}), frame.ErrRange},
		"floor below all":        {encoded(Standing{Everyone: second, Floors: []RankFloor{{6, first}}}), frame.ErrRange},
		"parts that touch":       {encoded(Below{Parts: []job.Part{part(0), part(1)}}), frame.ErrCanonical},
		"head of another part":   {encoded(Below{Head: 3, Parts: []job.Part{part(0), part(2)}}), frame.ErrRange},
		"long block":             {encoded(Blocks{frame.NewValues(make([]byte, rankwire.MaxValue+1))}), frame.ErrRange},
		"output beyond frame":    {[]byte{byte(KindOutput), 0, 1, 100, 'x'}, frame.ErrShort},
	} {
		_, err := Vocabulary.Parse(c.frame)
		require.ErrorIs(t, err, c.err, name)
	}
}
