package spawn

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// launchers are programs that start ranks of their own. More may follow: mpirun.openmpi, mpiexec-4.1.
var launchers = []string{
	"mpirun", "mpiexec", "orterun", "oshrun", "shmemrun", "prterun", "ibrun", "srun", "aprun", "jsrun",
}

// prefixes are programs that run the rest of their command line.
var prefixes = []string{
	"env", "nice", "ionice", "chrt", "nohup", "setsid", "numactl", "taskset", "timeout", "time", "stdbuf", "strace", "perf",
}

func isShell(word string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "ksh", "zsh"}, filepath.Base(word))
}

func isLauncher(word string) bool {
	name := filepath.Base(word)
	if i := strings.IndexAny(name, ".-"); i >= 0 {
		name = name[:i]
	}
	return slices.Contains(launchers, name)
}

// namedLauncher finds a launcher that a command line runs, by a prefix (env mpirun) or in a shell script (sh -c
// 'mpirun ...', bash file, or a file that begins with #!/bin/sh); empty: none. It must be a command there: a script
// that mentions one may be a wrapper of programs of Open MPI, which then would not find each other.
func namedLauncher(path string, argv []string, dir string) string {
	if slices.Contains(prefixes, filepath.Base(path)) {
		if i := slices.IndexFunc(argv, isLauncher); i > 0 {
			return filepath.Base(argv[i])
		}
		return ""
	}
	for line := range strings.Lines(shellScript(path, argv, dir)) {
		if name := lineRuns(line); name != "" {
			return name
		}
	}
	return ""
}

// shellScript is the text that a command line has a shell run; empty: none.
func shellScript(path string, argv []string, dir string) string {
	if !isShell(path) {
		if textOf(path, 2) != "#!" {
			return ""
		}
		text := textOf(path, mostScript)
		first, _, _ := strings.Cut(text, "\n")
		interpreter, found := strings.CutPrefix(first, "#!")
		if found && slices.ContainsFunc(strings.Fields(interpreter), isShell) {
			return text
		}
		return ""
	}
	for i, word := range argv[1:] {
		switch options, short := strings.CutPrefix(word, "-"); {
		case short && strings.HasSuffix(options, "c") && options[0] != '-' && i+2 < len(argv):
			return argv[i+2]
		case short:
		case filepath.IsAbs(word):
			return textOf(word, mostScript)
		default:
			return textOf(filepath.Join(dir, word), mostScript)
		}
	}
	return ""
}

// mostScript is how many bytes of a script are searched.
const mostScript = 64 << 10

// textOf is what a regular file begins with; empty if it cannot be read.
func textOf(path string, most int) string {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return ""
	}
	text, _, _ := beginning(path, most) // what cannot be read runs nothing
	return string(text)
}

// operators end a command of a shell, and another one may begin after them.
const operators = ";&|(){}`"

// leading are words of a shell after which a command follows, as it does after a prefix and NAME=VALUE.
var leading = []string{"then", "do", "else", "elif", "if", "while", "until", "exec", "command", "!"}

// lineRuns finds a launcher where a line of a shell script has a command, with an argument.
func lineRuns(line string) string {
	for _, c := range operators {
		line = strings.ReplaceAll(line, string(c), " "+string(c)+" ")
	}
	words := strings.Fields(line)
	command := true // whether one may begin here
	for i, word := range words {
		word = strings.Trim(word, `"'`)
		switch {
		case strings.HasPrefix(word, "#"):
			return ""
		case strings.ContainsAny(word, operators):
			command = true
		case !command || strings.Contains(word, "="):
		case slices.Contains(leading, word) || slices.Contains(prefixes, filepath.Base(word)):
		case isLauncher(word) && i+1 < len(words) && !strings.ContainsAny(words[i+1], operators):
			return filepath.Base(word)
		default:
			command = false
		}
	}
	return ""
}
