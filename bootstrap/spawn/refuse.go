package spawn

import (
	"ibrun/internal/job"
)

// RefusePMI ends the PMI of a rank: its program fails at what it asks next. The rank's descriptor is
// of no use after it.
func (s *Set) RefusePMI(slot job.Slot) { s.rank(slot).control.shut() }

// RefuseProgram tells the program of package ibrun that was let in last why it cannot join after all.
func (s *Set) RefuseProgram(slot job.Slot, why string) { s.rank(slot).control.refuse(why) }

// shut makes those fail at once who write to the other end, or wait for an answer there.
func (d *control) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file != nil && !d.closed {
		(&mouth{socket: d.file}).shut()
	}
}

// refuse ends the program that was let in last.
func (d *control) refuse(why string) {
	d.mu.Lock()
	p := d.program
	d.program = nil
	d.mu.Unlock()
	if p != nil {
		p.turnAway(why)
	}
}
