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
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/skip"
	"ibrun/test/vcluster/cluster"
)

const (
	refusedIn = time.Second      // before any session is opened
	doneIn    = 35 * time.Second // an unknown host, a session without an answer
)

// TestInputs gives ibrun malformed inputs, half of which must be refused at once.
func TestInputs(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Because(t, cluster.ErrNotRoot.Error())
	}
	t.Parallel()
	s, err := newSite(t)
	require.NoError(t, err)
	defer s.close()
	options := optionTable(t)
	rng := rand.New(rand.NewPCG(*seed, 0))
	deck := refusedInputs(options)
	rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	refused := min(len(deck), *inputs/2)
	deck = deck[:refused]
	for len(deck) < *inputs {
		deck = append(deck, drawInput(rng, options))
	}
	results := &report{}
	before := s.sessions()
	s.feed(t, results, deck[:refused], 0)
	require.Equal(t, before, s.sessions(), "sessions that refused inputs opened")
	s.feed(t, results, deck[refused:], refused)
	var left []process
	s.until(61*time.Second+slack, func() bool { left = s.processes(); return len(left) == 0 })
	require.Empty(t, left)
	require.Empty(t, s.litter())
	results.print()
}

// sessions is what the servers of all nodes have said.
func (s *site) sessions() (text string) {
	for _, node := range s.Nodes() {
		log, _ := os.ReadFile(s.Log(node))
		text += node + ":\n" + string(log)
	}
	return text
}

// feed gives inputs to ibrun, four at a time.
func (s *site) feed(t *testing.T, results *report, deck []input, first int) {
	var work sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i, in := range deck {
		if *only >= 0 && *only != first+i {
			continue
		}
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			r := &round{kind: "inputs", index: first + i, fault: fault{class: "input: " + in.class}}
			results.add(t, r, s.taste(in, first+i))
		})
	}
	work.Wait()
}

// taste runs ibrun with one input.
func (s *site) taste(in input, index int) (o outcome) {
	dir := filepath.Join(s.Shared(), fmt.Sprint("input", index))
	name := filepath.Join(dir, "file")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(name, in.file, 0o644)); err != nil {
		return outcome{wrong: []string{err.Error()}}
	}
	ctx, cancel := context.WithTimeout(s.ctx, doneIn+slack)
	defer cancel()
	cmd := s.Command(ctx, in.line(name)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(s.dir, "cache"))
	cmd.Env = append(cmd.Env, in.env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, 5*time.Second
	began := time.Now()
	err := cmd.Run()
	o.ended = time.Since(began)
	o.took = o.ended
	o.happened, o.output = in.String(), fmt.Sprintf("%.1000s%.3000s", out.String(), errs.String())
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		o.wrong = append(o.wrong, err.Error())
		return o
	}
	o.wrong = in.judge(cmd.ProcessState.ExitCode(), o.ended, out.String(), errs.String())
	return o
}

// line is the whole command.
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

// judge holds the end of ibrun against docs/cli.md.
func (in input) judge(code int, took time.Duration, out, errs string) (wrong []string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	most, codes := doneIn, []int{0, 1, 2, 124, 125, 126, 127, 141}
	if in.refused {
		most, codes = refusedIn, []int{2}
	}
	if !slices.Contains(codes, code) {
		fail("exit code %d, not one of %v", code, codes)
	}
	if took > most+slack {
		fail("it took %v", took)
	}
	if traces.MatchString(errs) || traces.MatchString(out) {
		fail("it crashed")
	}
	mute := strings.Contains(in.redirect, "2>")
	if code != 0 && !mute && !cause.MatchString(errs) {
		fail("nothing says why")
	}
	if code == 2 && strings.Contains(out, "started") {
		fail("ranks were started")
	}
	return wrong
}
