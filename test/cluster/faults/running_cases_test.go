//go:build cluster || soak

package faults

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/test/vcluster/cluster"
)

// up is the first shell command of each rank. A fault is applied after all ranks have printed the word.
const up = "echo up; "

// leaves is the command of a rank that leaves processes behind, one of them in a session of its own.
const leaves = "(setsid sleep 1000 </dev/null >/dev/null 2>&1 &); sleep 1000 & exec sleep 1000"

// deaf is the command of a rank that only SIGKILL ends.
const deaf = "trap '' INT TERM HUP; while :; do sleep 1; done"

// leaf returns the name of the last node, which has no child.
func leaf() string { return fmt.Sprintf("node%04d", nodes) }

// hostOf returns the host of a place in the tree.
func hostOf(place string) string {
	return map[string]string{"child of the root": "node0001", "inner node": "node0002", "leaf": leaf()}[place]
}

// tree returns the options of a job over all nodes. With a fan-out of 32 all agents are children of the root.
func tree(shape string) []string {
	return []string{"--hosts", fmt.Sprintf("node[0001-%04d]", nodes), "--tree", shape}
}

// onAll returns a case of a job on all nodes. Its fault is due when all ranks have printed "up".
func onAll(fault, shape, script string) entry {
	return entry{class: "C", fault: fault, args: append(tree(shape), "sh", "-c", up+script), ups: nodes,
		code: []int{125}}
}

// runningCases returns faults of jobs that run or end.
func runningCases() (cases []entry) {
	return slices.Concat(killCases(), endingCases(), cutCases(), rankCases(), streamCases())
}

// killedRoles maps the role in the name of a case to the roles of the processes that the case kills. They differ only
// for the role both.
var killedRoles = map[string][]string{
	agent: {agent}, reaper: {reaper}, both: {reaper, agent}, session: {session}, rank: {rank},
}

// killCases returns cases that kill processes of each role: at a leaf, an inner node and a child of the root in a tree
// of depth three, and at a child of the root in a flat tree. It sets the field soak of most cases that are not at the
// inner node.
func killCases() (cases []entry) {
	for _, shape := range []string{deep, "kary:32"} {
		for _, place := range []string{"leaf", "inner node", "child of the root"} {
			if shape == "kary:32" && place != "child of the root" {
				continue // all agents are children of the root
			}
			for _, role := range []string{agent, reaper, both, session, rank} {
				e := onAll(fmt.Sprintf("SIGKILL of %s: %s, %s", role, place, shape), shape, leaves)
				e.strike, e.prints = send(unix.SIGKILL, hostOf(place), killedRoles[role]...), hostOf(place)+" was lost"
				if role == rank {
					e.prints, e.code = "on "+hostOf(place)+" was killed by signal 9", []int{137}
				}
				e.soak = place != "inner node" && role != agent
				cases = append(cases, e)
			}
		}
	}
	for _, place := range []string{"leaf", "inner node", "child of the root"} {
		e := onAll("SIGKILL of agent while others are started: "+place, deep, "exec sleep 4")
		host := hostOf(place)
		e.ready = func(s *site) bool { return len(s.of(agent, host)) > 0 }
		e.strike, e.prints = send(unix.SIGKILL, host, agent), host
		e.code = []int{0, 125} // 0: other agents start the agents that the killed one did not start
		e.soak = place != "inner node"
		cases = append(cases, e)
		e = onAll("SIGKILL of agent while the job ends: "+place, deep, deaf)
		e.strike = func(s *site, j *job) error {
			p, err := s.at(agent, host) // found before the interrupt: on a busy machine this takes long
			if err != nil {
				return err
			}
			fd, err := s.aim(p)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			j.interrupt()
			<-time.After(300 * time.Millisecond) // within the grace period of 2 s
			return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		e.code, e.prints = []int{130}, "."
		e.soak = place != "inner node"
		cases = append(cases, e)
	}
	two := onAll("parent and child agents in the same instant", deep, leaves)
	two.strike = sendAll(unix.SIGKILL, target{"node0001", agent}, target{"node0002", agent})
	two.prints = "node000[12] was lost"
	ssh := onAll("SIGKILL of an ssh client", deep, leaves)
	ssh.args = append([]string{"--ssh", "exec"}, ssh.args...)
	ssh.strike, ssh.prints = send(unix.SIGKILL, "node0001", client), "killed by signal 9"
	first := onAll("SIGKILL of the root", deep, leaves)
	first.strike, first.code = interrupts(unix.SIGKILL), []int{137}
	exec := first
	exec.fault, exec.args = "SIGKILL of the root, sessions of the program ssh", append([]string{"--ssh", "exec"}, first.args...)
	contained := onAll("SIGKILL of root, reaper and agent in the same instant, --contain", deep,
		"(env -i setsid sleep 1000 </dev/null >/dev/null 2>&1 &); exec sleep 1000")
	contained.args = append([]string{"--contain"}, contained.args...)
	contained.strike = sendAll(unix.SIGKILL, target{cluster.FrontName, root}, target{"node0002", reaper},
		target{"node0002", agent})
	contained.code = []int{137}
	bare := onAll("SIGKILL of reaper and agent, descendants without environment: their control group", deep,
		"(env -i setsid sleep 1000 </dev/null >/dev/null 2>&1 &); exec sleep 1000")
	bare.strike, bare.prints = send(unix.SIGKILL, "node0002", reaper, agent), "node0002 was lost"
	short := onAll("an agent stopped for 5 s: no effect", deep, "sleep 8")
	short.strike = func(s *site, j *job) error {
		err := send(unix.SIGSTOP, "node0002", agent)(s, j)
		<-time.After(5 * time.Second) // the fault's length
		return errors.Join(err, send(unix.SIGCONT, "node0002", agent)(s, j))
	}
	short.code = []int{0}
	return append(cases, two, ssh, first, exec, contained, bare, short)
}

// endingCases returns cases in which signals or a time limit end the job. In some of them the ranks ignore signals.
func endingCases() (cases []entry) {
	ordered := func(fault, script string, code int, signals ...unix.Signal) entry {
		e := onAll(fault, deep, script)
		e.strike, e.code, e.prints = interrupts(signals...), []int{code}, "."
		return e
	}
	return []entry{
		ordered("SIGINT, ranks ignore it and SIGTERM", deaf, 130, unix.SIGINT),
		ordered("SIGINT twice", deaf, 130, unix.SIGINT, unix.SIGINT),
		ordered("SIGTERM", "exec sleep 1000", 143, unix.SIGTERM),
		inSoak(ordered("SIGHUP", "exec sleep 1000", 129, unix.SIGHUP)),
		ordered("SIGINT, ranks are stopped", "kill -STOP $$", 130, unix.SIGINT),
		inSoak(entry{class: "C", fault: "--timeout", args: append(tree(deep), "--timeout", "3", "sh", "-c", up+leaves),
			code: []int{124}, prints: "--timeout"}),
	}
}

// inSoak returns a case that only make soak plays.
func inSoak(e entry) entry {
	e.soak = true
	return e
}

// cutCases returns losses of a node's network, or of the node.
func cutCases() (cases []entry) {
	cut := func(fault, shape, host, script string, strike, after func(*site, string) error) entry {
		e := onAll(fault, shape, script)
		e.strike = func(s *site, _ *job) error { return strike(s, host) }
		e.after = func(s *site) error { return after(s, host) }
		e.prints, e.cut = host+" was lost", true
		return e
	}
	down := func(s *site, host string) error { return s.Cut(host) }
	heal := func(s *site, host string) error { return s.Heal(host) }
	filter := func(rules string) func(*site, string) error {
		return func(s *site, host string) error { return s.filter(host, rules) }
	}
	const busy = "(while :; do echo line; sleep 0.01; done) & exec sleep 1000"
	for _, place := range []string{"leaf", "inner node", "child of the root"} {
		e := cut("link down for ever: "+place, deep, hostOf(place), leaves, down, heal)
		e.soak = place != "inner node"
		cases = append(cases, e)
	}
	brief := onAll("link down for 3 s: no effect", deep, "sleep 8")
	brief.strike = func(s *site, _ *job) error {
		err := s.Cut("node0002")
		<-time.After(3 * time.Second) // the fault's length
		return errors.Join(err, s.Heal("node0002"))
	}
	brief.code = []int{0}
	crash := onAll("a node loses its power", deep, leaves)
	crash.strike = func(s *site, _ *job) error { return s.Crash("node0002") }
	crash.after = func(s *site) error { return s.restart("node0002") }
	crash.prints, crash.cut = "node0002 was lost", true
	crash.wiped = true // no process is left that could remove them
	frozen := onAll("a node stands still for 4 s: no effect", deep, "sleep 8")
	frozen.strike = func(s *site, _ *job) error {
		err := s.Freeze("node0002")
		<-time.After(4 * time.Second) // the fault's length
		return errors.Join(err, s.Thaw("node0002"))
	}
	frozen.code = []int{0}
	return append(cases, brief, crash, frozen,
		inSoak(cut("link down for ever: child of the root, flat", "kary:32", "node0001", leaves, down, heal)),
		inSoak(cut("link down for ever, output under way", deep, "node0002", busy, down, heal)),
		cut("nothing leaves a node", deep, "node0002", leaves, filter(dropOut), (*site).unfilter),
		cut("nothing comes to a node", deep, "node0002", leaves, filter(dropIn), (*site).unfilter),
		cut("connections are reset", deep, "node0002", leaves, filter(reset), (*site).unfilter))
}

// restart starts a crashed node again and connects it to the network. It records the processes and files of the node,
// so that later checks do not count them as left by a job.
func (s *site) restart(node string) error {
	if err := errors.Join(s.Start(node), s.Heal(node)); err != nil {
		return err
	}
	procs, err := s.Processes(node)
	for _, p := range procs {
		s.quiet[p.Pid] = true
	}
	for f := range s.Files() {
		if host, _, _ := strings.Cut(f, ":"); host == node {
			s.files[f] = true
		}
	}
	return err
}

// rankCases returns cases of ranks that fail, or leave something behind.
func rankCases() (cases []entry) {
	ends := func(fault, script, prints string, code int) entry {
		return entry{class: "C", fault: fault, args: append(tree(deep), "sh", "-c", script),
			code: []int{code}, prints: prints}
	}
	last := func(script string) string {
		return fmt.Sprintf("[ $RANK = %d ] || exec sleep 1000; ", nodes-1) + script
	}
	final := fmt.Sprintf("rank %d on %s", nodes-1, leaf())
	const silent = " </dev/null >/dev/null 2>&1 & "
	const fork = "r() { [ $1 = 0 ] && exec sleep 1000; r $(($1-1)) & }; for i in 1 2; do r 100; done"
	return []entry{
		inSoak(ends("rank exits with 1", last("exit 1"), final+" exited with code 1", 1)),
		ends("rank exits with 7", last("exit 7"), final+" exited with code 7", 7),
		inSoak(ends("rank exits with 255", last("exit 255"), final+" exited with code 255", 255)),
		inSoak(ends("SIGSEGV of a rank", last("kill -SEGV $$"), final+" .*signal 11", 139)),
		ends("all ranks exit with 3 at once", "exit 3", "rank [0-9]+ on node00.. exited with code 3", 3),
		ends("double fork, setsid", "(setsid sleep 1000 &)"+silent+"true", "", 0),
		ends("descendant without environment", "env -i setsid sleep 1000"+silent+"true", "", 0),
		inSoak(ends("bounded fork bomb", fork+silent+"true", "", 0)),
		ends("descendant holds standard output", "setsid sleep 1000 & true", "", 0),
		ends("--keep-going: the others end by themselves",
			fmt.Sprintf("[ $RANK != %d ] || exit 9; sleep 1", nodes-1), final+" exited with code 9", 9),
	}
}

// streamCases returns cases of readers and sources of data that end or fail.
func streamCases() []entry {
	shell := func(fault, script string, code int, prints string, words ...string) entry {
		return entry{class: "C", fault: fault, shell: []string{"bash", "-c", "set -o pipefail; " + script, "sh"},
			args: append(tree(deep), words...), code: []int{code}, prints: prints}
	}
	const much = "head -c 4000000 /dev/zero | tr '\\0' a | fold -w 99; echo"
	lines := inSoak(shell("4 MB from each rank: lines whole", `"$@" | grep -cvE '^a{99}$|^a{4}$|^$' || true`, 0, "",
		"sh", "-c", much))
	lines.out = "^0\n$"
	sums := shell("16 MB from one rank: byte-exact", `"$@" | sha256sum`, 0, "", "sh", "-c",
		fmt.Sprintf("[ $RANK != %d ] || seq 10000000 | head -c 16000000", nodes-1))
	sums.check = func(s *site) error {
		return command("sh", "-c", `[ "$(seq 10000000 | head -c 16000000 | sha256sum)" = "$(cat `+
			filepath.Join(s.dir, "out")+`)" ]`)
	}
	flood := inSoak(onAll("Ctrl-C while all ranks print", deep, "exec yes"))
	flood.code, flood.prints, flood.strike = []int{130}, ".", interrupts(unix.SIGINT)
	return []entry{lines, sums, flood,
		shell("| head -1", `"$@" | head -1 >/dev/null`, 141, "", "yes"),
		shell("/dev/full", `"$@" >/dev/full`, 125, "no space left", "yes"),
		shell("standard input of 16 MB that nobody reads", `head -c 16000000 /dev/zero | "$@"`, 141, "", "true"),
		inSoak(shell("standard input closed", `"$@" <&-`, 0, "", "cat")),
	}
}
