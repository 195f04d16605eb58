package remote

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"ibrun/bootstrap/reaper"
)

// clue is what is printed by one kind of failure. The text is that of OpenSSH 7
// to 10, of rsh-redone, of shells and of Go's runtime; docs/dev/protocol.md does not
// depend on it, only how a failure is named.
type clue struct {
	text  string
	phase Phase
	early bool // before authentication, and passing
	hint  string
}

// loginClues are printed by a launcher that did not get in.
var loginClues = []clue{
	{adoption, Authenticate, true,
		"does the job still run? squeue -w HOST; or let Slurm start the agents: --launcher slurm"},
	{"Could not resolve hostname", Resolve, false, "check the name: getent hosts HOST"},
	{"Name or service not known", Resolve, false, "check the name: getent hosts HOST"},
	{"unknown host", Resolve, false, "check the name: getent hosts HOST"},
	{"kex_exchange_identification", Connect, true, "the server there turns connections away (sshd: MaxStartups?)"},
	{"ssh_exchange_identification", Connect, true, "the server there turns connections away (sshd: MaxStartups?)"},
	{"Connection timed out during banner exchange", Connect, false,
		"connections are accepted there without an answer: is it sshd?"},
	{"REMOTE HOST IDENTIFICATION HAS CHANGED", Authenticate, false,
		"its host key is not the known one; if that is right: ssh-keygen -R HOST"},
	{"Host key verification failed", Authenticate, false,
		"its host key is not known here; log in once by hand: ssh HOST true"},
	{"Permission denied", Authenticate, false, "a login without password must work: ssh -o BatchMode=yes HOST true"},
	{"Too many authentication failures", Authenticate, false,
		"name one key: --ssh-args \"-i KEY -o IdentitiesOnly=yes\""},
	{"No route to host", Connect, false, "is the node up? ping HOST"},
	{"Network is unreachable", Connect, false, "check the route: ip route get HOST"},
	{"Connection refused", Connect, false, "is sshd running there?"},
	{"Connection timed out", Connect, false, "is the node up? ping HOST"},
	{"Operation timed out", Connect, false, "is the node up? ping HOST"},
	{"Connection reset by", Connect, true, "the server there turns connections away (sshd: MaxStartups?)"},
	{"closed by remote host", Connect, true, "the server there turns connections away (sshd: MaxStartups?)"},
	{"Connection closed by", Connect, true, "the server there turns connections away (sshd: MaxStartups?)"},
}

// adoption is what Slurm's module for sshd prints where the user has no job, which may be so for a
// moment after a job has begun.
const adoption = "Access denied by pam_slurm_adopt"

// starterClues are printed by a resource manager's starter.
var starterClues = []clue{
	{"execution daemon on host", Connect, false,
		"does the parallel environment have control_slaves TRUE? qconf -sp $PE; or write --launcher ssh"},
	{"Invalid job id specified", Connect, false, "has the job ended? squeue -j $SLURM_JOB_ID"},
	{"Unable to create step", Connect, false,
		"what holds the job's steps? squeue -s -j $SLURM_JOB_ID; or write --launcher ssh"},
	{"Job step creation temporarily disabled", Connect, false,
		"what holds the job's steps? squeue -s -j $SLURM_JOB_ID; or write --launcher ssh"},
	{"Unable to contact slurm controller", Connect, false, "does it answer? scontrol ping; or write --launcher ssh"},
	{"launch failed", Begin, false, "is the node up? sinfo -n HOST; or write --launcher ssh"},
}

// shellClues are printed by the login shell, or by what it starts.
var shellClues = []clue{
	{"This account is currently not available", Begin, false, "the account has no login shell on that node"},
	{"Permission denied", Begin, false, "can /bin/sh be run there? ssh HOST \"ls -lL /bin/sh\""},
	{"not found", Begin, false, "look at what the shell there printed: ssh HOST true"},
	{"No such file or directory", Begin, false, "look at what the shell there printed: ssh HOST true"},
	{"Exec format error", Begin, false, "is it a program for that machine? ssh HOST uname -m"},
}

// limitClues are printed by a shell or an agent that the node gives too little.
var limitClues = []clue{
	{"failed to create new OS thread", Agent, false, limitHint("few threads", "-u")},
	{"fork: retry", Begin, false, limitHint("few processes", "-u")},
	{"Cannot fork", Begin, false, limitHint("few processes", "-u")},
	{"fork: Resource temporarily unavailable", Begin, false, limitHint("few processes", "-u")},
	{"fork/exec /proc/self/exe: resource temporarily unavailable", Agent, false, limitHint("few processes", "-u")},
	{"failed to reserve page summary memory", Agent, false, limitHint("little memory", "-v")},
	{"cannot reserve arena virtual address space", Agent, false, limitHint("little memory", "-v")},
	{"failed to allocate", Agent, false, limitHint("little memory", "-v")},
	{"out of memory", Agent, false, limitHint("little memory", "-v")},
	{"annot allocate memory", Agent, false, limitHint("little memory", "-v")},
}

func limitHint(what, option string) string {
	return "a session there may have too " + what + ": ssh HOST \"ulimit " + option + "\""
}

// clueIn returns the first clue that some text has, and the last line with it.
func clueIn(clues []clue, text string) (c clue, line string, found bool) {
	for _, c := range clues {
		for l := range strings.Lines(text) {
			if strings.Contains(l, c.text) {
				line, found = strings.Trim(l, "@ \t\r\n"), true
			}
		}
		if found {
			return c, line, true
		}
	}
	return clue{}, "", false
}

// explain turns the end of an attempt into an error that a person can act on.
func (ses *Session) explain(t Target, err error, s *Starter) error {
	e := &Error{Host: t.Host, Phase: ses.phase, Tail: ses.Tail()}
	var own *Error
	switch {
	case errors.As(err, &own):
		own.Host, own.Tail = t.Host, e.Tail
		return own
	case errors.Is(err, errSilent), errors.Is(err, errStuck):
		e.Cause = fmt.Sprintf("%v in %v", err, s.most(t))
		e.Hint = "is the network or a disk there slow? allow more with --launch-timeout"
		if ses.phase == Begin {
			e.Hint = "does a login there hang or wait for input? try " + s.trial(t) +
				", or allow more with --launch-timeout"
		}
	case !closed(err):
		e.Phase, e.Cause = Agent, err.Error()
	default:
		e.Cause, e.Hint = ses.ended()+", before the agent spoke", "try "+s.trial(t)
		ses.look(e, t)
	}
	return e
}

// look searches the session's output for a known error message. If it finds one, it sets the phase, cause and hint of e
// accordingly.
func (ses *Session) look(e *Error, t Target) {
	clues := slices.Concat(ses.loginClues(), shellClues)
	if ses.managed {
		clues = slices.Concat(starterClues, clues)
	}
	if cause, hint := ses.died(); cause != "" {
		e.Phase, e.Cause, e.Hint = Agent, cause, hint
	} else if e.take(clues, ses.stderr.String()) {
		e.early = e.early && len(ses.noise) == 0
	}
	e.Hint = strings.ReplaceAll(e.Hint, "HOST", t.Host)
}

// take sets the phase, cause, hint and early of e from the first of clues that occurs in text. It returns false if
// text contains none of them.
func (e *Error) take(clues []clue, text string) bool {
	c, line, found := clueIn(clues, text)
	if found {
		e.Phase, e.Cause, e.Hint, e.early = c.phase, line, c.hint, c.early
	}
	return found
}

// loginClues are those that may be in what the session printed: none if this
// process logged in itself, or the launcher did and what it ran ended.
func (ses *Session) loginClues() []clue {
	code := ses.End().Code
	if ses.launcher == "" || ses.launcher == "ssh" && code != sshFailed || code == notRun || code == notFound {
		return nil
	}
	return loginClues
}

// died says that the shell or the agent was given too little by its node, or
// what stopped Go's runtime; empty: nothing of that was printed.
func (ses *Session) died() (cause, hint string) {
	alarm := ses.stderr.alarm()
	text := alarm
	if text == "" {
		text = ses.stderr.String()
	}
	if c, line, ok := clueIn(limitClues, text); ok {
		return "the node gives it too little: " + line, c.hint
	}
	if alarm != "" {
		return "its agent crashed: " + alarm, ""
	}
	return "", ""
}

// Codes with which sessions end.
const (
	// CutOff is that of an agent which has received nothing from its parent.
	CutOff = 124
	// sshFailed is the program ssh's own: it lost the connection or never had it,
	// or a signal ended the command (ssh(1), EXIT STATUS).
	sshFailed = 255
	// notRun and notFound are a shell's of what it could not start.
	notRun, notFound = 126, 127
	// killed and a signal is that of a reaper whose agent, or of a shell whose
	// command, a signal ended.
	killed = 128
)

// maxSignal is the last signal of Linux.
const maxSignal = 64

// ended says how the session ended, once it has, as a sentence's beginning.
func (ses *Session) ended() string {
	e := ses.End()
	who, command := "its agent", "its reaper"
	if ses.phase != Agent {
		who, command = "the command there", "the command there"
	}
	switch signal := syscall.Signal(e.Code - killed); {
	case e.Lost != nil:
		return "the connection to its sshd was lost: " + loss(e.Lost)
	case e.Signal != 0 && ses.launcher != "":
		return fmt.Sprintf("%s was killed by signal %d (%v)", ses.launcher, e.Signal, e.Signal)
	case e.Signal != 0:
		return fmt.Sprintf("%s was killed by signal %d (%v)", command, e.Signal, e.Signal)
	case e.Code == sshFailed && ses.launcher == "ssh":
		return "ssh failed (code 255)"
	case e.Code == CutOff && ses.phase == Agent:
		return "its agent received nothing from this host and ended itself"
	case e.Code == reaper.KilledCode && ses.phase == Agent:
		// The reaper is process 1 of a PID namespace, so only SIGKILL can kill it.
		return "its reaper was killed by signal 9 (killed)"
	case signal > 0 && signal <= maxSignal:
		return fmt.Sprintf("%s was killed by signal %d (%v)", who, signal, signal)
	default:
		return fmt.Sprintf("%s ended with code %d", who, e.Code)
	}
}

// loss is why a connection of ours has ended.
func loss(err error) string {
	switch {
	case errors.Is(err, io.EOF):
		return "closed at the other end"
	case errors.Is(err, net.ErrClosed):
		return "closed at this end"
	}
	return err.Error()
}

// Cause says how the session of an agent ended, once it has.
func (ses *Session) Cause() string {
	select {
	case <-ses.Done():
	default:
		return "its end of the link was closed"
	}
	ses.drain()
	if cause, _ := ses.died(); cause != "" {
		return cause
	}
	cause := ses.ended()
	if line := lastLine(ses.stderr.String()); line != "" && ses.launcher == "ssh" && ses.End().Code == sshFailed {
		cause += ": " + line
	}
	return cause
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// trial is a command with which a person can see the same failure.
func (s *Starter) trial(t Target) string {
	if s.local {
		return "ibrun -v"
	}
	if s.dashes {
		return "ssh -o BatchMode=yes -- " + t.Host + " true"
	}
	if s.alloc != nil {
		return strings.Join(s.alloc.argv("true", t.Host), " ")
	}
	return s.prefix[0] + " " + t.Host + " true"
}
