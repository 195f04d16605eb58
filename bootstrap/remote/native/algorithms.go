package native

import (
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// choice is one kind of algorithm: what we offer when the user says nothing,
// and what else we can do if told to.
type choice struct {
	name   string
	usual  []string
	extra  []string
	theirs []string // names that OpenSSH has and we cannot do
}

var (
	// Cheap ones first: sntrup761, which OpenSSH 9 prefers, costs its client 65 ms, and curve25519
	// costs a server 2 ms more than nistp256.
	kexes = choice{"KexAlgorithms", []string{
		ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeECDHP256, ssh.KeyExchangeCurve25519, ssh.KeyExchangeECDHP384,
		ssh.KeyExchangeECDHP521,
		ssh.KeyExchangeDHGEXSHA256, ssh.KeyExchangeDH16SHA512, ssh.KeyExchangeDH14SHA256,
	}, []string{
		"curve25519-sha256@libssh.org", ssh.InsecureKeyExchangeDH14SHA1, ssh.InsecureKeyExchangeDH1SHA1,
		ssh.InsecureKeyExchangeDHGEXSHA1,
	}, []string{"sntrup761x25519-sha512@openssh.com", "sntrup761x25519-sha512", "diffie-hellman-group18-sha512"}}
	ciphers = choice{"Ciphers", ssh.SupportedAlgorithms().Ciphers, []string{ssh.InsecureCipherAES128CBC,
		ssh.InsecureCipherTripleDESCBC},
		[]string{"aes192-cbc", "aes256-cbc", "rijndael-cbc@lysator.liu.se"}}
	macs = choice{"MACs", []string{
		ssh.HMACSHA256ETM, ssh.HMACSHA512ETM, ssh.HMACSHA256, ssh.HMACSHA512, ssh.HMACSHA1,
	}, []string{ssh.InsecureHMACSHA196}, []string{
		"umac-64-etm@openssh.com", "umac-128-etm@openssh.com", "umac-64@openssh.com", "umac-128@openssh.com",
		"hmac-sha1-etm@openssh.com",
		"hmac-sha1-96-etm@openssh.com", "hmac-md5", "hmac-md5-96", "hmac-md5-etm@openssh.com",
		"hmac-md5-96-etm@openssh.com",
	}}
	// As OpenSSH orders them (myproposal.h); those of hosts that are known go first.
	hostKeys = choice{"HostKeyAlgorithms", []string{
		ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
		ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512,
		ssh.KeyAlgoRSASHA256,
	}, []string{ssh.KeyAlgoRSA, ssh.CertAlgoRSAv01}, []string{
		"ssh-dss", "ssh-dss-cert-v01@openssh.com", "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com",
		"sk-ssh-ed25519-cert-v01@openssh.com", "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
		"webauthn-sk-ecdsa-sha2-nistp256@openssh.com",
	}}
	publicKeys = choice{"PubkeyAcceptedAlgorithms", append(slices.Clone(hostKeys.usual),
		ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256, ssh.CertAlgoSKED25519v01, ssh.CertAlgoSKECDSA256v01),
		hostKeys.extra, hostKeys.theirs}
	caSignatures = choice{"CASignatureAlgorithms", []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKED25519,
		ssh.KeyAlgoSKECDSA256,
		ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}, []string{ssh.KeyAlgoRSA}, hostKeys.theirs}
)

// pick makes the list to offer of what the user wrote. Where the user prefers
// what we cannot do, to offer the rest would be to choose for him.
func (c choice) pick(preferred string) ([]string, error) {
	if preferred == "" {
		return c.usual, nil
	}
	sign := preferred[0]
	if strings.IndexByte("+-^", sign) >= 0 {
		preferred = preferred[1:]
	}
	if sign == '-' {
		unwanted := func(a string) bool { return MatchList(a, preferred) }
		return slices.DeleteFunc(slices.Clone(c.usual), unwanted), nil
	}
	var list []string
	for i, a := range strings.Split(preferred, ",") {
		can := slices.Contains(c.usual, a) || slices.Contains(c.extra, a)
		switch {
		case can:
			list = append(list, a)
		case i == 0 && sign != '+':
			return nil, &Unfit{Why: c.name + " prefers " + a}
		case !slices.Contains(c.theirs, a):
			return nil, &Unfit{Why: c.name + " names " + a}
		}
	}
	switch sign {
	case '+':
		list = append(slices.Clone(c.usual), list...)
	case '^':
		list = append(list, c.usual...)
	}
	var once []string
	for _, a := range list {
		if !slices.Contains(once, a) {
			once = append(once, a)
		}
	}
	return once, nil
}

// preferredFirst returns list with the elements for which preferred returns true moved to the start. Elements with the
// same result keep their order.
func preferredFirst[T any](list []T, preferred func(T) bool) []T {
	var front, back []T
	for _, a := range list {
		if preferred(a) {
			front = append(front, a)
		} else {
			back = append(back, a)
		}
	}
	return append(front, back...)
}

// plainType is the type of the key behind an algorithm: what stands in known
// hosts for it.
func plainType(algorithm string) string {
	if t, ok := strings.CutSuffix(algorithm, "-cert-v01@openssh.com"); ok {
		algorithm = t
		if strings.HasPrefix(t, "sk-") {
			algorithm += "@openssh.com"
		}
	}
	if algorithm == ssh.KeyAlgoRSASHA256 || algorithm == ssh.KeyAlgoRSASHA512 {
		return ssh.KeyAlgoRSA
	}
	return algorithm
}
