package remote

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// clue is what a launcher prints for one kind of failure. The text is that of
// OpenSSH 7 to 10, of rsh-redone and of shells; docs/protocol.md does not
// depend on it, only how a failure is named.
type clue struct {
	text  string
	phase Phase
	early bool // before authentication, and passing
	hint  string
}

var clues = []clue{
	{"Could not resolve hostname", Resolve, false, "check the name: getent hosts HOST"},
	{"Name or service not known", Resolve, false, "check the name: getent hosts HOST"},
	{"unknown host", Resolve, false, "check the name: getent hosts HOST"},
	{"kex_exchange_identification", Connect, true, "the server there turns connections away (sshd: MaxStartups?)"},
	{"ssh_exchange_identification", Connect, true, "the server there turns connections away (sshd: MaxStartups?)"},
	{"Connection timed out during banner exchange", Connect, false, "something accepts connections there and says nothing: is it sshd?"},
	{"REMOTE HOST IDENTIFICATION HAS CHANGED", Authenticate, false, "its host key is not the known one; if that is right: ssh-keygen -R HOST"},
	{"Host key verification failed", Authenticate, false, "its host key is not known here; log in once by hand: ssh HOST true"},
	{"Permission denied", Authenticate, false, "a login without password must work: ssh -o BatchMode=yes HOST true"},
	{"Too many authentication failures", Authenticate, false, "name one key: --ssh-args \"-i KEY -o IdentitiesOnly=yes\""},
	{"No route to host", Connect, false, "is the node up? ping HOST"},
	{"Network is unreachable", Connect, false, "check the route: ip route get HOST"},
	{"Connection refused", Connect, false, "is sshd running there?"},
	{"Connection timed out", Connect, false, "is the node up? ping HOST"},
	{"Operation timed out", Connect, false, "is the node up? ping HOST"},
	{"Connection reset by", Connect, true, "the server there turns connections away (sshd: MaxStartups?)"},
	{"closed by remote host", Connect, true, "the server there turns connections away (sshd: MaxStartups?)"},
	{"Connection closed by", Connect, true, "the server there turns connections away (sshd: MaxStartups?)"},
	{"This account is currently not available", Begin, false, "the account has no login shell on that node"},
	{"not found", Begin, false, "look at what the shell there printed: ssh HOST true"},
}

// explain turns the end of an attempt into an error that a person can act on.
func (ses *Session) explain(t Target, err error, s *Starter) error {
	e := &Error{Host: t.Host, Phase: Begin, Tail: ses.Tail()}
	var own *Error
	if errors.As(err, &own) {
		own.Host, own.Tail = t.Host, e.Tail
		return own
	}
	end := ses.line.end()
	switch {
	case errors.Is(err, errSilent):
		e.Cause = fmt.Sprintf("%v (%v)", err, s.most(t))
		e.Hint = "does a login there hang or wait for input? try " + s.trial(t) + ", or allow more with --launch-timeout"
	case !errors.Is(err, io.EOF):
		e.Phase, e.Cause = Agent, err.Error()
	case end.lost != nil:
		e.Cause = fmt.Sprintf("the connection was lost before the agent spoke: %v", end.lost)
	case end.signal != 0:
		e.Cause = fmt.Sprintf("%s was killed by signal %d", s.name(), end.signal)
	default:
		e.Cause = fmt.Sprintf("%s ended with code %d before the agent spoke", s.name(), end.code)
		e.Hint = "try " + s.trial(t)
	}
	if errors.Is(err, io.EOF) {
		ses.look(e, t)
	}
	return e
}

// look takes phase and hint from what the launcher printed.
func (ses *Session) look(e *Error, t Target) {
	text := ses.stderr.String()
	for _, c := range clues {
		if !strings.Contains(text, c.text) {
			continue
		}
		e.Phase, e.Hint = c.phase, strings.ReplaceAll(c.hint, "HOST", t.Host)
		e.early = c.early && len(ses.noise) == 0
		for _, l := range strings.Split(text, "\n") {
			if strings.Contains(l, c.text) {
				e.Cause = strings.Trim(l, "@ \t\r")
			}
		}
		return
	}
}

func (s *Starter) name() string {
	if s.local {
		return "the guard"
	}
	return s.prefix[0]
}

// trial is a command with which a person can see the same failure.
func (s *Starter) trial(t Target) string {
	if s.local {
		return "ibrun -v"
	}
	if s.dashes {
		return "ssh -o BatchMode=yes -- " + t.Host + " true"
	}
	return s.name() + " " + t.Host + " true"
}
