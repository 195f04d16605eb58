// Package ctl is the command ibrun ctl, by which a user asks a running job. It decides nothing: the
// job answers over its control socket.
package ctl

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/control"
	"ibrun/internal/exit"
	"ibrun/internal/plain"
	"ibrun/internal/proc"
)

// Word is the first argument of ibrun that means this command; Name is that of the program.
const (
	Word = "ctl"
	Name = "ibrunctl"
)

// Help is what the command prints about itself.
const Help = `usage: ibrun ctl [VERB] [options]         (also: ibrunctl [VERB] [options])

  list              this user's jobs on this machine (default)
  status            how many nodes answer, and what ranks do
  ranks             a line for each rank: host, process, CPU, memory, what it waits
                    in; then who is missing from which collective or fence
  top               the same, the least busy first, again and again; Ctrl-C ends it
  stacks            where ranks are in their program; equal stacks are one
  signal SIG        send a signal to ranks
  stop, cont        stop the processes of ranks, and continue them
  end               end the job, as kill -TERM on ibrun does
  exec COMMAND ...  run a command on each node beside the ranks, as a daemon: the
                    job does not count it, and its end ends it; the exit code is
                    the largest of the daemons'
  pipe RANK COMMAND ...
                    run a command beside a rank; it reads standard input, and what it
                    prints is printed, byte for byte
  gdb RANK          attach a debugger to a rank, with this terminal; the rank goes on
                    when the debugger ends
  mpir              prepare for a debugger that attaches to ibrun and speaks MPIR: it
                    finds all ranks
  ccs [JOB] HANDLER < DATA
                    send a request to a program of Charm++, and print the reply
  attach            show what ranks print from now on, and the last 64 KiB
  grow HOSTS        start ranks on further hosts: n[9-12],x:4; the program has to call
                    Resize of the package ibrun
  shrink N          let the last N nodes leave the job, in the same way

options
  -j, --job JOB     the job: the beginning of its ID, or the process of its ibrun
  --ranks LIST      only these ranks: 0-3,7
  --pe N            ccs: the processing element (default: the first)
  --gdb COMMAND     gdb: the debugger (default: $IBRUN_GDB, or gdb)
  --per-rank        exec: one beside each rank, on the CPUs of the rank
  --hosts LIST      exec: only on these hosts: n[1-4],n7
  --rows N          most rows of ranks (default 1024) and top
  --once            top: one table
  --interval S      top: seconds between tables (default 2)
  --json            print the answers as they come
`

// request is a command line.
type request struct {
	verb, job string
	ask       control.Request
	once      bool
	json      bool
	interval  time.Duration
	code      int    // of exec, pipe and gdb
	gdb       string // the debugger; empty: not said
}

// verbs are what can be asked, and the request of each; "": none of its own.
func verb(word string) (ask string, signal int, ok bool) {
	switch word {
	case "list":
		return "", 0, true
	case "status", "ranks", "top":
		return "look", 0, true
	case "stacks", "attach", "end", "exec", "grow", "shrink", "mpir", "signal", "ccs", "pipe", "gdb":
		return word, 0, true
	case "stop":
		return "signal", int(unix.SIGSTOP), true
	case "cont":
		return "signal", int(unix.SIGCONT), true
	}
	return "", 0, false
}

// mostRows is the most that a job gives.
const mostRows = 1024

func parse(args []string) (r request, err error) {
	r = request{verb: "list", interval: 2 * time.Second}
	rows, words := uint64(mostRows), []string{}
	for i := 0; i < len(args); i++ {
		word, value, given := strings.Cut(args[i], "=")
		if takesCommand(words) && (word == "--" || !strings.HasPrefix(word, "-")) {
			if r.ask.Command = args[i:]; word == "--" {
				r.ask.Command = args[i+1:]
			}
			break
		}
		switch word {
		case "--per-rank":
			r.ask.PerRank = true
			continue
		case "--once":
			r.once = true
			continue
		case "--json":
			r.json = true
			continue
		case "-h", "--help":
			r.verb = "help"
			return r, nil
		}
		if !strings.HasPrefix(word, "-") {
			words = append(words, args[i])
			continue
		}
		if !given {
			if i++; i == len(args) {
				return r, exit.Usagef("%s needs a value", word)
			}
			value = args[i]
		}
		switch word {
		case "-j", "--job":
			r.job = value
		case "--ranks":
			r.ask.Ranks = value
		case "--hosts":
			r.ask.Hosts = value
		case "--gdb":
			r.gdb = value
		case "--pe":
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil || n < 0 {
				return r, exit.Usagef("--pe %s: a number from 0 on", value)
			}
			r.ask.PE = new(int32(n))
		case "--rows":
			if rows, err = strconv.ParseUint(value, 10, 32); err != nil {
				return r, exit.Usagef("--rows %s: not a number", value)
			}
		case "--interval":
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil || seconds < 0.1 || seconds > 3600 {
				return r, exit.Usagef("--interval %s: a number of seconds from 0.1 to 3600", value)
			}
			r.interval = time.Duration(seconds * float64(time.Second))
		default:
			return r, exit.Usagef("ctl knows no %s: see ibrun ctl --help", word)
		}
	}
	if len(words) > 0 {
		r.verb, words = words[0], words[1:]
	}
	ask, signal, ok := verb(r.verb)
	if !ok {
		return r, exit.Usagef("ctl knows no %q: see ibrun ctl --help", r.verb)
	}
	r.ask.Verb, r.ask.Signal = ask, signal
	r.ask.Rows = uint32(min(rows, mostRows))
	switch commands := r.verb == "exec" || r.verb == "pipe"; {
	case commands != (len(r.ask.Command) > 0):
		return r, exit.Usagef("ctl %s needs a command: see ibrun ctl --help", r.verb)
	case r.verb != "exec" && (r.ask.PerRank || r.ask.Hosts != ""):
		return r, exit.Usagef("only ctl exec has --per-rank and --hosts: see ibrun ctl --help")
	case r.verb != "gdb" && r.gdb != "":
		return r, exit.Usagef("only ctl gdb has --gdb: see ibrun ctl --help")
	case r.verb != "ccs" && r.ask.PE != nil:
		return r, exit.Usagef("only ctl ccs has --pe: see ibrun ctl --help")
	}
	err = r.take(words)
	return r, err
}

// gdbVariable names the environment variable that contains the debugger command for ibrun ctl gdb.
const gdbVariable = "IBRUN_GDB"

// take parses the command-line words after the verb, such as "signal", and stores them in r.
func (r *request) take(words []string) (err error) {
	switch r.verb {
	case "pipe", "gdb":
		if len(words) != 1 || r.ask.Ranks != "" {
			return exit.Usagef("ctl %s needs one rank: see ibrun ctl --help", r.verb)
		}
		r.ask.Ranks = words[0]
		if r.verb == "gdb" {
			r.ask.Command = strings.Fields(cmp.Or(r.gdb, os.Getenv(gdbVariable), "gdb -q"))
		}
	case "exec":
		if r.ask.Ranks != "" {
			return exit.Usagef("ctl exec has no --ranks: see ibrun ctl --help")
		}
	case "ccs":
		if len(words) == 2 && r.job == "" {
			r.job, words = words[0], words[1:]
		}
		if len(words) != 1 {
			return exit.Usagef("ctl ccs needs the name of one handler: see ibrun ctl --help")
		}
		r.ask.Handler = words[0]
	case "grow":
		if len(words) != 1 || words[0] == "" {
			return exit.Usagef("ctl grow needs one list of hosts: n[9-12],x:4, say")
		}
		r.ask.Hosts = words[0]
	case "shrink":
		if len(words) != 1 {
			return exit.Usagef("ctl shrink needs a number of nodes")
		}
		n, err := strconv.ParseUint(words[0], 10, 32)
		if err != nil || n == 0 {
			return exit.Usagef("ctl shrink %s: not a number of nodes", words[0])
		}
		r.ask.Nodes = uint32(n)
	case "signal":
		if len(words) != 1 {
			return exit.Usagef("ctl signal needs one signal: USR1, say")
		}
		r.ask.Signal, err = signalOf(words[0])
		return err
	default:
		if len(words) > 0 {
			return exit.Usagef("ctl %s: what is %q? see ibrun ctl --help", r.verb, words[0])
		}
		return nil
	}
	r.ask.Rows = 0
	return nil
}

func signalOf(word string) (int, error) {
	if n, err := strconv.Atoi(word); err == nil && n >= 1 && n <= 64 {
		return n, nil
	}
	name := "SIG" + strings.TrimPrefix(strings.ToUpper(word), "SIG")
	if n := unix.SignalNum(name); n > 0 {
		return int(n), nil
	}
	return 0, exit.Usagef("there is no signal %s", word)
}

// Main runs the command, and returns its exit code.
func Main(args []string, stdout io.Writer) int {
	r, err := parse(args)
	if err == nil {
		err = r.run(stdout)
	}
	if err == nil {
		return r.code
	}
	text := err.Error()
	if errors.Is(err, os.ErrPermission) {
		text += "; hint: the job is another user's"
	}
	fmt.Fprintf(proc.ConsoleWriter(os.Stderr), "ibrun: %s\n", plain.Text(text))
	return exit.Code(err)
}

func (r *request) run(stdout io.Writer) error {
	switch r.verb {
	case "help":
		_, err := io.WriteString(stdout, Help)
		return err
	case "list":
		return r.list(stdout)
	}
	id, err := find(r.job)
	if err != nil {
		return err
	}
	c, err := control.Dial(id)
	if err != nil {
		return fmt.Errorf("job %s: %w", id, err)
	}
	defer c.Close()
	if r.verb == "ccs" {
		if err := r.readRequest(os.Stdin); err != nil {
			return err
		}
	}
	switch r.verb {
	case "top":
		return r.top(c, stdout)
	case "pipe", "gdb":
		return r.talk(id, c, stdout)
	}
	return c.Ask(r.ask, func(got control.Response) error { return r.show(c, stdout, got) })
}

// about asks a job what it is.
func about(id string) (j *control.Job, err error) {
	c, err := control.Dial(id)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	err = c.Ask(control.Request{Verb: "job"}, func(got control.Response) error {
		j = got.Job
		return nil
	})
	if err == nil && j == nil {
		err = control.ErrOver
	}
	return j, err
}

// find is the job that a word means; empty: the only one.
func find(word string) (string, error) {
	ids, err := control.Jobs()
	if err != nil {
		return "", err
	}
	var found []string
	for _, id := range ids {
		if strings.HasPrefix(id, word) {
			found = append(found, id)
		} else if pid, err := strconv.Atoi(word); err == nil {
			if j, err := about(id); err == nil && j.PID == pid {
				found = append(found, id)
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(ids) == 0:
		return "", fmt.Errorf("no job of yours runs on this machine; hint: ask where its ibrun was started")
	case len(found) == 0:
		return "", fmt.Errorf("no job is %s; hint: ibrun ctl list", word)
	}
	return "", fmt.Errorf("%d jobs run: say which by --job; hint: ibrun ctl list", len(found))
}
