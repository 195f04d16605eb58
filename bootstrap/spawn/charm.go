package spawn

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/clients/charm"
	"ibrun/internal/job"
)

type (
	// CharmRank describes a rank that is started as a Charm++ program.
	CharmRank struct {
		Rank   job.Slot
		PEs    uint32
		Prints bool // what it prints is to come as frames, too; else its descriptors count
		// Resizes means that the program can continue after its number of processes has changed.
		Resizes bool
	}
)

// startsByCharmrun reports whether the program at path uses the netlrts layer of Charm++ and env does not contain
// NETSTART. By this variable, charmrun tells such a program where its peers are.
func startsByCharmrun(path string, env []string) bool {
	if slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "NETSTART=") }) {
		return false
	}
	names, err := neededLibraries(path)
	if err != nil {
		return false
	}
	inCPlusPlus := len(names) == 0 ||
		slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "libstdc++") })
	if !inCPlusPlus {
		return false
	}
	variable := append([]byte(strings.ToUpper("netstart")), 0) // computed, because ibrun must not contain it
	return holds(path, []byte(charm.NodeTab), variable)
}

// resizes reports whether a program of Charm++ was built so that its number of processes can change while it runs.
func resizes(path string) bool { return holds(path, []byte(charm.ReallocAck)) }

// mostConstants limits the size in bytes of a program's constants that holds searches. NAMD has 3 MB of them.
const mostConstants = 64 << 20

// holds reports whether the section .rodata of the ELF file at path, which contains the program's constants, contains
// every byte sequence in all. It maps the section, so that the search adds no anonymous memory to the agent.
func holds(path string, all ...[]byte) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	program, err := elf.NewFile(file)
	if err != nil {
		return false
	}
	s := program.Section(".rodata")
	if s == nil || s.Flags&elf.SHF_COMPRESSED != 0 || s.FileSize == 0 || s.FileSize > mostConstants {
		return false
	}
	within := s.Offset % uint64(os.Getpagesize())
	text, err := unix.Mmap(int(file.Fd()), int64(s.Offset-within), int(s.FileSize+within), unix.PROT_READ,
		unix.MAP_PRIVATE)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Munmap(text) }()
	return !slices.ContainsFunc(all, func(w []byte) bool { return !bytes.Contains(text, w) })
}

// offerCharm opens the port for Charm++ programs once.
func (s *Set) offerCharm() error {
	p := &s.Charm
	if p.tried {
		return p.err
	}
	p.tried, p.name, p.events = true, "the port of Charm++ programs", s.cfg.Events
	p.received, p.closed = p.events.CharmReceived, p.events.CharmClosed
	p.err = p.open()
	if l := s.cfg.Job.Layout; s.cfg.NodeIndex == 0 && l.Plane() != 0 && l.Nodes() > 1 {
		s.cfg.Events.Warn("ranks are dealt to the nodes in turn, and Charm++ takes processes of successive numbers " +
			"for those of one host; hint: --map-by slot")
	}
	return p.err
}

// prepareCharm adds the variables that charmrun would set to the environment of a rank.
func (s *Set) prepareCharm(env *environment, r *rank, resizes bool) error {
	if err := s.offerCharm(); err != nil {
		return err
	}
	pes, err := charm.PEs(r.program.Argv)
	if err != nil {
		return err
	}
	out := s.cfg.Job.Output
	r.charm = true
	s.cfg.Events.CharmStarting(CharmRank{
		Rank: r.slot, PEs: pes, Resizes: resizes, Prints: !r.terminal && out.StdoutFile == "" && out.StderrFile == "",
	})
	for _, entry := range []string{
		"NETSTART=" + num(r.rank) + " 127.0.0.1 " + strconv.Itoa(s.Charm.number) + " " +
			strconv.Itoa(os.Getpid()) + " 0",
		"NETMAGIC=" + num(netMagic(s.cfg.Job.Secret[:])),
		"CmiMyForks=0", "CmiMyNode=" + num(r.rank), "CmiNumNodes=" + num(s.cfg.Job.Size),
		"CmiMyNodeSize=" + strconv.Itoa(max(s.machine.Allowed.Len(), 1)),
	} {
		env.set(entry)
	}
	return nil
}

// netMagic returns a number that identifies the job. Programs of the job send its low 8 bits in each datagram. It
// reveals nothing about the secret.
func netMagic(secret []byte) uint32 {
	sum := sha256.Sum256(append([]byte("netmagic "), secret...))
	return binary.BigEndian.Uint32(sum[:]) >> 1 // it is read as an int
}

// Mute reports the output that a rank has written so far, and then CharmMuted. Later output of the rank is dropped.
// Mute does this in a new goroutine.
func (s *Set) Mute(slot job.Slot) {
	r := s.rank(slot)
	go func() {
		for _, rd := range r.readers[1:] {
			rd.mute()
		}
		s.cfg.Events.CharmMuted(slot)
	}()
}

// mute makes the reader drop all later output. It returns after the output that is already in the stream has been
// reported.
func (r *reader) mute() {
	r.mu.Lock()
	f := r.file
	r.muting = true
	if f != nil {
		_ = f.SetReadDeadline(time.Now())
	}
	r.mu.Unlock()
	if f == nil {
		return
	}
	select {
	case <-r.muted:
	case <-r.ended:
	}
}

// silenced reports whether mute was called.
func (r *reader) silenced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.muting
}

// discard drops output until the stream ends, or until some time after the end of the rank.
func (r *reader) discard(buf []byte) {
	r.mu.Lock()
	r.drops = true
	r.mu.Unlock()
	close(r.muted)
	for {
		if _, err := r.read(buf, 0); err != nil {
			return
		}
	}
}
