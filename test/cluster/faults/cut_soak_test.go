//go:build soak

package faults

import (
	"errors"
	"time"

	"ibrun/test/vcluster/cluster"
)

// drawCut draws the loss of one node's network, or of part of it.
func drawCut(r *round) {
	f := &r.fault
	f.phase = pick(r.rng, launch, running, running)
	f.after = time.Duration(r.rng.IntN(1000)) * time.Millisecond
	f.code, f.cutOff = 125, true
	r.shape = drawShape(r.rng, 2)
	f.victim = pick(r.rng, r.shape.hosts...)
	if r.rng.IntN(8) == 0 {
		f.victim = cluster.FrontName
	}
	how := pick(r.rng, "link down", "link down", "nothing goes out", "nothing comes in", "no port 22", "links reset",
		"down for 3 s")
	f.class = how
	rules := map[string]string{
		"nothing goes out": dropOut, "nothing comes in": dropIn, "no port 22": dropBelow, "links reset": reset,
	}[how]
	if how == "no port 22" { // the victim must have agents below it
		r.shape = drawShape(r.rng, 4)
		r.shape.args[3] = pick(r.rng, "kary:2", "chain")
		r.shape.hosts = r.shape.hosts[:min(len(r.shape.hosts), 8)]
		f.victim = pick(r.rng, cluster.FrontName, r.shape.hosts[0])
		f.goesOn = f.phase == launch // other agents may start the agents that the victim cannot start
	}
	strike, undo := (*site).Cut, (*site).Heal
	if rules != "" {
		strike = func(s *site, host string) error { return s.filter(host, rules) }
		undo = (*site).unfilter
	}
	f.undo = func(s *site) error { return undo(s, f.victim) }
	if how == "down for 3 s" {
		f.code, f.goesOn, f.undo = 0, true, nil
		strike = func(s *site, host string) error {
			err := s.Cut(host)
			<-time.After(3 * time.Second) // the fault's length
			return errors.Join(err, s.Heal(host))
		}
	}
	f.strike = func(s *site, r *round) (string, error) {
		<-time.After(r.fault.after) // delays the fault by the time that was drawn for the round
		return f.victim, strike(s, f.victim)
	}
}
