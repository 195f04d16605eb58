//go:build cluster || soak

package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

const started = `^started\n$`

// inputCases returns the cases of the catalogue about command lines, input files, environments and standard streams.
// ibrun must refuse invalid input with code 2.
func inputCases() []entry {
	refused := func(fault, prints string, args ...string) entry {
		return entry{class: "A", fault: fault, args: args, code: []int{2}, prints: prints, out: "^$"}
	}
	hostFile := func(fault, text, prints string) entry {
		e := refused("host file: "+fault, prints, "-f", file, "echo", "started")
		e.file = text
		return e
	}
	on := func(host string) []string { return []string{"-H", host, "echo", "started"} }
	one := func(words ...string) []string { return append([]string{"-H", "node0001", "-n", "1"}, words...) }
	fifo := refused("host file: a FIFO that nobody writes", "nobody writes", "-f", file+".fifo", "true")
	fifo.before = func(s *site) error { return command("mkfifo", filepath.Join(s.dir, "input.fifo")) }
	fifo.after = func(s *site) error { return os.Remove(filepath.Join(s.dir, "input.fifo")) }
	folder := func(s *site) error { return os.MkdirAll(filepath.Join(s.dir, "input.d"), 0o755) }
	directory := refused("host file: a directory", "directory", "-f", file+".d", "true")
	directory.before = folder
	ends := func(fault string, code int, prints string, args ...string) entry {
		return entry{class: "A", fault: fault, args: args, code: []int{code}, prints: prints}
	}
	runs := func(fault, out string, args ...string) entry {
		return entry{class: "A", fault: fault, args: args, code: []int{0}, out: out}
	}
	bom := runs("host file: BOM, CRLF, no last newline", started, "-f", file, "-n", "1", "echo", "started")
	bom.file = "\ufeffnode0001\r\nnode0002"
	aDirectory := ends("program: a directory", 126, "directory", one(file+".d")...)
	aDirectory.before = folder
	plain := ends("program: not executable", 126, "not executable", one(file)...)
	plain.file = "text"
	long := strings.Repeat("x", 120<<10)
	words := []string{"a b", "'\"`", "new\nline", "$(id)", "", "*", "\\", "-x"}
	print := append(one("printf", "<%s>"), words...)
	exact := runs("argv: quotes, newlines, $(), empty words", "", print...)
	exact.check = func(s *site) error {
		return s.printed("<" + strings.Join(words, "><") + ">")
	}
	variable := runs("environment: the same in a variable", "", append([]string{"-genv", "ODD", words[1] + words[2]},
		one("sh", "-c", `printf %s "$ODD"`)...)...)
	variable.check = func(s *site) error { return s.printed(words[1] + words[2]) }
	closed := func(which, redirect string) entry {
		e := runs("closed: "+which, "", one("echo", "started")...)
		e.shell = []string{"sh", "-c", `"$@" ` + redirect, "sh"}
		return e
	}
	cases := []entry{
		hostFile("empty", "", "empty"),
		hostFile("comments only", "# none\n\n", "no host"),
		refused("host file: absent", "no such file", "-f", file+".absent", "true"),
		directory, fifo,
		refused("host file: cannot be read", "/proc/self/mem", "-f", "/proc/self/mem", "true"),
		hostFile("50 MB", strings.Repeat("node0001\n", 6<<20), "MiB"),
		hostFile("binary, NUL", "node0001\nno\x00de\n", "binary"),
		bom,
		hostFile("-oProxyCommand=x", "node0001\n-oProxyCommand=touch /tmp/canary\n", "dash"),
		refused("host: -oProxyCommand=x", "dash", on("-oProxyCommand=touch /tmp/canary")...),
		refused("host: a;b", "character", on("a;b")...),
		refused("host: $(x)", "character", on("$(touch /tmp/canary)")...),
		refused("host: a b", "character", on("a b")...),
		refused("host: ../x", "empty part", on("../x")...),
		refused("host: control bytes", "invalid host", on("a\x1b[31m")...),
		refused("host: 256 characters", "255", on(strings.Repeat("a", 256))...),
		refused("slots: 0", "slots", on("node0001:0")...),
		refused("slots: -1", "slots", on("node0001:-1")...),
		refused("slots: 2^63", "slots", on("node0001:9223372036854775808")...),
		refused("-n 0", "-n", "-H", "node0001", "-n", "0", "true"),
		refused("-n 99999999", "99999999", "-H", "node0001", "-n", "99999999", "true"),
		ends("program: missing", 127, "not found", one("no-such-program")...),
		aDirectory, plain,
		refused("working directory: absent", "working directory", append([]string{"-wdir", "/nonexistent"},
			one("true")...)...),
		refused("option: unknown", "did you mean", append([]string{"--hsot", "b"}, one("true")...)...),
		refused("option: contradictions", "--eager", append([]string{"--lazy=on", "--eager"}, one("true")...)...),
		refused("no program", "no program", "-H", "node0001"),
		exact,
		runs("argv: 120 KiB in one word", "^122880\n$", one("sh", "-c", "printf %s $0 | wc -c", long)...),
		variable,
		closed("standard input", "<&-"), closed("standard error", "2>&-"),
		closed("standard input and error", "<&- 2>&-"),
	}
	for i := range cases {
		e := &cases[i]
		if check := e.check; check == nil && e.code[0] == 2 {
			e.check = func(s *site) error {
				if _, err := os.Stat("/tmp/canary"); err == nil {
					return errors.New("a host was run as a command")
				}
				return nil
			}
		}
	}
	return cases
}
