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

// up is what each rank prints first.
const up = "echo up; "

// leaves is a rank that leaves processes behind, one of them in a session of its own.
const leaves = "(setsid sleep 1000 </dev/null >/dev/null 2>&1 &); sleep 1000 & exec sleep 1000"

// deaf is a rank that only SIGKILL ends.
const deaf = "trap '' INT TERM HUP; while :; do sleep 1; done"

// places of a complete tree of 14 nodes and fan-out 2, of depth three.
var places = map[string]string{"child of the root": "node0001", "inner node": "node0002", "leaf": "node0007"}

const allNodes = 14

// tree is a job over all nodes. With a fan-out of 32 all agents are children of the root.
func tree(shape string) []string {
	return []string{"--hosts", fmt.Sprintf("node[0001-%04d]", allNodes), "--tree", shape}
}

// onAll makes a case of a job on all nodes whose ranks have all printed.
func onAll(fault, shape, script string) entry {
	return entry{class: "C", fault: fault, args: append(tree(shape), "sh", "-c", up+script), ups: allNodes,
		code: []int{125}, most: endedWithin}
}

// runningCases are faults of jobs that run, or end.
func runningCases() (cases []entry) {
	return slices.Concat(killCases(), endingCases(), cutCases(), rankCases(), streamCases())
}

// lost are the roles whose death loses a node.
var lost = map[string][]string{agent: {agent}, reaper: {reaper}, both: {reaper, agent}, session: {session}}

// killCases are deaths of processes at each place of a tree of depth three, and of a flat one.
func killCases() (cases []entry) {
	for _, shape := range []string{"kary:2", "kary:32"} {
		for _, place := range []string{"leaf", "inner node", "child of the root"} {
			if shape == "kary:32" && place != "child of the root" {
				continue // all agents are that
			}
			for _, role := range []string{agent, reaper, both, session} {
				e := onAll(fmt.Sprintf("SIGKILL of %s: %s, %s", role, place, shape), shape, leaves)
				e.strike, e.prints = send(unix.SIGKILL, places[place], lost[role]...), places[place]+" was lost"
				cases = append(cases, e)
			}
			e := onAll(fmt.Sprintf("SIGKILL of a rank: %s, %s", place, shape), shape, leaves)
			e.strike, e.prints = send(unix.SIGKILL, places[place], rank), `on `+places[place]+` was killed by signal 9`
			e.code = []int{137}
			cases = append(cases, e)
		}
	}
	for _, place := range []string{"leaf", "inner node", "child of the root"} {
		e := onAll("SIGKILL of agent while others are started: "+place, "kary:2", "exec sleep 4")
		host := places[place]
		e.ready = func(s *site, _ *job) bool { return len(s.of(agent, host)) > 0 }
		e.strike, e.most, e.clean, e.prints = send(unix.SIGKILL, host, agent), 20*time.Second, 65*time.Second, host
		e.code = []int{0, 125} // others may start what it could not
		cases = append(cases, e)
		e = onAll("SIGKILL of agent while the job ends: "+place, "kary:2", deaf)
		e.strike = func(s *site, j *job) error {
			p, err := s.at(agent, host) // before: to find it takes long on a busy machine
			if err != nil {
				return err
			}
			fd, err := s.aim(p)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			j.interrupt()
			<-time.After(300 * time.Millisecond) // into the grace of 2 s
			return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		e.code, e.prints = []int{130}, "."
		cases = append(cases, e)
	}
	two := onAll("parent and child agents in the same instant", "kary:2", leaves)
	two.strike = sendAll(unix.SIGKILL, target{"node0001", agent}, target{"node0002", agent})
	two.prints = "node000[12] was lost"
	ssh := onAll("SIGKILL of an ssh client", "kary:2", leaves)
	ssh.args = append([]string{"--ssh", "exec"}, ssh.args...)
	ssh.strike, ssh.prints = send(unix.SIGKILL, "node0001", client), "killed by signal 9"
	first := onAll("SIGKILL of the root", "kary:2", leaves)
	first.strike, first.code, first.most = interrupts(unix.SIGKILL), []int{137}, time.Second
	contained := onAll("SIGKILL of root, reaper and agent in the same instant, --contain", "kary:2",
		"(env -i setsid sleep 1000 </dev/null >/dev/null 2>&1 &); exec sleep 1000")
	contained.args = append([]string{"--contain"}, contained.args...)
	contained.strike = sendAll(unix.SIGKILL, target{cluster.FrontName, root}, target{"node0002", reaper},
		target{"node0002", agent})
	contained.code, contained.most = []int{137}, time.Second
	bare := onAll("SIGKILL of reaper and agent, descendants without environment: their control group", "kary:2",
		"(env -i setsid sleep 1000 </dev/null >/dev/null 2>&1 &); exec sleep 1000")
	bare.strike, bare.prints = send(unix.SIGKILL, "node0002", reaper, agent), "node0002 was lost"
	short := onAll("an agent stopped for 5 s: no effect", "kary:2", "sleep 8")
	short.strike = func(s *site, j *job) error {
		err := send(unix.SIGSTOP, "node0002", agent)(s, j)
		<-time.After(5 * time.Second) // the fault's length
		return errors.Join(err, send(unix.SIGCONT, "node0002", agent)(s, j))
	}
	short.code, short.most = []int{0}, 15*time.Second
	forEver := onAll("an agent stopped for ever", "kary:2", leaves)
	forEver.strike, forEver.prints = send(unix.SIGSTOP, "node0002", agent), "node0002 was lost.*silent for 60 s"
	forEver.most, forEver.clean = 65*time.Second, 75*time.Second
	return append(cases, two, ssh, first, contained, bare, short, forEver)
}

// endingCases are orders to end, and ranks that do not obey.
func endingCases() (cases []entry) {
	ordered := func(fault, script string, code int, most time.Duration, signals ...unix.Signal) entry {
		e := onAll(fault, "kary:2", script)
		e.strike, e.code, e.most, e.prints = interrupts(signals...), []int{code}, most, "."
		return e
	}
	return []entry{
		ordered("SIGINT", "exec sleep 1000", 130, 3*time.Second, unix.SIGINT),
		ordered("SIGINT, ranks ignore it and SIGTERM", deaf, 130, 4*time.Second, unix.SIGINT),
		ordered("SIGINT twice", deaf, 130, 1500*time.Millisecond, unix.SIGINT, unix.SIGINT),
		ordered("SIGTERM", "exec sleep 1000", 143, 4*time.Second, unix.SIGTERM),
		ordered("SIGHUP", "exec sleep 1000", 129, 4*time.Second, unix.SIGHUP),
		ordered("SIGINT, ranks are stopped", "kill -STOP $$", 130, 4*time.Second, unix.SIGINT),
		{class: "C", fault: "--timeout", args: append(tree("kary:2"), "--timeout", "3", "sh", "-c", up+leaves),
			code: []int{124}, most: 10 * time.Second, prints: "--timeout"},
	}
}

// cutCases are losses of a node's network, or of the node.
func cutCases() (cases []entry) {
	const noticed = 15 * time.Second
	cut := func(fault, shape, host, script string, strike func(*site, *round) (string, error),
		after func(*site, *round) error) entry {
		e := onAll(fault, shape, script)
		e.strike = func(s *site, _ *job) error { _, err := strike(s, victim(host)); return err }
		e.after = func(s *site) error { return after(s, victim(host)) }
		e.prints, e.most, e.clean, e.cut = host+" was lost", noticed, noticed+5*time.Second, true
		return e
	}
	const busy = "(while :; do echo line; sleep 0.01; done) & exec sleep 1000"
	for _, place := range []string{"leaf", "inner node", "child of the root"} {
		cases = append(cases, cut("link down for ever: "+place, "kary:2", places[place], leaves, down, heal))
	}
	brief := onAll("link down for 3 s: no effect", "kary:2", "sleep 8")
	brief.strike = func(s *site, _ *job) error {
		err := s.Cut("node0002")
		<-time.After(3 * time.Second) // the fault's length
		return errors.Join(err, s.Heal("node0002"))
	}
	brief.code, brief.most = []int{0}, 15*time.Second
	crash := onAll("a node loses its power", "kary:2", leaves)
	crash.strike = func(s *site, _ *job) error { return s.Crash("node0002") }
	crash.after = func(s *site) error { return s.restart("node0002") }
	crash.prints, crash.most, crash.clean, crash.cut = "node0002 was lost", noticed, noticed+5*time.Second, true
	crash.wiped = true // nobody is there to remove them
	frozen := onAll("a node stands still for 4 s: no effect", "kary:2", "sleep 8")
	frozen.strike = func(s *site, _ *job) error {
		err := s.Freeze("node0002")
		<-time.After(4 * time.Second) // the fault's length
		return errors.Join(err, s.Thaw("node0002"))
	}
	frozen.code, frozen.most = []int{0}, 15*time.Second
	return append(cases, brief, crash, frozen,
		cut("link down for ever: child of the root, flat", "kary:32", "node0001", leaves, down, heal),
		cut("link down for ever, output under way", "kary:2", "node0002", busy, down, heal),
		cut("nothing leaves a node", "kary:2", "node0002", leaves, filter(dropOut), unfilter),
		cut("nothing comes to a node", "kary:2", "node0002", leaves, filter(dropIn), unfilter),
		cut("connections are reset", "kary:2", "node0002", leaves, filter(reset), unfilter))
}

// restart brings a node back that has crashed; its init has a new number, and its files are as new.
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

// rankCases are ranks that fail, or leave something behind.
func rankCases() (cases []entry) {
	ends := func(fault, script, prints string, code int) entry {
		return entry{class: "C", fault: fault, args: append(tree("kary:2"), "sh", "-c", script),
			code: []int{code}, most: 8 * time.Second, prints: prints}
	}
	last := func(script string) string {
		return fmt.Sprintf("[ $RANK = %d ] || exec sleep 1000; ", allNodes-1) + script
	}
	const silent = " </dev/null >/dev/null 2>&1 & "
	const fork = "r() { [ $1 = 0 ] && exec sleep 1000; r $(($1-1)) & }; for i in 1 2; do r 100; done"
	return []entry{
		ends("rank exits with 1", last("exit 1"), "rank 13 on node0014 exited with code 1", 1),
		ends("rank exits with 7", last("exit 7"), "rank 13 on node0014 exited with code 7", 7),
		ends("rank exits with 255", last("exit 255"), "rank 13 on node0014 exited with code 255", 255),
		ends("SIGSEGV of a rank", last("kill -SEGV $$"), "rank 13 on node0014 .*signal 11", 139),
		ends("all ranks exit with 3 at once", "exit 3", "rank [0-9]+ on node00.. exited with code 3", 3),
		ends("double fork, setsid", "(setsid sleep 1000 &)"+silent+"true", "", 0),
		ends("descendant without environment", "env -i setsid sleep 1000"+silent+"true", "", 0),
		ends("bounded fork bomb", fork+silent+"true", "", 0),
		ends("descendant holds standard output", "setsid sleep 1000 & true", "", 0),
		ends("--keep-going: the others end by themselves", "[ $RANK != 3 ] || exit 9; sleep 1",
			"rank 3 on node0004 exited with code 9", 9),
	}
}

// streamCases are consumers and sources of data that leave or fail.
func streamCases() []entry {
	shell := func(fault, script string, code int, prints string, words ...string) entry {
		return entry{class: "C", fault: fault, shell: []string{"bash", "-c", "set -o pipefail; " + script, "sh"},
			args: append(tree("kary:2"), words...), code: []int{code}, most: 20 * time.Second, prints: prints}
	}
	const much = "head -c 4000000 /dev/zero | tr '\\0' a | fold -w 99; echo"
	lines := shell("4 MB from each of 14 ranks: lines whole", `"$@" | grep -cvE '^a{99}$|^a{4}$|^$' || true`, 0, "",
		"sh", "-c", much)
	lines.out = "^0\n$"
	sums := shell("64 MB from one rank: byte-exact", `"$@" | sha256sum`, 0, "", "sh", "-c",
		"[ $RANK != 13 ] || seq 10000000 | head -c 64000000")
	sums.check = func(s *site) error {
		return command("sh", "-c", `[ "$(seq 10000000 | head -c 64000000 | sha256sum)" = "$(cat `+
			filepath.Join(s.dir, "out")+`)" ]`)
	}
	slow := shell("slow consumer: Ctrl-C is not held up", `trap : INT; "$@" | { sleep 3; head -c 1000; } >/dev/null`,
		0, "", "sh", "-c", "yes")
	slow.code = []int{130, 141}
	slow.shell = nil
	slow.args = append(tree("kary:2"), "sh", "-c", up+"exec yes")
	slow.ups, slow.most, slow.prints = allNodes, 4*time.Second, "."
	slow.strike = interrupts(unix.SIGINT)
	return []entry{lines, sums,
		shell("| head -1", `"$@" | head -1 >/dev/null`, 141, "", "yes"),
		shell("/dev/full", `"$@" >/dev/full`, 125, "no space left", "yes"),
		shell("standard input of 64 MB that nobody reads", `head -c 64000000 /dev/zero | "$@"`, 141, "", "true"),
		shell("standard input closed", `"$@" <&-`, 0, "", "cat"),
	}
}
