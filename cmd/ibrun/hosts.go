package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"ibrun/internal/hostlist"
	"ibrun/job"
)

func (p *plan) warn(text string) {
	if text != "" {
		p.warnings = append(p.warnings, text)
	}
}

// leaveOut takes out of an allocation what --exclude and --nolocal name.
func (p *plan) leaveOut(r *request, alloc job.Nodes, at surroundings) (job.Nodes, error) {
	gone, found, total := map[string]bool{}, map[string]bool{}, uint64(0)
	for _, e := range r.exclude {
		if total += uint64(e.Count); total > job.MaxNodes {
			return alloc, usagef("--exclude names more than %d hosts", job.MaxNodes)
		}
		for i := range e.Count {
			gone[job.Run{Prefix: e.Prefix, Suffix: e.Suffix, Width: uint8(e.Width), Lo: e.Lo, Count: 1}.Host(i)] = true
		}
	}
	if len(gone) > 0 {
		alloc = alloc.Without(func(h string) bool {
			for _, name := range []string{h, shortName(h)} {
				if gone[name] {
					found[name] = true
					return true
				}
			}
			return false
		})
		for _, e := range r.exclude {
			if e.Count == 1 && !found[job.Run{Prefix: e.Prefix, Suffix: e.Suffix, Width: uint8(e.Width), Lo: e.Lo}.Host(0)] {
				p.warn(fmt.Sprintf("--exclude %s: no such host in the list", job.Run{Prefix: e.Prefix, Suffix: e.Suffix, Width: uint8(e.Width), Lo: e.Lo}.Host(0)))
			}
		}
	}
	if alloc.Len() == 0 {
		return alloc, usagef("--exclude leaves no host")
	}
	if r.noLocal {
		self := map[string]bool{}
		for _, name := range ownNames(at) {
			self[name] = true
		}
		if alloc = alloc.Without(func(h string) bool { return self[h] }); alloc.Len() == 0 {
			return alloc, usagef("--nolocal leaves no host")
		}
	}
	return alloc, nil
}

// holdBack takes the spares from the end of an allocation.
func (p *plan) holdBack(r *request, alloc job.Nodes, at surroundings) (job.Nodes, error) {
	left := alloc.Len() - int(r.spares)
	if r.spares == 0 {
		return alloc, nil
	}
	if left < 1 {
		return alloc, usagef("--spares %d of %s leaves none to run on: name more hosts", r.spares, plural(alloc.Len(), "host"))
	}
	p.policy.Spares = alloc.Slice(left, alloc.Len())
	if i := thisMachine(p.policy.Spares, at); i >= 0 && r.launch.Launcher != "local" {
		p.policy.SpareHere = p.policy.Spares.At(i).Host
	}
	return alloc.Slice(0, left), nil
}

// fewer checks --min-nodes against the plan.
func (p *plan) fewer(r *request) error {
	switch {
	case r.minNodes == 0:
		return nil
	case r.minNodes > uint64(p.nodes.Len()):
		return usagef("--min-nodes %d: the job has %s", r.minNodes, plural(p.nodes.Len(), "node"))
	case len(r.segments) > 1:
		return usagef("--min-nodes: with several programs it cannot be said whose ranks may be missing; use --spares")
	case r.plane > 0 || r.span:
		return usagef("--min-nodes needs ranks that are placed node by node: leave --map-by node, :SPAN and --distribution out, or use --spares")
	}
	p.policy.MinNodes = int(r.minNodes)
	return nil
}

// shortName is a host's name without its domain; an address has none.
func shortName(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	short, _, _ := strings.Cut(host, ".")
	return short
}

// ownNames are the names that cannot mean another machine.
func ownNames(at surroundings) []string {
	return []string{at.host, shortName(at.host), "localhost", "127.0.0.1", "::1"}
}

// thisMachine is the first node that is this very machine, which needs no
// remote shell, or -1. Nothing is resolved.
func thisMachine(n job.Nodes, at surroundings) int {
	best := -1
	for _, name := range ownNames(at) {
		i := n.Index(name)
		if i >= 0 && (best < 0 || i < best) && (n.At(i).User == "" || n.At(i).User == at.user) {
			best = i
		}
	}
	return best
}

// unreadAllocation says that a resource manager has given nodes which nobody
// named on the command line.
func unreadAllocation(env []string) string {
	const text = "%s is set, and this version does not read it: ranks run on this machine; write %s"
	if n, ok := lookupEnv(env, "SLURM_JOB_NUM_NODES"); ok && n != "1" {
		return fmt.Sprintf(text, "SLURM_JOB_NODELIST", `--hosts "$SLURM_JOB_NODELIST"`)
	}
	for _, name := range []string{"PBS_NODEFILE", "LSB_DJOB_HOSTFILE"} {
		if _, ok := lookupEnv(env, name); ok {
			return fmt.Sprintf(text, name, `-f "$`+name+`"`)
		}
	}
	return ""
}

// lookupEnv finds a variable; the last of several counts, and an empty one is
// not set.
func lookupEnv(env []string, name string) (value string, ok bool) {
	for _, entry := range env {
		if v, is := strings.CutPrefix(entry, name+"="); is {
			value, ok = v, v != ""
		}
	}
	return value, ok
}

// readText reads a file that must be one: a pipe would block, and a directory
// or a device is a slip of the fingers.
func readText(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, cause(err))
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, cause(err))
	case st.IsDir():
		return nil, fmt.Errorf("%s is a directory", name)
	case st.Mode()&fs.ModeNamedPipe != 0:
		return nil, fmt.Errorf("%s is a pipe: write it into a file first", name)
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	case st.Size() > hostlist.MaxFile:
		return nil, fmt.Errorf("%s has %d MiB, more than %d: is it the right file?", name, st.Size()>>20, hostlist.MaxFile>>20)
	}
	content, err := io.ReadAll(io.LimitReader(f, hostlist.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, cause(err))
	}
	if len(content) == 0 {
		return nil, fmt.Errorf("%s is empty", name)
	}
	return content, nil
}

// cause is an error without the path and the call, which its reader knows.
func cause(err error) error {
	var errno syscall.Errno
	var path *fs.PathError
	switch {
	case errors.As(err, &errno):
		return errno
	case errors.As(err, &path):
		return path.Err
	}
	return err
}

// files refuses patterns by which ranks would overwrite each other's output.
func (p *plan) files(r *request) error {
	most := uint32(0)
	for _, run := range p.nodes.Runs() {
		most = max(most, run.Ranks)
	}
	for option, file := range map[string]string{"--output": r.output.StdoutFile, "--error": r.output.StderrFile} {
		if collides(file, p.job.Size, most) {
			return usagef("%s %s: %d ranks would overwrite one file; write %%r for the rank into its name, or send ibrun's own output to a file with >", option, file, p.job.Size)
		}
	}
	return nil
}
