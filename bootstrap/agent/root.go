package agent

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
	"ibrun/internal/proc"
)

// RunRoot runs a job. It returns when all ranks have ended, their output has been written or discarded, and all
// sessions are closed. The error says why the job was not started; the code of the outcome is 125 then.
func RunRoot(ctx context.Context, cfg RootConfig) (core.Outcome, error) {
	if err := proc.BecomeSubreaper(); err != nil {
		return core.Outcome{Code: 125}, err
	}
	l := newLoop(ctx, core.Config{Root: true, Host: cfg.Host, Here: cfg.Here, Policy: cfg.Policy,
		HasSpawner: cfg.Job.Spawner != ""})
	l.root = &rootSide{cfg: cfg, stdin: make(chan int, 1024), offspring: map[uint32]*offspring{}}
	if cfg.Warn != nil {
		l.warn = cfg.Warn
	}
	if err := l.launched(cfg.Job); err != nil {
		return core.Outcome{Code: 125}, err
	}
	if path := cfg.Job.Launch.TraceEvents; path != "" {
		if err := l.startTrace(path, path); err != nil {
			return core.Outcome{Code: 125}, err
		}
		defer l.tracer.close()
	}
	defer l.interrupts(cfg.Parent != nil)()
	if cfg.Job.Output.Terminal {
		defer l.resizes(cfg.Stdin)()
	}
	l.root.ccs = &ccsSide{events: l, over: l.over, layout: cfg.Job.Layout}
	if cfg.CCSPort != nil {
		port, err := l.root.ccs.listenCCS(*cfg.CCSPort, cfg.CCSKeys, l.warn)
		if err != nil {
			return core.Outcome{Code: 125}, err
		}
		defer port.listener.Close()
	}
	l.root.control = l.listen(cfg)
	defer l.root.control.close()
	go cfg.Out.run(l)
	if cfg.Parent != nil {
		go cfg.Parent.listen(l)
	}
	l.hear(core.Begin{Launch: wire.Launch{Job: cfg.Job, Nodes: cfg.Nodes}})
	l.run()
	l.fold()
	cfg.Out.close()
	return l.root.outcome, nil
}

// perform performs an effect that only the core of the root requests.
func (r *rootSide) perform(l *loop, e core.Effect) {
	switch e := e.(type) {
	case core.Write:
		r.cfg.Out.put(printed{source{r.cfg.Job.Layout.Rank(e.Rank), e.Stream}, e.Data})
	case core.ReadStdin:
		if !r.reading {
			r.reading = true
			var typed *escapes
			if r.cfg.Job.Output.Terminal && WindowOf(r.cfg.Stdin) != (job.Window{}) {
				typed = &escapes{}
			}
			go readStdin(r.cfg.Stdin, r.stdin, typed, l)
		}
		r.stdin <- e.N
	case core.Report:
		if _, launched := e.What.(core.LaunchDone); launched {
			r.control.launched()
		}
		r.cfg.Report(e.What)
	case core.Answered:
		r.control.queries.pass(e.ID, e.Standings)
	case core.CCSAnswered:
		r.ccs.replies.pass(ccsKey{e.ID, e.Rank}, e.CCSReply)
	case core.ResizeTold:
		r.control.changes.pass(e.ID, e)
	case core.JobResized:
		r.resized(e)
	case flow.DaemonsPrinted:
		r.control.update(e.ID, func(x *exec) { x.queue = append(x.queue, e.DaemonOutput) })
	case flow.DaemonsOver:
		r.control.daemonsOver(e)
	case flow.SessionOpened:
		r.control.update(e.ID, func(x *exec) { x.opened = e.On })
	case flow.SessionReceived:
		if dropped := r.control.received(e); dropped > 0 {
			l.hear(flow.SessionTaken{ID: e.ID, N: dropped})
		}
	case flow.SessionRoom:
		r.control.update(e.ID, func(x *exec) { x.addRoom(e.N) })
	case core.SweepNode:
		l.sweepNode(e)
	case core.Suspend:
		r.suspend(l)
	default:
		r.performJobs(l, e)
	}
}

// suspend stops this process until it receives SIGCONT. If the shell that could continue it has ended, suspend passes a
// SIGCONT to the core instead, and the job continues at once. The root of a spawned job is not in the session of the
// terminal, so it stops with SIGSTOP, and its parent continues it.
func (r *rootSide) suspend(l *loop) {
	if r.cfg.Parent != nil {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	} else if !proc.Suspend() {
		l.hear(core.Interrupted{Signal: uint8(syscall.SIGCONT)})
	}
}

// interrupts starts to report signals to this process, such as SIGINT, as core.Interrupted. Signals that the user's
// shell has set to be ignored, for example by nohup, stay ignored. spawned means that a rank of another job spawned
// this job. After a call of end, signals have no effect.
func (l *loop) interrupts(spawned bool) (end func()) {
	proc.Shrug(syscall.SIGPIPE)
	c, own := make(chan os.Signal, 16), []os.Signal{} // package signal drops signals that do not fit; end closes c
	for _, s := range []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGCONT, syscall.SIGUSR1, syscall.SIGUSR2,
	} {
		if !signal.Ignored(s) {
			own = append(own, s)
			signal.Notify(c, s)
		}
	}
	go func() {
		for s := range c {
			if s = effective(s.(syscall.Signal), spawned); s != none {
				l.Interrupted(core.Interrupted{Signal: uint8(s.(syscall.Signal))})
			}
		}
	}()
	return func() {
		for _, s := range own {
			signal.Notify(unread, s)
		}
		signal.Stop(c)
		close(c)
	}
}

// unread receives the signals that arrive after the job has ended. No goroutine reads it, so a late signal does not
// change the exit code.
var unread = make(chan os.Signal, 1)

// none is the signal that effective returns if the job must ignore the received signal.
const none = syscall.Signal(0)

// effective returns the signal that the job must handle when this process has received s, or none. The stop signals of
// a terminal are handled as the kernel does by default. They become SIGTSTP, unless no shell could continue this
// process and no other job has spawned this one. SIGTTIN and SIGTTOU, for the access of a background process to its
// terminal, are ignored if this process is in the foreground by now.
func effective(s syscall.Signal, spawned bool) syscall.Signal {
	switch {
	case s != syscall.SIGTSTP && s != syscall.SIGTTIN && s != syscall.SIGTTOU:
		return s
	case !spawned && !proc.Stoppable(), s != syscall.SIGTSTP && proc.GroupInFront():
		return none
	}
	return syscall.SIGTSTP
}

// stdinChunk is the maximum number of bytes in one read of standard input.
const stdinChunk = 32 << 10

// readStdin reads f and reports what it has read as core.StdinRead, until the end of f or an error. It reads no more
// bytes than the sum of the values from allowed. If typed is not nil, it filters escape sequences for ibrun out of the
// input, and readStdin reports SIGTERM if the user has typed the sequence that ends the job.
func readStdin(f *os.File, allowed <-chan int, typed *escapes, to terminalEvents) {
	may := 0
	for {
		for may <= 0 {
			may += <-allowed
		}
		buf := make([]byte, min(may, stdinChunk))
		n, err := proc.ReadConsole(f, buf)
		data := buf[:n]
		if typed != nil {
			var end bool
			if data, end = typed.filter(data); end {
				to.Interrupted(core.Interrupted{Signal: uint8(syscall.SIGTERM)})
			}
		}
		may -= len(data)
		if len(data) > 0 || err != nil {
			to.StdinRead(core.StdinRead{Data: data, EOF: err != nil})
		}
		if err != nil {
			return
		}
	}
}
