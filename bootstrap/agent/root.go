package agent

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
	"ibrun/internal/proc"
)

// RunRoot runs a job to its end: all ranks dead, all output written or given
// up, all sessions closed.
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
	l.root.ccs = newCCS(l, cfg.Job)
	if cfg.CCSPort != nil {
		port, err := l.root.ccs.listenCCS(*cfg.CCSPort, cfg.CCSKeys, l.warn)
		if err != nil {
			return core.Outcome{Code: 125}, err
		}
		defer port.close()
	}
	l.root.control = l.listen(cfg)
	defer l.root.control.close()
	go cfg.Out.run(l.post)
	if cfg.Parent != nil {
		go cfg.Parent.listen(l.post)
	}
	l.post(core.Begin{Launch: wire.Launch{Job: cfg.Job, Nodes: cfg.Nodes}})
	l.run()
	l.fold()
	cfg.Out.close()
	return l.root.outcome, nil
}

// end takes how the job has ended.
func (r *rootSide) end(o core.Outcome) { r.outcome = o }

// perform does the effects of the root.
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
			go readStdin(r.cfg.Stdin, r.stdin, typed, l.post)
		}
		r.stdin <- e.N
	case core.Report:
		if _, launched := e.What.(core.LaunchDone); launched {
			r.control.launched()
		}
		r.cfg.Report(e.What)
	case core.Answered:
		r.control.take(e.Reply)
	case core.CCSAnswered:
		r.ccs.take(e.CCSReply)
	case core.ResizeTold:
		r.control.told(e)
	case core.JobResized:
		r.resized(e)
	case core.DaemonsPrinted:
		r.control.printed(e)
	case core.DaemonsOver:
		r.control.over(e)
	case core.SessionOpened, core.SessionReceived, core.SessionRoom:
		r.control.session(e)
	case core.SweepNode:
		l.sweepNode(e)
	case core.Suspend:
		r.suspend(l)
	default:
		r.performJobs(l, e)
	}
}

// suspend stops this process as its terminal asked. A shell that has ended since cannot continue
// it: the job goes on at once. The root of a spawned job has a session of its own; its parent
// continues it.
func (r *rootSide) suspend(l *loop) {
	if r.cfg.Parent != nil {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	} else if !proc.Suspend() {
		l.hear(core.Interrupted{Signal: uint8(syscall.SIGCONT)})
	}
}

// interrupts posts the signals that concern the job. What the user's shell
// told us to ignore, as nohup does, stays ignored. spawned: the root of the job that
// spawned this one commands it. What it returns ends that: signals that come later do nothing.
func (l *loop) interrupts(spawned bool) (end func()) {
	proc.Shrug(syscall.SIGPIPE)
	c, own := make(chan os.Signal, 16), []os.Signal{}
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
				l.post(core.Interrupted{Signal: uint8(s.(syscall.Signal))})
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

// unread takes the signals that come when a root has ended, and nobody reads them: the exit code
// is that of the job.
var unread = make(chan os.Signal, 1)

// none is no signal.
const none = syscall.Signal(0)

// effective is what a signal means, as the kernel has it for programs that do not
// catch it. A background job that may not write to its terminal is to stop; this may be
// over when the signal is read. Nobody stops whom no shell could continue, but a root that
// spawned this one may.
func effective(s syscall.Signal, spawned bool) syscall.Signal {
	switch {
	case s != syscall.SIGTSTP && s != syscall.SIGTTIN && s != syscall.SIGTTOU:
		return s
	case !spawned && !proc.Stoppable(), s != syscall.SIGTSTP && proc.GroupInFront():
		return none
	}
	return syscall.SIGTSTP
}

// stdinChunk is the most that is read of standard input at a time.
const stdinChunk = 32 << 10

// readStdin is the goroutine that reads standard input, as far as allowed. typed,
// if not nil, looks for what is meant for ibrun itself.
func readStdin(f *os.File, allowed <-chan int, typed *escapes, post func(any)) {
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
				post(core.Interrupted{Signal: uint8(syscall.SIGTERM)})
			}
		}
		may -= len(data)
		if len(data) > 0 || err != nil {
			post(core.StdinRead{Data: data, EOF: err != nil})
		}
		if err != nil {
			return
		}
	}
}
