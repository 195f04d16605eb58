package native

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// keyring is what there is to log in with, in the order in which ssh tries it
// (sshconnect2.c, pubkey_prepare).
type keyring struct {
	signers []ssh.Signer
	why     []string // of each file that cannot be used
	token   string   // a file that only ssh can use; empty: none
	socket  net.Conn // to the agent, or nil
	locked  [][]byte // public keys of files with passphrases
}

// agentPatience bounds what an ssh-agent may take for one login.
const agentPatience = 5 * time.Second

func newKeyring(cfg *Config) (*keyring, error) {
	allowed, err := publicKeys.pick(cfg.PublicKeys)
	if err != nil {
		return nil, err
	}
	k := &keyring{}
	var files []ssh.Signer
	for _, name := range cfg.Identities {
		signers := k.load(name, cfg.IdentityGiven)
		if len(cfg.Certificates) == 0 && len(signers) > 0 {
			signers = append(signers, certified(name+"-cert.pub", signers)...)
		}
		files = append(files, signers...)
	}
	offered := k.agentSigners(cfg.Agent)
	// The agent's that files name too come first, then its others, then files.
	named := func(s ssh.Signer) bool { return k.named(cfg, s, files) }
	order := preferredFirst(offered, named)
	if cfg.IdentitiesOnly {
		order = slices.DeleteFunc(order, func(s ssh.Signer) bool { return !named(s) })
	}
	order = append(order, slices.DeleteFunc(files, func(s ssh.Signer) bool { return among(s.PublicKey(), order) })...)
	var certs []ssh.Signer
	for _, name := range cfg.Certificates {
		certs = append(certs, certified(name, slices.Concat(offered, order))...)
	}
	if len(cfg.Certificates) == 0 {
		for _, name := range cfg.Identities {
			certs = append(certs, certified(name+"-cert.pub", offered)...)
		}
	}
	for _, s := range append(certs, order...) {
		if s = limit(s, allowed, cfg.MinRSABits); s != nil && !among(s.PublicKey(), k.signers) {
			k.signers = append(k.signers, s)
		}
	}
	return k, nil
}

func (k *keyring) close() {
	if k.socket != nil {
		k.socket.Close()
	}
}

func among(key ssh.PublicKey, signers []ssh.Signer) bool {
	blob := key.Marshal()
	return slices.ContainsFunc(signers, func(s ssh.Signer) bool { return bytes.Equal(s.PublicKey().Marshal(), blob) })
}

// load reads one file of a private key. What cannot be used yields none.
func (k *keyring) load(name string, given bool) []ssh.Signer {
	text, err := os.ReadFile(name)
	if err != nil {
		if given && !errors.Is(err, os.ErrNotExist) {
			k.why = append(k.why, err.Error())
		} else if _, err := os.Stat(name + ".pub"); given && err != nil {
			k.why = append(k.why, name+" does not exist")
		}
		return nil
	}
	signer, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	needsPhrase := errors.As(err, &locked)
	switch {
	case (err == nil || needsPhrase) && exposed(name):
		k.why = append(k.why, fmt.Sprintf("%s may be read by others: chmod 600 %s", name, name))
	case err == nil:
		return []ssh.Signer{signer}
	case needsPhrase:
		if locked.PublicKey != nil {
			k.locked = append(k.locked, locked.PublicKey.Marshal())
		}
		k.why = append(k.why, fmt.Sprintf("%s has a passphrase: ssh-add %s", name, name))
	case strings.HasSuffix(name, "_sk") || strings.Contains(err.Error(), "unhandled key type"):
		k.token = name
	default:
		if _, _, _, _, err := ssh.ParseAuthorizedKey(text); err != nil {
			k.why = append(k.why, name+" is no private key")
		}
	}
	return nil
}

// exposed reports whether others can read a key of this user's. To ssh such a
// key is none.
func exposed(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.Mode()&0o077 != 0 && int(st.Sys().(*syscall.Stat_t).Uid) == os.Getuid()
}

// named reports whether an agent's key is one of the files of the configuration.
func (k *keyring) named(cfg *Config, s ssh.Signer, files []ssh.Signer) bool {
	blob := s.PublicKey().Marshal()
	same := func(locked []byte) bool { return bytes.Equal(locked, blob) }
	if among(s.PublicKey(), files) || slices.ContainsFunc(k.locked, same) {
		return true
	}
	for _, name := range cfg.Identities {
		for _, f := range []string{name, name + ".pub"} {
			if key, err := readPublic(f); err == nil && bytes.Equal(key.Marshal(), blob) {
				return true
			}
		}
	}
	return false
}

func readPublic(name string) (ssh.PublicKey, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	return key, err
}

// certified reads a certificate and joins it to its key.
func certified(name string, signers []ssh.Signer) []ssh.Signer {
	key, err := readPublic(name)
	cert, ok := key.(*ssh.Certificate)
	if err != nil || !ok || cert.CertType != ssh.UserCert {
		return nil
	}
	for _, s := range signers {
		if bytes.Equal(s.PublicKey().Marshal(), cert.Key.Marshal()) {
			if c, err := ssh.NewCertSigner(cert, s); err == nil {
				return []ssh.Signer{c}
			}
		}
	}
	return nil
}

// agentSigners asks the ssh-agent, if there is one, for its keys.
func (k *keyring) agentSigners(socket string) []ssh.Signer {
	if socket == "" {
		return nil
	}
	c, err := net.DialTimeout("unix", socket, agentPatience)
	if err != nil {
		return nil // as ssh: a socket that nobody serves is no agent
	}
	_ = c.SetDeadline(time.Now().Add(agentPatience))
	k.socket = c
	signers, err := agent.NewClient(c).Signers()
	if err != nil {
		k.why = append(k.why, "the ssh-agent does not answer: "+err.Error())
		return nil
	}
	return signers
}

// limit keeps a signer to the algorithms that the user allows; nil: none is left.
func limit(s ssh.Signer, allowed []string, minRSABits int) ssh.Signer {
	kind := s.PublicKey().Type()
	if bits := rsaBits(s.PublicKey()); bits > 0 && bits < minRSABits {
		return nil
	}
	if plainType(kind) != ssh.KeyAlgoRSA {
		if slices.Contains(allowed, kind) {
			return s
		}
		return nil
	}
	as, ok := s.(ssh.AlgorithmSigner)
	if !ok {
		return nil
	}
	suffix := strings.TrimPrefix(kind, ssh.KeyAlgoRSA) // empty, or that of certificates
	var may []string
	for _, a := range []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSA} {
		if slices.Contains(allowed, a+suffix) {
			may = append(may, a)
		}
	}
	limited, err := ssh.NewSignerWithAlgorithms(as, may)
	if err != nil { // may is empty, or s does not support all algorithms in may
		return nil
	}
	return limited
}

// rsaBits is the length of an RSA key; 0: it is of another kind.
func rsaBits(key ssh.PublicKey) int {
	if c, ok := key.(*ssh.Certificate); ok {
		key = c.Key
	}
	if c, ok := key.(ssh.CryptoPublicKey); ok {
		if r, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok {
			return r.N.BitLen()
		}
	}
	return 0
}
