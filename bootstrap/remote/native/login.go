package native

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// login is one connection on its way.
type login struct {
	cfg     *Config
	reached func(Phase)
	phase   atomic.Value // Phase
	banner  func(string)
	host    *hostCheck
	keys    *keyring
	next    int           // of keys.signers
	offers  []string      // methods that the server takes, as last said
	tried   []string      // types of keys that it refused
	every   time.Duration // of silence, between keepalives
	dialer  func(ctx context.Context, by time.Time) (net.Conn, error)
}

func (l *login) to(p Phase) {
	l.phase.Store(p)
	l.reached(p)
}

func (l *login) at() Phase { return l.phase.Load().(Phase) }

// fail is an error of where the login is.
func (l *login) fail(hint, format string, args ...any) *Error {
	return &Error{Phase: l.at(), Cause: fmt.Sprintf(format, args...), Hint: hint}
}

// silent is the error of a server that stopped answering.
func (l *login) silent() *Error {
	return l.fail("does a login there hang? ssh -v -o BatchMode=yes HOST true", "no answer from its sshd in time")
}

// expired reports whether a context is over, or its deadline, which the
// connection shares, has come and the context is about to be.
func expired(ctx context.Context) bool {
	limit, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(limit)
}

// connect brings a login up to where sessions can be opened.
func (l *login) connect(ctx context.Context) (*ssh.Client, *conn, error) {
	config, err := l.prepare()
	if err != nil {
		return nil, nil, err
	}
	defer l.keys.close()
	most := cmp.Or(l.cfg.ConnectTimeout, connectTimeout)
	by := time.Now().Add(most)
	l.to(Connect)
	link, err := l.dialer(ctx, by)
	if err != nil {
		return nil, nil, err
	}
	c, err := newConn(link, func() { l.to(KeyExchange) })
	if err != nil {
		link.Close()
		return nil, nil, l.fail("", "%v", err)
	}
	stop := context.AfterFunc(ctx, func() { link.Close() })
	defer stop()
	l.to(Version)
	_ = link.SetDeadline(by)
	// The library calls back at each key exchange of the connection. Only the
	// first is a step of the login; whoever has the session then sets its limits.
	believed := sync.OnceFunc(func() {
		l.to(Authenticate)
		limit, _ := ctx.Deadline()
		_ = link.SetDeadline(limit)
	})
	checked := config.HostKeyCallback
	config.HostKeyCallback = func(name string, addr net.Addr, key ssh.PublicKey) error {
		err := checked(name, addr, key)
		if err == nil {
			believed()
		}
		return err
	}
	up, channels, requests, err := ssh.NewClientConn(c, l.cfg.Host, config)
	if err != nil {
		link.Close()
		return nil, nil, l.explain(ctx, err, by, most)
	}
	return ssh.NewClient(up, channels, requests), c, nil
}

// prepare finds keys, known hosts and algorithms before anything is sent.
func (l *login) prepare() (config *ssh.ClientConfig, err error) {
	config = &ssh.ClientConfig{User: l.cfg.User, ClientVersion: "SSH-2.0-ibrun", AuthCallback: l.authenticate}
	config.BannerCallback = func(text string) error { l.banner(text); return nil }
	config.RekeyThreshold = l.cfg.RekeyBytes
	if config.KeyExchanges, err = kexes.pick(l.cfg.Kex); err != nil {
		return nil, err
	}
	if config.Ciphers, err = ciphers.pick(l.cfg.Ciphers); err != nil {
		return nil, err
	}
	if config.MACs, err = macs.pick(l.cfg.MACs); err != nil {
		return nil, err
	}
	if l.host, err = newHostCheck(l.cfg); err != nil {
		return nil, err
	}
	config.HostKeyCallback = l.host.check
	if config.HostKeyAlgorithms, err = l.host.algorithms(); err != nil {
		return nil, err
	}
	l.keys, err = newKeyring(l.cfg)
	return config, err
}

// resendMost is the longest time between two repetitions of what is not acknowledged, where the
// kernel can (Linux 6.15). By default each time is twice the one before: after a cut of almost five
// seconds TCP may be silent for ten, after which a host is given up. With one second, TCP itself
// would give up after 14, and the cause that is told would be less exact.
const resendMost = 2 * time.Second

func resendSoon(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS, int(resendMost.Milliseconds()))
	})
}

// dial connects, as often as the configuration says.
func (l *login) dial(ctx context.Context, by time.Time) (net.Conn, error) {
	d := net.Dialer{Deadline: by, Control: resendSoon}
	if l.cfg.NoKeepAlive {
		d.KeepAlive = -1
	}
	if l.cfg.Bind != "" {
		ip := net.ParseIP(l.cfg.Bind)
		if ip == nil {
			return nil, &Unfit{Why: "bindaddress " + l.cfg.Bind + " is no address"}
		}
		d.LocalAddr = &net.TCPAddr{IP: ip}
	}
	to := net.JoinHostPort(l.cfg.Host, strconv.Itoa(int(l.cfg.Port)))
	var err error
	for range l.cfg.Attempts {
		var c net.Conn
		if c, err = d.DialContext(ctx, l.cfg.Network, to); err == nil {
			return c, nil
		}
	}
	var dns *net.DNSError
	var family *net.AddrError
	var timeout net.Error
	switch {
	case errors.As(err, &dns), errors.As(err, &family):
		// The C library may know more places to look than we do.
		return nil, &Unfit{Why: fmt.Sprintf("%s is not found without the C library", l.cfg.Host)}
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, l.fail("is sshd running there?", "%s: connection refused", to)
	case errors.Is(err, syscall.EHOSTUNREACH):
		return nil, l.fail("is the node up? ping HOST", "%s: no route to host", to)
	case errors.Is(err, syscall.ENETUNREACH):
		return nil, l.fail("check the route: ip route get HOST", "%s: network is unreachable", to)
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil, l.fail("is the node up? ping HOST", "%s: connection timed out", to)
	}
	return nil, l.fail("is the node up? ping HOST", "%v", err)
}

// authenticate is an ssh.ClientAuthCallback: one key at a time, so that one
// that cannot sign does not end it.
func (l *login) authenticate(ctx *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	l.offers = ctx.AllowedMethods
	if !slices.Contains(l.offers, "publickey") || l.next == len(l.keys.signers) {
		return nil, l.denied()
	}
	s := l.keys.signers[l.next]
	l.next++
	l.tried = append(l.tried, s.PublicKey().Type())
	return ssh.PublicKeys(s), nil
}

// denied says why nothing that there is lets the user in, unless ssh knows
// other ways.
func (l *login) denied() error {
	for _, m := range l.offers {
		if slices.Contains(l.cfg.OtherAuth, m) {
			return &Unfit{Why: "no key lets the user in, the server takes " + m}
		}
	}
	if l.keys.token != "" {
		return &Unfit{Why: "no other key lets the user in: " + l.keys.token}
	}
	e := l.fail("a login without password must work: ssh -o BatchMode=yes HOST true", "permission denied for %s (%s)",
		l.cfg.User, strings.Join(l.offers, ","))
	if len(l.tried) > 0 {
		e.Cause += ": refused keys: " + strings.Join(l.tried, ", ")
	} else {
		e.Cause += ": there was no key to offer"
	}
	if len(l.keys.why) > 0 {
		e.Cause += "; " + strings.Join(l.keys.why, "; ")
	}
	return e
}

// explain names what ended a handshake.
func (l *login) explain(ctx context.Context, err error, by time.Time, most time.Duration) error {
	var own *Error
	var unfit *Unfit
	var none *ssh.AlgorithmNegotiationError
	var slow net.Error
	// The library does not wrap what callbacks return everywhere.
	if l.host.unfit != nil {
		return l.host.unfit
	}
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &unfit):
		return unfit
	case errors.As(err, &none):
		return &Unfit{Why: "the server knows no " + none.What + " that native ssh has"}
	case errors.As(err, &slow) && slow.Timeout(), errors.Is(err, os.ErrDeadlineExceeded), expired(ctx),
		l.at() != Authenticate && time.Now().After(by):
		if l.at() == Version {
			waited := time.Since(by.Add(-most)).Round(100 * time.Millisecond)
			return l.fail("connections are accepted there without an answer: is it sshd?", "no answer from it in %v",
				waited)
		}
		return l.silent()
	// The library closes the connection when reading fails, and may report that.
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		e := l.fail("the server there turns connections away (sshd: MaxStartups?)", "its sshd closed the connection")
		e.Early = l.at() != Authenticate
		return e
	case strings.Contains(err.Error(), "Too many authentication failures"):
		return l.fail("name one key: --ssh-args \"-i KEY -o IdentitiesOnly=yes\"",
			"too many authentication failures: refused keys: %s", strings.Join(l.tried, ", "))
	}
	return l.fail("look closer: ssh -v -o BatchMode=yes HOST true", "%v", err)
}
