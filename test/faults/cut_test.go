package faults

import (
	"fmt"
	"strings"
	"time"

	"ibrun/test/vcluster/cluster"
)

// Rules of nft on the node that is cut.
const (
	dropOut   = "out meta l4proto tcp drop"
	dropIn    = "in meta l4proto tcp drop"
	dropBelow = "out tcp dport 22 drop"
	reset     = "out meta l4proto tcp reject with tcp reset; in meta l4proto tcp reject with tcp reset"
)

// drawCut draws the loss of one node's network, or of a part of it.
func drawCut(r *round) {
	const agents = 15 * time.Second // both sides of a cut that nobody is told of
	f := &r.fault
	f.phase = pick(r.rng, launch, running, running)
	f.after = time.Duration(r.rng.IntN(1000)) * time.Millisecond
	f.promise = promise{end: agents, clean: agents, code: 125}
	f.cutOff = true
	r.shape = drawShape(r.rng, 2)
	f.victim = pick(r.rng, r.shape.hosts...)
	if r.rng.IntN(8) == 0 {
		f.victim = cluster.FrontName
	}
	how := pick(r.rng, "link down", "link down", "nothing goes out", "nothing comes in",
		"no port 22", "links reset", "down for 3 s")
	f.class = how
	switch how {
	case "link down":
		f.strike, f.undo = down, heal
	case "nothing goes out":
		f.strike, f.undo = filter(dropOut), unfilter
	case "nothing comes in":
		f.strike, f.undo = filter(dropIn), unfilter
	case "no port 22":
		// Somebody has to be below it.
		r.shape = drawShape(r.rng, 4)
		r.shape.args[3] = pick(r.rng, "kary:2", "chain")
		r.shape.hosts = r.shape.hosts[:min(len(r.shape.hosts), 8)]
		f.strike, f.undo, f.victim = filter(dropBelow), unfilter, pick(r.rng, cluster.FrontName, r.shape.hosts[0])
		f.goesOn = f.phase == launch // others start what it could not
	case "links reset":
		f.strike, f.undo = filter(reset), unfilter
	case "down for 3 s":
		f.code, f.goesOn = 0, true
		f.strike = func(s *site, r *round) (string, error) {
			_, err := down(s, r)
			<-time.After(3 * time.Second) // the fault's length
			if err == nil {
				err = heal(s, r)
			}
			return "", err
		}
	}
	strike := f.strike
	f.strike = func(s *site, r *round) (string, error) {
		<-time.After(r.fault.after) // which instant it is, not a wait for something
		return strike(s, r)
	}
}

func down(s *site, r *round) (string, error) { return r.fault.victim, s.Cut(r.fault.victim) }
func heal(s *site, r *round) error           { return s.Heal(r.fault.victim) }

// on runs a command on a host, which may be the front.
func (s *site) on(host string, words ...string) error {
	cmd := s.Command(s.ctx, words...)
	if host != cluster.FrontName {
		cmd = s.Exec(s.ctx, host, words...)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s on %s: %w: %s", strings.Join(words, " "), host, err, out)
	}
	return nil
}

func filter(rules string) func(*site, *round) (string, error) {
	script := "add table inet cut; add chain inet cut out { type filter hook output priority 0; }; " +
		"add chain inet cut in { type filter hook input priority 0; }"
	for rule := range strings.SplitSeq(rules, "; ") {
		script += "; add rule inet cut " + rule
	}
	return func(s *site, r *round) (string, error) { return r.fault.victim, s.on(r.fault.victim, "nft", script) }
}

func unfilter(s *site, r *round) error { return s.on(r.fault.victim, "nft", "delete table inet cut") }
