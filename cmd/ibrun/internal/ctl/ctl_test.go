package ctl

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/control"
)

func TestParse(t *testing.T) {
	five := int32(5)
	for line, want := range map[string]request{
		"":       {verb: "list", interval: 2 * time.Second, ask: control.Request{Rows: 1024}},
		"status": {verb: "status", interval: 2 * time.Second, ask: control.Request{Verb: "look", Rows: 1024}},
		"top --once --interval=0.5 --rows 7 -j ab": {verb: "top", job: "ab", once: true,
			interval: 500 * time.Millisecond, ask: control.Request{Verb: "look", Rows: 7}},
		"ccs hi": {verb: "ccs", interval: 2 * time.Second, ask: control.Request{Verb: "ccs", Handler: "hi"}},
		"ccs ab hi --pe 5": {verb: "ccs", job: "ab", interval: 2 * time.Second,
			ask: control.Request{Verb: "ccs", Handler: "hi", PE: &five}},
		"signal USR1 --ranks 0-3": {verb: "signal", interval: 2 * time.Second,
			ask: control.Request{Verb: "signal", Signal: 10, Ranks: "0-3", Rows: 1024}},
		"stop --json": {verb: "stop", json: true, interval: 2 * time.Second,
			ask: control.Request{Verb: "signal", Signal: 19, Rows: 1024}},
		"grow n[9-12],x:4": {verb: "grow", interval: 2 * time.Second,
			ask: control.Request{Verb: "grow", Hosts: "n[9-12],x:4"}},
		"shrink 4": {verb: "shrink", interval: 2 * time.Second, ask: control.Request{Verb: "shrink", Nodes: 4}},
	} {
		got, err := parse(strings.Fields(line))
		require.NoError(t, err, line)
		require.Equal(t, want, got, line)
	}
	for line, why := range map[string]string{
		"hello": "knows no", "signal": "needs one signal", "signal X": "no signal X", "signal 65": "no signal 65",
		"status --job": "needs a value", "status --rows x": "not a number", "top --interval 0": "0.1 to 3600",
		"ccs": "name of one handler", "ccs a b c": "name of one handler", "ccs --job a b c": "name of one handler",
		"ccs hi --pe x": "a number from 0", "ccs hi --pe -1": "a number from 0", "status --pe 0": "only ctl ccs",
		"status now": "what is", "ranks --colour x": "knows no",
		"grow": "one list of hosts", "grow a b": "one list of hosts", "shrink": "a number", "shrink x": "not a number",
		"shrink 0": "not a number", "shrink 5000000000": "not a number",
	} {
		_, err := parse(strings.Fields(line))
		require.ErrorContains(t, err, why, line)
	}
}

// A picture fills the terminal and no more: a longer line would push the first one out.
func TestDraw(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, draw(&out, []string{"abcdef", "x\x1b[2J", "z"}, true, 3, 4))
	require.True(t, strings.HasPrefix(out.String(), home+clear+"abcd"+erase+"\r\nx"), "%q", out.String())
	require.NotContains(t, out.String(), "\x1b[2J")
	require.NotContains(t, out.String(), "z")
}

// Rows of a rank with a hostile host name do not reach the terminal as they are.
func TestShown(t *testing.T) {
	var out bytes.Buffer
	r := request{verb: "ranks"}
	s := &control.Standing{Rows: []control.StandingRow{{Host: "a\x1b]0;x"}}}
	require.NoError(t, r.show(nil, &out, control.Response{Standing: s}))
	require.NotContains(t, out.String(), "\x1b")
}
