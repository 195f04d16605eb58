//go:build cluster || soak

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// playInputs gives ibrun malformed inputs. Half of them must be refused before any session is opened.
func playInputs(t *testing.T, count int) {
	s := newSite(t, configWithProgram(2))
	options := optionTable(t)
	rng := rand.New(rand.NewPCG(*seed, 0))
	refused := refusedInputs(options)
	rng.Shuffle(len(refused), func(i, j int) { refused[i], refused[j] = refused[j], refused[i] })
	refused = refused[:min(len(refused), count/2)]
	before := s.sessions()
	s.feed(t, refused)
	require.Equal(t, before, s.sessions(), "refused inputs may open no sessions")
	var drawn []input
	for len(refused)+len(drawn) < count {
		drawn = append(drawn, drawInput(rng, options))
	}
	s.feed(t, drawn)
	var left []process
	require.True(t, s.until(func() bool { left = s.processes(); return len(left) == 0 }), "%v", left)
	require.Empty(t, s.litter())
}

// sessions returns the logs of the servers of all nodes.
func (s *site) sessions() (text string) {
	for _, node := range s.Nodes() {
		log, _ := os.ReadFile(s.Log(node))
		text += node + ":\n" + string(log)
	}
	return text
}

// feed gives inputs to ibrun, four at a time.
func (s *site) feed(t *testing.T, inputs []input) {
	var work sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, in := range inputs {
		dir, err := os.MkdirTemp(s.Shared(), "input")
		require.NoError(t, err)
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			wrong, output := s.taste(in, dir)
			report(t, in, wrong, output)
		})
	}
	work.Wait()
}

// taste runs ibrun with one input, in a directory of its own.
func (s *site) taste(in input, dir string) (wrong []string, output string) {
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, in.file, 0o644); err != nil {
		return []string{err.Error()}, ""
	}
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	cmd := s.Command(ctx, in.line(name)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(s.dir, "cache"))
	cmd.Env = append(cmd.Env, in.env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, patience
	err := cmd.Run()
	output = fmt.Sprintf("%.1000s%.3000s", out.String(), errs.String())
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return []string{err.Error()}, output
	}
	return in.judge(cmd.ProcessState.ExitCode(), out.String(), errs.String()), output
}

// line returns the command line of ibrun with the words of the input, in which FILE is replaced by name. If in.whole is
// not set, it adds hosts and a program. If in.redirect is set, a shell with these redirections runs ibrun.
func (in input) line(name string) (line []string) {
	if in.redirect != "" {
		line = []string{"/bin/sh", "-c", `"$@" ` + in.redirect, "sh"}
	}
	line = append(line, program)
	for _, w := range in.words {
		if w == file {
			w = name
		}
		line = append(line, w)
	}
	if in.whole {
		return line
	}
	if !slices.ContainsFunc(in.words, func(w string) bool { return w == "-f" || w == "--hosts" }) {
		line = append(line, "--hosts", "node[0001-0002]")
	}
	return append(line, "echo", "started")
}

var cause = regexp.MustCompile(`(?m)^(\r?ibrun: |usage: |hint: )`)

// judge returns one text for each violated requirement. The exit code must be one that docs/cli.md lists, and 2 if
// in.refused is set. ibrun must not crash, and must name the cause of a failure on standard error.
func (in input) judge(code int, out, errs string) (wrong []string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	codes := []int{0, 1, 2, 124, 125, 126, 127, 141}
	if in.refused {
		codes = []int{2}
	}
	if !slices.Contains(codes, code) {
		fail("exit code %d, not one of %v", code, codes)
	}
	if traces.MatchString(errs) || traces.MatchString(out) {
		fail("it crashed")
	}
	mute := strings.Contains(in.redirect, "2>")
	if code != 0 && !mute && !cause.MatchString(errs) {
		fail("no message gives the cause")
	}
	if code == 2 && strings.Contains(out, "started") {
		fail("ranks were started")
	}
	return wrong
}
