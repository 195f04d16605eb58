package agent

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/clients/pmixserver"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/spawn"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
	"ibrun/internal/proc"
)

// SpawnedRole is the hidden role of ibrun in which it runs a job that a rank
// has spawned. Its descriptor 3 leads to the root of the rank's job.
const SpawnedRole = ":spawned"

const parentNumber = 3

// offspring represents a spawned job in the root of the job that has spawned it.
type offspring struct {
	process *proc.Process
	link    *link
}

// startJob starts an ibrun process that runs the job that a rank has spawned. That process dies with this one.
func (r *rootSide) startJob(l *loop, e core.StartJob) {
	o, ours, err := bear()
	if err != nil {
		l.hear(core.JobAnswered{Rank: e.Spawn.Rank, Refused: err.Error()})
		l.hear(core.JobEnded{Job: e.Job})
		return
	}
	r.offspring[e.Job] = o
	what := r.cfg.Offspring
	what.Job, what.Spawn = r.cfg.Job, e.Spawn
	o.link.send(what)
	go o.link.write(ours)
	go o.listen(ours, e, l)
}

// bear starts it; our end of the pair is the caller's.
func bear() (*offspring, *os.File, error) {
	a, b, err := spawn.SocketPair()
	if err != nil {
		return nil, nil, err
	}
	_ = unix.SetNonblock(a, true)
	ours, theirs := os.NewFile(uintptr(a), "offspring"), os.NewFile(uintptr(b), "parent")
	defer theirs.Close()
	empty, err := os.Open(os.DevNull)
	if err == nil {
		defer empty.Close()
		p, fail := proc.Start(proc.Cmd{
			Path: "/proc/self/exe", Argv: []string{"ibrun", SpawnedRole}, Env: os.Environ(),
			Files: []*os.File{empty, os.Stdout, os.Stderr, theirs}, Setsid: true,
		})
		if err = fail; err == nil {
			return &offspring{p, newLink()}, ours, nil
		}
	}
	ours.Close()
	return nil, nil, err
}

// listen reports the messages from the root of the spawned job until the connection ends.
func (o *offspring) listen(from *os.File, e core.StartJob, to jobEvents) {
	frames := wire.Vocabulary.NewReader(from, frame.Root)
	answered, ran := false, false
	for {
		m, err := frames.Next()
		if err != nil {
			break
		}
		switch m := m.(type) {
		case rankwire.JobSpawned:
			answered, ran = true, m.Refused == ""
			to.JobAnswered(core.JobAnswered{Rank: e.Spawn.Rank, JobID: m.JobID, Namespace: m.Namespace, Refused: m.Refused})
		case rankwire.Name:
			to.JobAsked(core.JobAsked{Job: e.Job, Name: m})
		}
	}
	<-o.process.Done()
	o.link.finish()
	code := spawn.StatusOf(o.process.Status()).ExitCode()
	if !answered {
		to.JobAnswered(core.JobAnswered{Rank: e.Spawn.Rank,
			Refused: fmt.Sprintf("its ibrun ended with code %d before all ranks ran", code)})
	}
	to.JobEnded(core.JobEnded{Job: e.Job, Ran: ran, Code: code})
}

// Parent is the connection to the root of the job that has spawned this job.
type Parent struct {
	in   *frame.Reader
	link *link
	once sync.Once
}

// OpenParent opens the connection to the parent job and reads which programs to spawn. The caller must close the
// Parent.
func OpenParent() (*Parent, wire.Offspring, error) {
	unix.CloseOnExec(parentNumber)
	_ = unix.SetNonblock(parentNumber, true)
	f := os.NewFile(parentNumber, "parent")
	p := &Parent{in: wire.Vocabulary.NewReader(f, frame.Root), link: newLink()}
	m, err := p.in.Next()
	what, ok := m.(wire.Offspring)
	if err == nil && !ok {
		err = fmt.Errorf("%s came instead of Offspring", wire.Vocabulary.Name(m.Kind()))
	}
	if err != nil {
		return nil, what, fmt.Errorf("descriptor %d leads to no parent: %w", parentNumber, err)
	}
	go p.link.write(f)
	return p, what, nil
}

// Runs tells the parent job that all ranks of this job run. Runs and Refuse have no effect after a call of either.
func (p *Parent) Runs(j *job.Job) {
	p.once.Do(func() { p.link.send(rankwire.JobSpawned{JobID: j.ID, Namespace: pmixserver.Namespace(j)}) })
}

// Refuse tells the parent job the reason why this job cannot be started.
func (p *Parent) Refuse(why string) {
	p.once.Do(func() { p.link.send(rankwire.JobSpawned{Refused: why}) })
}

// Close waits until all messages to the parent job are sent, but at most for the time lastWords.
func (p *Parent) Close() { p.link.drain(lastWords) }

// listen reports the messages from the parent job. When the connection ends, it requests the end of this job.
func (p *Parent) listen(to jobEvents) {
	for {
		m, err := p.in.Next()
		if err != nil {
			to.Interrupted(core.Interrupted{Signal: uint8(syscall.SIGTERM)})
			return
		}
		if name, ok := m.(rankwire.Name); ok {
			to.ParentAnswered(core.ParentAnswered{Name: name})
		}
	}
}

// performJobs performs the effects that concern the parent job and spawned jobs.
func (r *rootSide) performJobs(l *loop, e core.Effect) {
	switch e := e.(type) {
	case core.StartJob:
		r.startJob(l, e)
	case core.SignalJobs:
		for _, o := range r.offspring {
			o.process.Signal(syscall.Signal(e.Number))
		}
	case core.AnswerJob:
		r.offspring[e.Job].link.send(e.Name)
	case core.AskParent:
		r.cfg.Parent.link.send(e.Name)
	}
}
