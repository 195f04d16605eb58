package plain_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"ibrun/internal/plain"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"node0001: no such file": "node0001: no such file",
		"ümlaut, 漢字, עברית, €, \u00a0, tab\t": "ümlaut, 漢字, עברית, €, \u00a0, tab\t",
		"a replacement \ufffd is a character": "a replacement \ufffd is a character",
		"\x1b]0;title\x07":                    `\x1b]0;title\x07`,
		"two\r\nlines\u2028more":              `two\x0d\x0alines\u2028more`,
		"\x7f\x00\b":                          `\x7f\x00\x08`,
		// the control of one byte that 8-bit terminals obey
		"\x9b2J":                   `\x9b2J`,
		"\u009b2J":                 `\u009b2J`,             // the same in UTF-8
		"Л\x9b":                    `Л\x9b`,                // 0xd0 0x9b is a letter, and a second 0x9b is none
		"\xc0\x9b\xe0\x82\x9b":     `\xc0\x9b\xe0\x82\x9b`, // the same in longer forms, which are not UTF-8
		"exe\u202egpj.":            `exe\u202egpj.`,
		"\u2066\u200b\ufeff\u00ad": `\u2066\u200b\ufeff\u00ad`,
		"\U000e0041":               `\U000e0041`,
		"\xed\xa0\x80":             `\xed\xa0\x80`, // half of a surrogate pair
	} {
		require.Equal(t, want, plain.Text(in), "%q", in)
	}
}

// Wherever a program's output is cut, the same is shown.
func TestOutput(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ümlaut €\t\r\b\n":  "plain, ümlaut €\t\r\b\n",
		"\x1b[2J\x00\x7f\f":        `\x1b[2J\x00\x7f\x0c`,
		"\u009b2J":                 `\u009b2J`,
		"à\x9b2J":                  `à\x9b2J`,
		"\xc3\x9b":                 "Û",
		"\xc3\x1b\x9b":             `\xc3\x1b\x9b`,
		"\xe2\x82":                 `\xe2\x82`,
		"\xf0\x9f\x98":             `\xf0\x9f\x98`,
		"\xff\xfe\xf8\x88\x80\x9b": `\xff\xfe\xf8\x88\x80\x9b`,
		"Â\u00a0😀":                 "Â\u00a0😀",
		"\u202eevil\u2069":         `\u202eevil\u2069`,
		"می\u200cخواهم \u200f👩\u200d🔬": "می\u200cخواهم \u200f👩\u200d🔬", // joiners and marks belong to languages
	} {
		for cut := range len(in) + 1 {
			var got []byte
			first, rest := plain.Output([]byte(in[:cut]))
			got = append(got, first...)
			second, rest := plain.Output(append(rest, in[cut:]...))
			got = append(append(got, second...), plain.Rest(rest)...)
			require.Equal(t, want, string(got), "%q cut at %d", in, cut)
		}
	}
}

func TestJSON(t *testing.T) {
	in := map[string]string{"host": "n1\u009b2J\x7f\u202e\x1b", "smile": "😀\U000e0041", "raw": "\x9b"}
	var b bytes.Buffer
	require.NoError(t, plain.WriteJSON(&b, in))
	require.Equal(t, `{"host":"n1\u009b2J\u007f\u202e\u001b","raw":"\ufffd","smile":"😀\udb40\udc41"}`+"\n", b.String())
	var out map[string]string
	require.NoError(t, json.Unmarshal(b.Bytes(), &out))
	in["raw"] = "\ufffd"
	require.Equal(t, in, out)
	require.Error(t, plain.WriteJSON(&b, func() {}))
}

// Nothing that a terminal obeys is left, whatever comes in.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("\x1b\x9b\xc2\x9b\xd0\x9b"), 3)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		cut = min(max(cut, 0), len(b))
		first, rest := plain.Output(b[:cut])
		require.Less(t, len(rest), utf8.UTFMax)
		second, left := plain.Output(append(append([]byte(nil), rest...), b[cut:]...))
		all := append(append(append([]byte(nil), first...), second...), plain.Rest(left)...)
		require.True(t, utf8.Valid(all))
		for _, r := range string(all) {
			require.False(t, r < 0x20 && r != '\t' && r != '\n' && r != '\r' && r != '\b' || r >= 0x7f && r < 0xa0,
				"%q in %q", r, all)
		}
		whole, end := plain.Output(b)
		require.Equal(t, string(all), string(whole)+string(plain.Rest(end)))
		require.True(t, utf8.ValidString(plain.Text(string(b))))
	})
}
