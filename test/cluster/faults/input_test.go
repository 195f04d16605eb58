//go:build cluster || soak

package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// input is a command line with its environment and file, malformed in one way.
type input struct {
	class    string
	words    []string
	env      []string
	redirect string // redirections of standard streams in the syntax of sh, or ""
	file     []byte // content of the file whose path replaces the word FILE
	refused  bool   // ibrun must refuse the input with code 2; if false, it may also accept it, or fail later
	whole    bool   // no hosts and no program are added to the words
}

func (in input) String() string {
	return fmt.Sprintf("%.300q %.100q %s %.200q", in.words, in.env, in.redirect, in.file)
}

// spellings holds the names of all options, by the kind of value that docs/cli.md gives them.
type spellings struct{ number, choice, other, none []string }

var (
	cell       = regexp.MustCompile("`([-+][^`]+)`([^`]*)")
	spelled    = regexp.MustCompile(`^(--?|\+\+)[A-Za-z][A-Za-z-]*$`)
	takesCount = regexp.MustCompile(`^ [NMTK]\b( \*|,| or.*)?\s*$`)
	takesWord  = regexp.MustCompile(`^ [a-z]+[, ]`)
	takesOther = regexp.MustCompile(`^ [A-Z]`)
)

// optionTable reads the table of options in docs/cli.md. A test of cmd/ibrun/internal/cli keeps it complete.
func optionTable(t *testing.T) (k spellings) {
	text, err := os.ReadFile("../../../docs/cli.md")
	require.NoError(t, err)
	table, _, _ := strings.Cut(string(text), "### Without effect")
	for line := range strings.Lines(table) {
		row, isRow := strings.CutPrefix(line, "| ")
		first, _, _ := strings.Cut(row, " | ")
		if !isRow {
			continue
		}
		for _, group := range cell.FindAllStringSubmatch(first, -1) {
			for _, name := range strings.Fields(group[1]) {
				switch {
				case !spelled.MatchString(name):
				case takesCount.MatchString(group[2]):
					k.number = append(k.number, name)
				case takesWord.MatchString(group[2]):
					k.choice = append(k.choice, name)
				case takesOther.MatchString(group[2]):
					k.other = append(k.other, name)
				default:
					k.none = append(k.none, name)
				}
			}
		}
	}
	for _, names := range [][]string{k.number, k.choice, k.other, k.none} {
		require.Greater(t, len(names), 10, "%+v", k)
	}
	return k
}

// oddValues holds unusual option values, such as control characters, shell commands and very long texts. An option may
// accept or refuse them.
var oddValues = []string{"", " ", "-1", "0", "1e9", "99999999999999999999", "0x", "NaN", "a b", "\xff\xfe", "%",
	"%n%s%d", "..", "../x", "/dev/null/x", "/proc/nowhere", "/dev/full", "$(touch x)", "`id`", ";", "[", "]", "a[1-",
	"a[1-99999999]", ",", ":", "::", "=", "A=", "=A", "\n", "\t", "\x1b[2J", "-oProxyCommand=touch x", "node0001:0",
	"node0001:-1", "[::1", "ünï", "\u202e", strings.Repeat("a", 300), strings.Repeat("1,", 40000)}

// badHosts holds invalid lists of hosts.
var badHosts = []string{"", " ", ",", "a,,b", "a;b", "$(x)", "`x`", "a b", "../x", "-oProxyCommand=x", "a\x01", "a\nb",
	"a:0", "a:-1", "a:9223372036854775808", "a[1-", "a[2-1]", "a[x]", "a[1-99999999]", "[", "]", "@", "u@", "@h", "a'",
	"\xff", strings.Repeat("a", 256), strings.Repeat("[0-9]", 12)}

// badNumbers holds texts that are invalid both as a number and as a time.
var badNumbers = []string{"", "x", "-1", "1.5.2", "99999999999999999999", "0x1g", "5 5", "\xff"}

// refusedInputs returns invalid inputs for the options k. ibrun must refuse each of them with code 2 before it opens a
// session.
func refusedInputs(k spellings) (all []input) {
	add := func(in input) { in.refused = true; all = append(all, in) }
	for _, name := range k.number {
		for _, v := range badNumbers {
			add(input{class: "number", words: []string{name, v}})
		}
	}
	for _, name := range k.choice {
		for _, v := range []string{"", "moon", " ", "%s"} {
			add(input{class: "choice", words: []string{name, v}})
		}
	}
	for _, name := range slices.Concat(k.number, k.choice, k.other) {
		add(input{class: "value missing", words: []string{"true", ":", name}, whole: true})
	}
	for _, name := range slices.Concat(k.number, k.choice, k.other, k.none) {
		if strings.HasPrefix(name, "--") {
			add(input{class: "unknown option", words: []string{name + "q", "1"}})
		}
	}
	for _, v := range badHosts {
		add(input{class: "hosts", words: []string{"--hosts", v}})
		add(input{class: "hosts", words: []string{"--hosts", "node0001", "--exclude", v}})
		if strings.TrimSpace(v) != "" {
			add(input{class: "host file", words: []string{"-f", file}, file: []byte("node0001\n" + v + " x y z\n")})
		}
	}
	for _, text := range []string{"", "\n\n", "\x00", "node0001\x00\n", "node0001 slots=0\n", "node0001 slots=x\n",
		strings.Repeat("a", 1<<20), strings.Repeat("\xff\x00", 1<<16)} {
		add(input{class: "host file", words: []string{"-f", file}, file: []byte(text)})
	}
	for _, name := range []string{"/nowhere", "/", "/dev/null", "/dev/full", "/proc/self/mem", ""} {
		for _, option := range []string{"-f", "--rankfile", "-configfile"} {
			add(input{class: "file", words: []string{option, name}})
		}
	}
	for _, v := range []string{"0", "x", "-1", "99999999999999999999", " "} {
		add(input{class: "environment", env: []string{"IBRUN_TASKS_PER_NODE=" + v}})
		add(input{class: "environment", env: []string{"MPIEXEC_TIMEOUT=x" + v}})
	}
	return all
}

// validFiles maps each option that takes a file to a valid content of that file. drawInput overwrites random bytes of a
// copy, to test ibrun with files that are almost valid.
var validFiles = map[string]string{
	"-f":           "node0001 slots=2\nnode[0002-0003]:1 # two\nroot@node0004\n",
	"--rankfile":   "rank 0=node0001 slot=0:0\nrank 1=node0002 slot=1\n",
	"-configfile":  "-n 1 -env A 'b c' echo started\n-n 1 echo \"started\" # again\n",
	"--multi-prog": "0 echo started %t\n1-2,3 echo started %o\n* echo started\n",
}

// drawInput draws an input that may be valid.
func drawInput(rng *rand.Rand, k spellings) input {
	valued := slices.Concat(k.number, k.choice, k.other)
	switch rng.IntN(6) {
	case 0, 1, 2:
		return input{class: "any value", words: []string{pick(rng, valued...), pick(rng, oddValues...)}}
	case 3:
		option := pick(rng, "-f", "--rankfile", "-configfile", "--multi-prog")
		text := []byte(validFiles[option])
		for range 1 + rng.IntN(4) {
			text[rng.IntN(len(text))] = pick(rng, []byte("\x00\n\r\t '\"\\[]:,=#*%-0\xff")...)
		}
		words := []string{option, file}
		if option == "--multi-prog" {
			words = []string{"-n", "4", option, file}
		}
		return input{class: "damaged file", words: words, file: text, whole: option != "-f" && option != "--rankfile"}
	case 4:
		var words []string
		for range 1 + rng.IntN(6) {
			name := pick(rng, slices.Concat(valued, k.none)...)
			words = append(words, pick(rng, name, name, pick(rng, oddValues...), ":", "--", "2", "echo"))
		}
		return input{class: "words", words: words, whole: rng.IntN(2) == 0}
	}
	in := input{class: "streams and environment"}
	in.redirect = pick(rng, "<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full", "</",
		"<&1", ">/dev/full 2>&1", "| head -c 0", "")
	in.env = []string{pick(rng, "HOME=/nowhere", "PATH=", "TMPDIR=/nowhere", "XDG_CACHE_HOME=/dev/null", "IBRUN_FD=77",
		"PMI_FD=3", "GOMAXPROCS=x", "GODEBUG=x=y", "=", "IBRUN_JOB_ID=\xff", "TERM=\x1b", "LANG=\xff",
		"HYDRA_HOST_FILE=/dev/full", "SSH_AUTH_SOCK=/dev/null")}
	return in
}
