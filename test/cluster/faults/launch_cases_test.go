//go:build cluster || soak

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// launchCases returns faults before all ranks run. Some of them must have no effect.
func launchCases() []entry {
	failed := func(fault, prints string, args ...string) entry {
		return entry{class: "B", fault: fault, args: args, code: []int{125}, prints: prints}
	}
	works := func(fault string, args ...string) entry {
		return entry{class: "B", fault: fault, args: args, code: []int{0}}
	}
	hosts := func(of string, more ...string) []string { return append([]string{"--hosts", of}, more...) }
	two := func(more ...string) []string { return append(hosts("node[0001-0002]", more...), "echo", "started") }
	rc := func(e entry, text string) entry {
		e.before = func(s *site) error { return s.write("node0002", "/root/.bashrc", text+"\n") }
		e.after = func(s *site) error { return s.unwrite("node0002", "/root/.bashrc") }
		return e
	}
	hole := failed("black hole", "node0002", two("--launch-timeout", "5")...)
	hole.before = func(s *site) error { return s.filter("node0002", dropIn) }
	hole.after = func(s *site) error { return s.unfilter("node0002") }
	hole.cut = true
	pit := failed("tarpit: a server that never speaks", "node0002", two("--launch-timeout", "5")...)
	pit.before = func(s *site) error { return s.signalServer("node0002", unix.SIGSTOP) }
	pit.after = func(s *site) error { return s.signalServer("node0002", unix.SIGCONT) }
	pit.cut = true
	asleep := rc(failed(".bashrc sleeps", "node0002.*dozing", two("--launch-timeout", "3")...),
		"echo dozing; sleep 999")
	asleep.keepsShell = true
	fresh := func(e entry) entry {
		e.ships = true
		before := e.before
		e.before = func(s *site) error {
			err := os.RemoveAll(filepath.Join(s.Root("node0002"), "root/.cache/ibrun"))
			if err == nil && before != nil {
				err = before(s)
			}
			return err
		}
		return e
	}
	readOnly := works("cache and /tmp read-only: another folder", two()...)
	readOnly.before = func(s *site) error {
		return s.on("node0002", "sh", "-c",
			"mkdir -p /root/.cache && mount -t tmpfs -o ro none /root/.cache && mount -o remount,ro /tmp")
	}
	readOnly.after = func(s *site) error {
		return s.on("node0002", "sh", "-c", "umount /root/.cache; mount -o remount,rw /tmp")
	}
	full := works("the folder of the copy full: another folder", two()...)
	full.before = func(s *site) error {
		return s.on("node0002", "sh", "-c", "mkdir -p /root/.cache && mount -t tmpfs -o size=64k none /root/.cache")
	}
	full.after = func(s *site) error { return s.on("node0002", "umount", "/root/.cache") }
	none := entry{class: "B", fault: "one node has no program: one line, not four",
		args: append(tree(deep), "--no-preflight", "-ppn", "4", "/tmp/only-some"),
		code: []int{127}, prints: leaf() + `.*could not be started`,
		before: func(s *site) error {
			for _, node := range s.Nodes() {
				if node == leaf() {
					continue
				}
				if err := s.on(node, "sh", "-c", "printf '#!/bin/sh\\nexec sleep 1000\\n' >/tmp/only-some; "+
					"chmod 755 /tmp/only-some"); err != nil {
					return err
				}
			}
			return nil
		},
		after: func(s *site) error {
			for _, node := range s.Nodes() {
				_ = os.Remove(filepath.Join(s.Root(node), "tmp/only-some"))
			}
			return nil
		}}
	crowd := works("14 agents on one host that admits ten logins at a time",
		append(hosts("alias[01-14]", "--tree", "flat", "--ssh-args", "-o StrictHostKeyChecking=no "+
			"-o UserKnownHostsFile=/dev/null"), "true")...)
	crowd.before = func(s *site) error { return s.alias("node0002", 14) }
	crowd.after = func(s *site) error { return s.alias("", 0) }
	slow := works("one host slow: it starts", two()...)
	interrupted := func(fault string, sig unix.Signal, code int) entry {
		return entry{class: "B", fault: fault, args: append(tree(deep), "sh", "-c", up+"exec sleep 1000"),
			code:  []int{code},
			ready: func(s *site) bool { return len(s.of(agent, "")) >= nodes/2 }, strike: interrupts(sig)}
	}
	sigint := interrupted("Ctrl-C during the launch", unix.SIGINT, 130)
	sigint.prints = "interrupt|SIGINT|INT"
	return []entry{
		failed("unknown host", "nowhere +front +resolve.*getent hosts nowhere", hosts("node0001,nowhere", "true")...),
		failed("connection refused", "refused", two("--ssh-args", "-p 9")...),
		failed("no key that counts", "permission denied.*/dev/null is no private key",
			two("--ssh-args", "-o IdentityFile=/dev/null -o IdentitiesOnly=yes")...),
		failed("host key unknown", "host key verification failed.*ssh-ed25519 SHA256:", two("--ssh-args",
			"-o UserKnownHostsFile=/dev/null -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes")...),
		failed("launcher missing", "no-such-shell", two("--launcher-exec", "no-such-shell")...),
		failed("launcher prints garbage", "node0001", two("--launcher-exec", "echo garbage")...),
		failed("launcher ends at once", "node0001", two("--launcher-exec", "false")...),
		failed("no agent at --agent-path", "node0001", two("--agent-path", "/nonexistent/ibrun")...),
		rc(works(".bashrc prints 18 KB", two()...), "seq 2000; seq 2000 >&2; printf noise"),
		rc(failed(".bashrc prints 109 KB", "64 KiB", two()...), "seq 20000"),
		rc(failed(".bashrc exits", "node0002.*bye", two()...), "echo bye >&2; exit 3"),
		asleep,
		rc(failed(".bashrc becomes another program", "node0002", two("--launch-timeout", "3")...),
			"exec true"),
		rc(works(".bashrc reads standard input that is not there", two()...), "read x </dev/null"),
		rc(slow, "sleep 2"),
		hole, pit, fresh(readOnly), fresh(full), none, crowd,
		interrupted("SIGKILL of the root during the launch", unix.SIGKILL, 137),
		sigint,
	}
}

// write writes a file on a node, and keeps the file that was there.
func (s *site) write(node, path, text string) error {
	name := s.Root(node) + path
	_ = os.Rename(name, filepath.Join(s.dir, "before"))
	return os.WriteFile(name, []byte(text), 0o644)
}

// unwrite restores the file that write has replaced.
func (s *site) unwrite(node, path string) error {
	name := s.Root(node) + path
	text, err := os.ReadFile(filepath.Join(s.dir, "before"))
	if err != nil {
		return os.Remove(name)
	}
	return os.WriteFile(name, text, 0o644)
}

// signalServer signals the sshd of a node that accepts connections.
func (s *site) signalServer(node string, sig unix.Signal) error {
	procs, err := s.Processes(node)
	if err != nil {
		return err
	}
	for _, p := range procs {
		if s.quiet[p.Pid] && len(p.Argv) > 0 && strings.Contains(p.Argv[0], "sshd") {
			return unix.Kill(p.Pid, sig)
		}
	}
	return fmt.Errorf("no sshd on %s", node)
}

// alias gives a node more names. A count of 0 removes them.
func (s *site) alias(node string, count int) error {
	name := filepath.Join(s.Etc(), "hosts")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	old, _, _ := strings.Cut(string(text), "# aliases\n")
	if count > 0 {
		old += "# aliases\n"
	}
	for i := range count {
		old += fmt.Sprintf("%s alias%02d\n", s.Address(node), i+1)
	}
	return os.WriteFile(name, []byte(old), 0o644)
}

// printed compares the standard output of the last job with a text.
func (s *site) printed(want string) error {
	out, err := os.ReadFile(filepath.Join(s.dir, "out"))
	if err == nil && string(out) != want {
		err = fmt.Errorf("standard output is %.300q, not %.300q", out, want)
	}
	return err
}
