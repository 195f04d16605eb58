package tree

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func seen(seq, rem time.Duration) Fit {
	return Fit{Cost: Cost{SEQ: seq, REM: rem}, InFlight: 16, Sessions: 40, Most: 40}
}

func TestCostCacheKeepsMedians(t *testing.T) {
	b := ParseCostCache(nil)
	for i := range 40 {
		rem := 100 * time.Millisecond
		if i%3 == 0 {
			rem = time.Minute // a bad day
		}
		require.True(t, b.Note("ssh", "node", seen(20*time.Millisecond, rem)))
	}
	b = ParseCostCache(b.Bytes())
	c, launches, ok := b.Cost("ssh", "node")
	require.True(t, ok)
	require.Equal(t, maxLaunches, launches)
	require.Equal(t, Cost{SEQ: 20 * time.Millisecond, REM: 100 * time.Millisecond}, c)
	_, _, ok = b.Cost("rsh", "node")
	require.False(t, ok)
}

func TestTooFewSessionsAreNotNoted(t *testing.T) {
	b := ParseCostCache(nil)
	f := seen(time.Millisecond, time.Second)
	f.Most = EnoughSessions - 1
	require.False(t, b.Note("ssh", "node", f))
	require.Empty(t, b.Places)
}

func TestCostCacheIsBounded(t *testing.T) {
	b := ParseCostCache(nil)
	for i := range 3 * mostSites {
		b.Note("ssh", strconv.Itoa(i), seen(time.Millisecond, time.Second))
	}
	require.Len(t, b.Places, mostSites)
	_, _, ok := b.Cost("ssh", strconv.Itoa(3*mostSites-1))
	require.True(t, ok, "the newest stays")
}

// Whatever a file holds, there is a cost cache; what is impossible in it does not count.
func TestGarbageIsAnEmptyCostCache(t *testing.T) {
	good := ParseCostCache(nil)
	good.Note("ssh", "node", seen(time.Millisecond, time.Second))
	other := good
	other.Version = 2
	wild := CostCache{Version: costCacheVersion, Places: []Site{{Launcher: "ssh", Site: "node",
		Entries: []Entry{{SEQ: -1, REM: time.Second}, {SEQ: time.Second, REM: 1 << 62}}}}}
	for name, text := range map[string]string{
		"empty": "", "binary": "\x00\xff\x1f", "text": "hello", "array": "[]", "half": string(good.Bytes()[:40]),
		"huge":            strings.Repeat(" ", maxCostCache) + "{}",
		"another version": string(other.Bytes()), "other types": `{"version":1,"places":[{"seen":[{"seq_ns":"x"}]}]}`,
		"impossible": string(wild.Bytes()), "null": `{"version":1,"places":null}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := ParseCostCache([]byte(text))
			require.Empty(t, b.Places)
			require.Equal(t, costCacheVersion, b.Version)
		})
	}
	require.Len(t, ParseCostCache(good.Bytes()).Places, 1)
}

func FuzzParseCostCache(f *testing.F) {
	good := ParseCostCache(nil)
	good.Note("ssh", "node", seen(time.Millisecond, time.Second))
	f.Add(good.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		b := ParseCostCache(text)
		for _, s := range b.Places {
			c, _, ok := b.Cost(s.Launcher, s.Site)
			require.True(t, ok)
			require.Positive(t, c.SEQ)
			require.Positive(t, c.REM)
		}
		require.True(t, json.Valid(b.Bytes()))
	})
}

func TestSiteOf(t *testing.T) {
	for host, want := range map[string]string{"node0042": "node", "a.example.org": "example.org", "10.0.0.7": "10.0.0.",
		"7": "7", "login": "login", "rack3-n12": "rack3-n"} {
		require.Equal(t, want, SiteOf(host))
	}
}
