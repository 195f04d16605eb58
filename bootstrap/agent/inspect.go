package agent

import (
	"runtime"
	"sync"
	"syscall"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/queries"
	"ibrun/bootstrap/spawn"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
)

// stackMost limits how long a debugger may take to read the stack of one rank.
const stackMost = 20 * time.Second

// inspect examines the ranks of this node in a new goroutine, because this may take seconds.
func (l *loop) inspect(e core.Inspect) {
	if l.looks == nil {
		l.looks = &spawn.Looks{}
	}
	processes := make([]spawn.Process, len(e.Ranks))
	for i, r := range e.Ranks {
		if r.State != rankwire.NotStarted && r.State != rankwire.Over {
			processes[i] = l.ranks.Process(r.Rank)
		}
	}
	looks, ranks := l.looks, l.ranks
	go func() {
		rows := make([]rankwire.RankRow, len(e.Ranks))
		var texts []string
		var tool spawn.Tool
		if e.What == rankwire.ShowStacks {
			texts, tool = make([]string, len(e.Ranks)), spawn.FindTool()
		}
		until := time.Now().Add(min(stackMost, time.Duration(e.PatienceMs)*time.Millisecond/2))
		inParallel(len(rows), func(i int) {
			r := e.Ranks[i]
			row := rankwire.RankRow{Rank: r.Rank, Host: e.Host, State: r.State, Op: r.Op, Call: r.Call,
				AgeMs: uint32(r.Age.Milliseconds()), HCA: processes[i].HCA}
			if e.What == rankwire.SendSignal {
				if processes[i].PID != 0 && ranks.SignalRank(r.Rank, syscall.Signal(e.Signal)) {
					row.State, row.Op, row.Call, row.AgeMs = rankwire.Signaled, 0, 0, 0
				}
				rows[i] = row
				return
			}
			look, lives := spawn.Look{}, false
			if processes[i].PID != 0 {
				look, lives = looks.At(processes[i].PID)
			}
			if lives {
				row.PID, row.Kernel, row.CPUMs = uint32(processes[i].PID), look.State, uint64(look.CPU.Milliseconds())
				row.Busy, row.Memory, row.CPUs, row.Waits = look.Busy, look.Memory, look.CPUs, look.Waits
			}
			if lives && texts != nil {
				if most := time.Until(until); most > 0 {
					texts[i] = tool.Stack(look, most)
				} else {
					texts[i] = spawn.Tool{}.Stack(look, 0)
				}
			}
			rows[i] = row
		})
		reply := wire.Reply{ID: e.ID, Standings: queries.Sum(e.Question, rows, texts)}
		l.Inspected(core.Inspected{Reply: reply})
	}()
}

// inParallel calls f for each number below n, on as many CPUs as there are.
func inParallel(n int, f func(i int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range min(n, runtime.NumCPU()) {
		all.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}
