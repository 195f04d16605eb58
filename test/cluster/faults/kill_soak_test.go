//go:build soak

package faults

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// codes holds ibrun's exit code after the loss of one process while a job runs. The loss of a descendant of a rank has
// no effect.
var codes = map[string]int{
	root: 128 + int(unix.SIGKILL), rank: 128 + int(unix.SIGKILL), agent: 125, reaper: 125, both: 125, session: 125,
	client: 125, shell: 125,
}

// drawKill draws the death of one process.
func drawKill(r *round) {
	role := pick(r.rng, root, agent, agent, reaper, both, both, session, client, rank, rank, spawned, shell)
	r.fault = fault{class: "kill " + role, phase: pick(r.rng, launch, running, running, ending), code: codes[role],
		goesOn: role == spawned}
	r.shape = drawShape(r.rng, 1)
	switch role {
	case client:
		r.shape = drawShape(r.rng, 2)
		r.shape.args[1] = "exec"
		r.shape.hosts = r.shape.hosts[:min(8, len(r.shape.hosts))]
	case shell:
		r.fault.phase, r.shape.fresh = launch, true
	case spawned, both: // these ranks leave processes behind
		r.shape.program = family
	}
	r.fault.litters = role == shell // the killed shell cannot remove its incomplete copy of ibrun
	if r.fault.phase == ending && r.rng.IntN(2) == 0 {
		r.shape.program = brief
	}
	r.fault.after = time.Duration(r.rng.Int64N(int64(300 * time.Millisecond)))
	switch {
	case r.shape.program == brief && r.fault.phase == ending:
		r.fault.after += 1850 * time.Millisecond
	case r.fault.phase == running:
		r.fault.after *= 5
	case r.fault.phase == ending: // an interrupted job ends soon
		r.fault.after /= 15
	default: // a lost session is opened again, once
		r.fault.after /= 10
		r.fault.goesOn = role != root && role != rank
	}
	r.fault.strike = func(s *site, r *round) (string, error) { return s.hit(r, role, unix.SIGKILL) }
}

// drawStop draws an agent that is stopped for ever.
func drawStop(r *round) {
	r.fault = fault{class: "stop agent", phase: pick(r.rng, launch, running, running), code: 125}
	r.fault.after = time.Duration(r.rng.IntN(300)) * time.Millisecond
	r.shape = drawShape(r.rng, 1)
	r.fault.strike = func(s *site, r *round) (string, error) { return s.hit(r, agent, unix.SIGSTOP) }
}

// hit sends sig to a random process of a role after r.fault.after, and returns a description of this. During a launch
// it first waits for such a process. If role is both, it signals an agent and its reaper. If r.interrupts() is true,
// hit interrupts the job before that delay. It returns unix.ESRCH if there is no such process.
func (s *site) hit(r *round, role string, sig unix.Signal) (string, error) {
	var found []process
	of := role
	if role == both {
		of = agent
	}
	s.until(func() bool {
		found = s.of(of, "")
		return len(found) > 0 || r.fault.phase != launch || s.job.over()
	})
	if len(found) == 0 {
		return "no " + role + " was there", unix.ESRCH
	}
	p := pick(r.rng, found...)
	r.fault.victim = p.host
	fd, err := s.aim(p)
	if err == nil {
		defer unix.Close(fd)
		above := fd
		if role == both {
			if above, err = unix.PidfdOpen(parentOf(p.Pid), 0); err != nil {
				return "the reaper was gone", err
			}
			defer unix.Close(above)
		}
		if r.interrupts() {
			s.job.interrupt()
		}
		<-time.After(r.fault.after) // delays the fault by the time that was drawn for the round
		if above != fd {
			err = unix.PidfdSendSignal(above, sig, nil, 0)
		}
		err = errors.Join(err, unix.PidfdSendSignal(fd, sig, nil, 0))
	}
	return sig.String() + " to " + p.String(), err
}
