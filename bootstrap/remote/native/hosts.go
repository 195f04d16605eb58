package native

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
)

// knownKey is a line of a known_hosts file that concerns a host (sshd(8),
// SSH_KNOWN_HOSTS FILE FORMAT).
type knownKey struct {
	marker string // empty, @cert-authority or @revoked
	kind   string // type of the key
	blob   []byte
	file   string
	line   int
}

// keyTypes are those that OpenSSH reads in known_hosts; it skips lines with others.
var keyTypes = []string{
	ssh.KeyAlgoRSA, ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
	ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256, "ssh-dss",
}

// knownKeys reads what some files know of a host. Lines that cannot be read
// are passed over, as by ssh.
func knownKeys(files []string, host string) (keys []knownKey) {
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for i, l := range strings.Split(string(text), "\n") {
			if k, ok := readKnown(l, host); ok {
				k.file, k.line = name, i+1
				keys = append(keys, k)
			}
		}
	}
	return keys
}

func readKnown(line, host string) (k knownKey, ok bool) {
	w := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' || c == '\r' })
	if len(w) > 0 && w[0][0] == '@' {
		if k.marker = w[0]; k.marker != "@cert-authority" && k.marker != "@revoked" {
			return k, false
		}
		w = w[1:]
	}
	if len(w) < 3 || w[0][0] == '#' || !slices.Contains(keyTypes, w[1]) || !isFor(w[0], host) {
		return k, false
	}
	blob, err := base64.StdEncoding.DecodeString(w[2])
	if err != nil {
		return k, false
	}
	key, err := ssh.ParsePublicKey(blob)
	if err != nil || key.Type() != w[1] {
		return k, false
	}
	k.kind, k.blob = w[1], blob
	return k, true
}

// isFor reports whether the first field of a line means a host.
func isFor(field, host string) bool {
	rest, hashed := strings.CutPrefix(field, "|1|")
	if !hashed {
		return MatchList(host, strings.ToLower(field))
	}
	salt, sum, _ := strings.Cut(rest, "|")
	s, err := base64.StdEncoding.DecodeString(salt)
	want, err2 := base64.StdEncoding.DecodeString(sum)
	return err == nil && err2 == nil && hmac.Equal(hashHost(host, s), want)
}

func hashHost(host string, salt []byte) []byte {
	mac := hmac.New(sha1.New, salt)
	_, _ = io.WriteString(mac, host) // never fails
	return mac.Sum(nil)
}

// hostCheck judges the host key of one login.
type hostCheck struct {
	cfg    *Config
	name   string // as known_hosts has it, with the port
	plain  string // without; empty if that is the same, or not to be looked for
	keys   []knownKey
	casigs []string
	unfit  *Unfit
	last   []byte // the key that was accepted last; nil: none yet
}

func newHostCheck(cfg *Config) (*hostCheck, error) {
	h := &hostCheck{cfg: cfg, name: cfg.Host}
	if cfg.HostKeyAlias != "" {
		h.name = strings.ToLower(cfg.HostKeyAlias)
	} else if cfg.Port != 22 {
		h.name, h.plain = fmt.Sprintf("[%s]:%d", cfg.Host, cfg.Port), cfg.Host
	}
	h.keys = knownKeys(h.files(), h.name)
	var err error
	h.casigs, err = caSignatures.pick(cfg.CASignatures)
	return h, err
}

func (h *hostCheck) files() []string { return slices.Concat(h.cfg.KnownHosts, h.cfg.GlobalHosts) }

// algorithms are those of host keys to offer: first those whose keys are known,
// so that the server shows one that can be checked.
func (h *hostCheck) algorithms() ([]string, error) {
	list, err := hostKeys.pick(h.cfg.HostKeys)
	if err != nil || h.cfg.HostKeys != "" && strings.IndexByte("+-^", h.cfg.HostKeys[0]) < 0 {
		return list, err
	}
	return preferredFirst(list, func(a string) bool {
		cert := strings.Contains(a, "-cert-")
		return slices.ContainsFunc(h.keys, func(k knownKey) bool {
			return cert && k.marker == "@cert-authority" || k.marker == "" && k.kind == plainType(a)
		})
	}), nil
}

// standing of a key among known ones.
type standing uint8

const (
	unknown standing = iota
	known
	changed
	revoked
)

// judge finds a key's standing, and the line that says so.
func judge(keys []knownKey, key ssh.PublicKey) (standing, knownKey) {
	want, blob, more := "", key.Marshal(), []byte(nil)
	if cert, ok := key.(*ssh.Certificate); ok {
		want, blob, more = "@cert-authority", cert.SignatureKey.Marshal(), cert.Key.Marshal()
	}
	result, by := unknown, knownKey{}
	for _, k := range keys {
		same := bytes.Equal(k.blob, blob)
		switch {
		case k.marker == "@revoked" && (same || bytes.Equal(k.blob, more)):
			return revoked, k
		case k.marker != want || result == known:
		case same:
			result, by = known, k
		case want == "" && result == unknown:
			result, by = changed, k
		}
	}
	return result, by
}

// check is an ssh.HostKeyCallback. What it returns is an *Error. Like ssh, it
// judges a key once in a connection: when keys are exchanged again the files
// may have changed, and the key may have been learnt.
func (h *hostCheck) check(_ string, _ net.Addr, key ssh.PublicKey) error {
	blob := key.Marshal()
	if h.last != nil && bytes.Equal(h.last, blob) {
		return nil
	}
	err := h.judge(key)
	if err == nil {
		h.last = blob
	}
	return err
}

func (h *hostCheck) judge(key ssh.PublicKey) error {
	if bits := rsaBits(key); bits > 0 && bits < h.cfg.MinRSABits {
		return &Error{Phase: KeyExchange, Cause: fmt.Sprintf("its host key has %d bits, fewer than %d", bits,
			h.cfg.MinRSABits), Hint: "have its keys made again there: ssh-keygen -A"}
	}
	if cert, ok := key.(*ssh.Certificate); ok {
		switch s, by := h.standing(cert); {
		case s == revoked:
			return h.refuse(revoked, by, key)
		case s == known && h.valid(cert):
			return nil
		}
		key = cert.Key // as if it had no certificate
	}
	s, by := h.standing(key)
	switch {
	case s == known:
		return nil
	case s == unknown && h.cfg.Strict != Refuse:
		h.learn(key)
		return nil
	default:
		return h.refuse(s, by, key)
	}
}

// standing is judge's for this host; a host whose port is not known is looked
// for without, as ssh does.
func (h *hostCheck) standing(key ssh.PublicKey) (standing, knownKey) {
	s, by := judge(h.keys, key)
	if s == unknown && h.plain != "" {
		if p, by := judge(knownKeys(h.files(), h.plain), key); p == known {
			return p, by
		}
	}
	return s, by
}

// valid reports whether a certificate of a trusted authority is for this host, now.
func (h *hostCheck) valid(cert *ssh.Certificate) bool {
	principal := cmp.Or(h.cfg.HostKeyAlias, h.cfg.Host)
	return cert.CertType == ssh.HostCert && slices.Contains(h.casigs, cert.Signature.Format) &&
		(&ssh.CertChecker{}).CheckCert(principal, cert) == nil
}

// refuse says what is wrong with a key, and leaves to ssh what the user allows
// ssh in spite of it.
func (h *hostCheck) refuse(s standing, by knownKey, key ssh.PublicKey) error {
	if s != unknown && h.cfg.Strict == Off {
		h.unfit = &Unfit{Where: by.file + ":" + strconv.Itoa(by.line),
			Why: "another host key is known or this one is revoked, and StrictHostKeyChecking is no"}
		return h.unfit
	}
	e := &Error{Phase: Authenticate}
	print := key.Type() + " " + ssh.FingerprintSHA256(key)
	switch s {
	case unknown:
		e.Cause = fmt.Sprintf("host key verification failed: %s is not known as a key of %s", print, h.name)
		e.Hint = "log in once by hand: ssh HOST true"
	case changed:
		e.Cause = fmt.Sprintf("host key verification failed: it shows %s, %s:%d has another: it has changed, or "+
			"somebody is in between", print, by.file, by.line)
		e.Hint = fmt.Sprintf("if the change is right: ssh-keygen -R '%s' -f %s", h.name, by.file)
	default:
		e.Cause = fmt.Sprintf("host key verification failed: %s is revoked by %s:%d", print, by.file, by.line)
		e.Hint = "the host needs a new key"
	}
	return e
}

// learn writes down a key as ssh does. Like ssh, a login does not fail because
// that is not possible.
func (h *hostCheck) learn(key ssh.PublicKey) {
	if len(h.cfg.KnownHosts) == 0 {
		return
	}
	name := h.name
	if h.cfg.HashHosts {
		salt := make([]byte, sha1.Size)
		_, _ = rand.Read(salt) // never fails
		name = "|1|" + base64.StdEncoding.EncodeToString(salt) + "|" + base64.StdEncoding.EncodeToString(hashHost(name,
			salt))
	}
	_ = appendLine(h.cfg.KnownHosts[0], name+" "+key.Type()+" "+base64.StdEncoding.EncodeToString(key.Marshal())+"\n")
}

// appendLine adds a line to a file in one write, so that several processes may.
func appendLine(path, line string) (err error) {
	if dir := filepath.Dir(path); filepath.Base(dir) == ".ssh" {
		if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if end, err := f.Seek(-1, io.SeekEnd); err == nil {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, end); err == nil && last[0] != '\n' {
			line = "\n" + line
		}
	}
	_, err = io.WriteString(f, line)
	return err
}
