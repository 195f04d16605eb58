package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// nodeLocal are names, as globs, whose values mean something on one node only.
// They are not forwarded; ranks see their own node's. docs/cli.md lists them.
var nodeLocal = []string{
	"HOSTNAME", "HOST", "SSH_*", "DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_SESSION_*", "DBUS_*", "WAYLAND_DISPLAY",
	"TMUX", "TMUX_PANE", "STY", "WINDOWID", "SHLVL", "_", "OLDPWD", "MAIL", "GPG_AGENT_INFO", "GPG_TTY", "INVOCATION_ID",
	"JOURNAL_STREAM", "TMPDIR",
}

// environRules say what of the user's environment ranks get.
type environRules struct {
	all    bool     // forward everything, said in so many words
	chosen []string // only these; nil unless limited
	limit  bool
	always []string // globs forwarded though they are node-local
	sets   []string // NAME=VALUE for all programs
}

// export obeys -x NAME, -x 'GLOB*' or -x NAME=VALUE.
func (e *environRules) export(v string) error {
	if name, _, ok := strings.Cut(v, "="); ok {
		if name == "" {
			return fmt.Errorf("%q has no name", v)
		}
		e.sets = append(e.sets, v)
		return nil
	}
	if _, err := path.Match(v, ""); err != nil || v == "" {
		return fmt.Errorf("%q is no name and no pattern", v)
	}
	e.always = append(e.always, v)
	return nil
}

// only limits what is forwarded to some names.
func (e *environRules) only(names []string) error {
	if e.limit && len(e.chosen) > 0 && len(names) > 0 {
		return fmt.Errorf("the list of names is given twice")
	}
	e.limit, e.chosen = true, append(e.chosen, names...)
	return nil
}

// slurm obeys --export=ALL, NONE, or a list of names and settings.
func (e *environRules) slurm(v string) error {
	all := false
	for _, w := range strings.Split(v, ",") {
		switch {
		case w == "ALL":
			all = true
		case w == "NONE":
			e.limit = true
		case strings.Contains(w, "="):
			e.sets = append(e.sets, w)
		case w == "":
			return fmt.Errorf("%q has an empty name", v)
		default:
			e.chosen = append(e.chosen, w)
		}
	}
	e.limit = !all
	return nil
}

func validSet(v string) error {
	if name, _, _ := strings.Cut(v, "="); name == "" {
		return fmt.Errorf("a variable has no name")
	}
	return nil
}

// apply returns what of env goes to ranks, and which names are left to the nodes.
func (e *environRules) apply(env, own []string) (forward, drop []string) {
	match := func(globs []string, name string) bool {
		return slices.ContainsFunc(globs, func(g string) bool { ok, _ := path.Match(g, name); return ok })
	}
	for _, entry := range env {
		name, _, ok := strings.Cut(entry, "=")
		switch {
		case !ok || name == "":
		case match(e.always, name), match(e.chosen, name):
			forward = append(forward, entry)
		case e.limit && !e.all, match(nodeLocal, name), strings.HasPrefix(name, "IBRUN_"):
		default:
			forward = append(forward, entry)
		}
	}
	forward = append(append(forward, e.sets...), own...)
	for _, g := range nodeLocal {
		if !slices.Contains(e.always, g) {
			drop = append(drop, g)
		}
	}
	if e.limit {
		// A program without these finds nothing; the node's own are the least.
		drop = append(drop, "PATH", "HOME", "USER", "LOGNAME", "SHELL")
	}
	return forward, drop
}

// knobs are the variables of the user's environment that ibrun itself reads.
var knobs = []string{"IBRUN_TASKS_PER_NODE"}

// strangeKnobs names variables that look like ibrun's and are not read.
func strangeKnobs(env []string) (warnings []string) {
	given := []string{"RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "NODE", "NODES", "HOST", "JOB_ID", "APPNUM", "CAPTURES", "SHIPPED_TO"}
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		short, ours := strings.CutPrefix(name, "IBRUN_")
		if !ours || slices.Contains(knobs, name) || slices.Contains(given, short) || strings.HasPrefix(short, "TEST_") {
			continue
		}
		best := slices.MinFunc(knobs, func(a, b string) int { return distance(name, a) - distance(name, b) })
		warnings = append(warnings, fmt.Sprintf("%s is set and means nothing to ibrun; did you mean %s?", name, best))
	}
	return warnings
}

// splitWords splits a line as a shell does, for blanks, quotes and backslashes;
// nothing is expanded.
func splitWords(line string) (words []string, err error) {
	var word []byte
	in, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote != '\'' && i+1 < len(line):
			i++
			word, in = append(word, line[i]), true
		case quote != 0:
			word = append(word, c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t':
			if in {
				words = append(words, string(word))
			}
			word, in = word[:0], false
		default:
			word, in = append(word, c), true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("%q: a quote is not closed", line)
	}
	if in {
		words = append(words, string(word))
	}
	return words, nil
}
