package hostlist

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInline(t *testing.T) {
	for text, want := range map[string][]Entry{
		"a":                {{Prefix: "a", Count: 1}},
		"a:2,b":            {{Prefix: "a", Count: 1, Slots: 2}, {Prefix: "b", Count: 1}},
		"u.x@a:2:mlx5_0:1": {{Prefix: "a", Count: 1, Slots: 2, User: "u.x", HCA: "mlx5_0:1"}},
		"n[01-16,20]":      {{Prefix: "n", Width: 2, Lo: 1, Count: 16}, {Prefix: "n", Width: 2, Lo: 20, Count: 1}},
		"n[1-3]-ib:4":      {{Prefix: "n", Suffix: "-ib", Width: 1, Lo: 1, Count: 3, Slots: 4}},
		"r[1-2]n[08-10]-ib:2": {
			{Prefix: "r1n", Suffix: "-ib", Width: 2, Lo: 8, Count: 3, Slots: 2},
			{Prefix: "r2n", Suffix: "-ib", Width: 2, Lo: 8, Count: 3, Slots: 2},
		},
		"r[1,3]c[0-1]n[5,9]": {
			{Prefix: "r1c0n", Width: 1, Lo: 5, Count: 1}, {Prefix: "r1c0n", Width: 1, Lo: 9, Count: 1},
			{Prefix: "r1c1n", Width: 1, Lo: 5, Count: 1}, {Prefix: "r1c1n", Width: 1, Lo: 9, Count: 1},
			{Prefix: "r3c0n", Width: 1, Lo: 5, Count: 1}, {Prefix: "r3c0n", Width: 1, Lo: 9, Count: 1},
			{Prefix: "r3c1n", Width: 1, Lo: 5, Count: 1}, {Prefix: "r3c1n", Width: 1, Lo: 9, Count: 1},
		},
		"10.0.0.1":             {{Prefix: "10.0.0.1", Count: 1}},
		"[fe80::1]:4,::1":      {{Prefix: "fe80::1", Count: 1, Slots: 4}, {Prefix: "::1", Count: 1}},
		"2001:db8:0:0:0:0:0:1": {{Prefix: "2001:db8:0:0:0:0:0:1", Count: 1}},
	} {
		got, err := Inline(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestInlineRefused(t *testing.T) {
	for text, why := range map[string]string{
		"":                       "empty item",
		"a,,b":                   "empty item",
		"-oProxyCommand=x":       "dash",
		"a;b":                    "character",
		"$(x)":                   "character",
		"a b":                    "character",
		"../x":                   "an empty part",
		"a/b":                    "character",
		"a\x01":                  "character",
		"a\n":                    "",
		strings.Repeat("a", 256): "255",
		"a:0":                    "slots",
		"a:-1":                   "slots",
		"a:9223372036854775808":  "slots",
		"-l@a":                   "login name",
		"a$b@c":                  "login name",
		"n[5-1]":                 "range",
		"n[1-9999999999]":        "more than",
		"n[1-2":                  "pairs of brackets",
		"n1-2]":                  "pairs of brackets",
		"n[1-2]x]":               "pairs of brackets",
		"n[[1-2]]":               "pairs of brackets",
		"n[1-9][1-1000000]":      "more than",
		"n[1-70000]x[1]":         "more than",
		"a[]":                    "range of numbers",
		"n[a-b]":                 "range of numbers",
		"a:1:mlx5;0":             "HCA",
	} {
		_, err := Inline(text)
		if why == "" {
			require.NoError(t, err, "%q", text) // blanks around an item are harmless
			continue
		}
		require.ErrorContains(t, err, why, "%q", text)
	}
}

func TestFile(t *testing.T) {
	got,
		err := File("h",
		[]byte("\xef\xbb\xbf# all\r\na\r\nb:4\n\nc slots=2 max_slots=8 # x\nu@d\ne:4:mlx5_0:1\ngroup main ++shell "+
			"ssh\nhost f ++cpus 3\nn[1-2]"))
	require.NoError(t, err)
	require.Equal(t, []Entry{
		{Prefix: "a", Count: 1}, {Prefix: "b", Count: 1, Slots: 4}, {Prefix: "c", Count: 1, Slots: 2},
		{Prefix: "d", Count: 1, User: "u"},
		{Prefix: "e", Count: 1, Slots: 4, HCA: "mlx5_0:1"}, {Prefix: "f", Count: 1, Slots: 3}, {Prefix: "n", Width: 1,
			Lo: 1, Count: 2},
	}, got)
}

func TestFileRefused(t *testing.T) {
	for content, why := range map[string]string{
		"":                 "no host in it",
		"# nothing\n":      "no host in it",
		"a\nb\x00c\n":      "h:2: binary data",
		"a\nb;c\n":         "h:2: invalid host",
		"a slots=0":        "h:1: invalid slots",
		"a\n\nb whatever":  "h:3: invalid \"whatever\"",
		"host a ++cpus":    "no value",
		"\xff\xfe\x41\x42": "binary data",
	} {
		_, err := File("h", []byte(content))
		require.ErrorContains(t, err, why, "%q", content)
	}
	_, err := File("h", make([]byte, MaxFile+1))
	require.ErrorContains(t, err, "MiB")
}

func TestNames(t *testing.T) {
	got, err := Names("n[1-2],x-ib,r1[07]")
	require.NoError(t, err)
	require.Equal(t, []Entry{
		{Prefix: "n", Width: 1, Lo: 1, Count: 2}, {Prefix: "x-ib", Count: 1}, {Prefix: "r1", Width: 2, Lo: 7, Count: 1},
	}, got)
	for text, why := range map[string]string{
		"": "the name is empty", "a,": "the name is empty", "a:2": "", "u@a": "character", "a b": "character",
		"a[1-1000000],b[1-1000000]": "more than",
	} {
		_, err := Names(text)
		if why == "" {
			require.NoError(t, err, text) // an address of IPv6 has colons
			continue
		}
		require.ErrorContains(t, err, why, text)
	}
	_, err = Names("n[" + strings.Repeat("x", 1000) + "]")
	require.Less(t, len(err.Error()), 300)
}

// whatever passes is a name that no shell and no launcher takes for another thing.
func check(t *testing.T, entries []Entry) {
	for _, e := range entries {
		name := e.Prefix + strings.Repeat("0", e.Width) + e.Suffix
		require.NoError(t, ValidName(name))
		require.Positive(t, e.Count)
		require.LessOrEqual(t, e.Count, uint32(MaxHosts))
	}
}

func FuzzInline(f *testing.F) {
	for _, s := range []string{"a:2,b", "n[01-16,20]", "u@a:4:mlx5_0:1", "[fe80::1]:4", "-o", "a;b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if e, err := Inline(s); err == nil {
			check(t, e)
		}
	})
}

func FuzzFile(f *testing.F) {
	for _, s := range []string{"a\nb slots=2\n", "\xef\xbb\xbfhost a ++cpus 2\r\n", "group main\n", "\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := File("h", b); err == nil {
			check(t, e)
		}
	})
}

func TestHostNamesArePlain(t *testing.T) {
	for _, name := range []string{
		"n1\x9b", "n1\u009b", "n1\u202e", "n1\x1b[2J", "n1\nn2", "ｎ1", "-oProxyCommand=x", "a@-b", "n1:2:mlx\x9b",
	} {
		_, err := Inline(name)
		require.Error(t, err, "%q", name)
	}
}
