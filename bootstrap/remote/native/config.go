package native

import (
	"cmp"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// System is what configuration depends on besides files.
type System struct {
	Home, User string // of the account, not of the environment
	UID        int
	Host       string // of this machine
	Getenv     func(string) string
	UserFile   string // ~/.ssh/config
	SystemFile string // /etc/ssh/ssh_config
}

// Here is the system of this process.
func Here() (System, error) {
	u, err := user.Current()
	if err != nil {
		return System{}, err
	}
	host, err := os.Hostname()
	return System{
		Home: u.HomeDir, User: u.Username, UID: os.Getuid(), Host: host, Getenv: os.Getenv,
		UserFile: filepath.Join(u.HomeDir, ".ssh", "config"), SystemFile: "/etc/ssh/ssh_config",
	}, err
}

// Strict is what becomes of a host whose key is not known, when nobody can be
// asked (ssh_config(5), StrictHostKeyChecking).
type Strict uint8

const (
	Refuse Strict = iota // yes, ask
	Accept               // accept-new: learn the key
	Off                  // no: learn the key, and go on even if another is known
)

// Config is what a login to a host needs to know.
type Config struct {
	Alias          string // as given
	Host           string // name or address to connect to, in lower case
	Port           uint16
	User           string
	Identities     []string // key files, absolute, in the order to try them
	Certificates   []string // that were named
	IdentityGiven  bool     // the files were named, not the defaults
	IdentitiesOnly bool
	Agent          string // socket; empty: none
	KnownHosts     []string
	GlobalHosts    []string
	Strict         Strict
	HashHosts      bool
	HostKeyAlias   string

	// Lists as written, with +, - or ^ in front where that stands; empty: nobody said.
	Kex, Ciphers, MACs, HostKeys, PublicKeys, CASignatures string

	MinRSABits     int
	ConnectTimeout time.Duration // 0: nobody said
	AliveCount     int           // keepalives without an answer that end a session
	Network        string        // tcp, tcp4 or tcp6
	Bind           string        // local address, or empty
	Attempts       int
	NoKeepAlive    bool              // TCPKeepAlive no
	RekeyBytes     uint64            // 0: the library's own
	Env            map[string]string // variables to offer to the server
	OtherAuth      []string          // methods before public keys that only ssh can do, gssapi-with-mic and hostbased
}

// ReadConfig returns the configuration for one host, from the files of sys and from args, which are arguments of ssh.
// If user is empty, the configuration decides which user logs in. The error is an *Unfit.
func ReadConfig(sys System, host, user string, args []string) (*Config, error) {
	r := newReader(sys, host, user)
	if err := r.all(args); err != nil {
		return nil, err
	}
	return r.config()
}

func newReader(sys System, host, user string) *reader {
	return &reader{sys: sys, alias: host, host: host, user: user, got: map[string][]string{}, at: map[string]string{}}
}

// all reads the arguments and the files, twice if they ask for it.
func (r *reader) all(args []string) error {
	line, err := r.options(args)
	if err != nil {
		return err
	}
	for range 2 {
		for _, l := range line.lines {
			if err := r.line(l, &scope{name: "--ssh-args", active: true, user: true}); err != nil && !r.lax {
				return err
			}
		}
		if err := r.files(line.file); err != nil {
			return err
		}
		if r.final || !r.again {
			break
		}
		if r.host, err = r.hostName(); err != nil {
			return err
		}
		r.final = true
	}
	return nil
}

// Between says what stands between this host and another where ssh connects: the
// line that names a proxy, and the line that names a connection to share. Either
// may be empty. What it does not understand it passes over.
func Between(sys System, host, user string, args []string) (proxy, shared string) {
	r := newReader(sys, host, user)
	r.lax = true
	_ = r.all(args) // what was read until then counts
	line := func(keys ...string) string {
		for _, k := range keys {
			if v := r.got[k]; v != nil && !strings.EqualFold(v[0], "none") {
				return k + " " + strings.Join(v, " ")
			}
		}
		return ""
	}
	return line("proxyjump", "proxycommand"), line("controlpath")
}

// files reads the user's file and the system's, or the one that -F names.
func (r *reader) files(instead string) error {
	switch instead {
	case "none":
		return nil
	case "":
	default:
		return r.file(instead, scope{user: true, active: true}, true)
	}
	if err := r.file(r.sys.UserFile, scope{user: true, active: true}, false); err != nil {
		return err
	}
	return r.file(r.sys.SystemFile, scope{active: true}, false)
}

func (r *reader) hostName() (string, error) {
	name := r.alias
	if v := r.got["hostname"]; v != nil {
		name = strings.NewReplacer("%%", "%", "%h", r.alias).Replace(v[0])
	}
	name = strings.ToLower(name)
	if name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, "%/ '\"`$\\;&<>|(){}") &&
		net.ParseIP(name) == nil {
		return "", r.unfit("hostname", "is not a plain name")
	}
	return name, nil
}

func (r *reader) unfit(key, why string) error { return &Unfit{r.at[key], key + " " + why} }

// first is the value of a keyword, or else a default.
func (r *reader) first(key, other string) string {
	if v := r.got[key]; v != nil {
		return v[0]
	}
	return other
}

func (r *reader) is(key string) bool { return flags[strings.ToLower(r.first(key, "no"))] }

// config makes the values of what was read.
func (r *reader) config() (*Config, error) {
	c := &Config{Alias: r.alias, User: cmp.Or(r.user, r.first("user", r.sys.User))}
	var err error
	if c.Host, err = r.hostName(); err != nil {
		return nil, err
	}
	if strings.ContainsAny(c.User, "%$") {
		return nil, r.unfit("user", "has tokens")
	}
	c.Port = uint16(number(r.first("port", "22")))
	c.HostKeyAlias = r.first("hostkeyalias", "")
	c.Strict = strictness[strings.ToLower(r.first("stricthostkeychecking", "ask"))]
	c.HashHosts, c.IdentitiesOnly = r.is("hashknownhosts"), r.is("identitiesonly")
	c.Kex, c.Ciphers, c.MACs = r.first("kexalgorithms", ""), r.first("ciphers", ""), r.first("macs", "")
	c.HostKeys, c.PublicKeys, c.CASignatures = r.first("hostkeyalgorithms", ""), r.first("pubkeyacceptedalgorithms",
		""), r.first("casignaturealgorithms", "")
	c.MinRSABits = number(r.first("requiredrsasize", "1024"))
	c.AliveCount = number(r.first("serveralivecountmax", "3"))
	c.Attempts = max(1, number(r.first("connectionattempts", "1")))
	if v := r.first("connecttimeout", "none"); v != "none" {
		c.ConnectTimeout = parseSeconds(v)
	}
	c.Network = networks[strings.ToLower(r.first("addressfamily", "any"))]
	c.Bind = r.first("bindaddress", "")
	c.NoKeepAlive = r.first("tcpkeepalive", "yes") == "no"
	if err := r.methods(c); err != nil {
		return nil, err
	}
	if v := r.got["rekeylimit"]; v != nil {
		if len(v) > 1 && v[1] != "none" {
			return nil, r.unfit("rekeylimit", "by time")
		}
		if c.RekeyBytes, err = size(v[0]); err != nil {
			return nil, r.unfit("rekeylimit", v[0])
		}
	}
	if err := r.environment(c); err != nil {
		return nil, err
	}
	return c, r.paths(c)
}

// methods looks which ways to authenticate ssh would try that we cannot.
func (r *reader) methods(c *Config) error {
	prefer := r.first("preferredauthentications", "gssapi-with-mic,hostbased,publickey")
	if !MatchList("publickey", prefer) {
		return r.unfit("preferredauthentications", "has no public keys")
	}
	for _, m := range []struct{ key, name string }{{"gssapiauthentication", "gssapi-with-mic"},
		{"hostbasedauthentication", "hostbased"}} {
		if r.is(m.key) && MatchList(m.name, prefer) {
			c.OtherAuth = append(c.OtherAuth, m.name)
		}
	}
	return nil
}

// environment finds the variables that SendEnv and SetEnv name.
func (r *reader) environment(c *Config) error {
	c.Env = map[string]string{}
	for _, pattern := range r.got["sendenv"] {
		if strings.HasPrefix(pattern, "-") {
			return r.unfit("sendenv", "takes back "+pattern)
		}
	}
	for _, e := range os.Environ() {
		name, value, _ := strings.Cut(e, "=")
		for _, pattern := range r.got["sendenv"] {
			if Match(name, pattern) {
				c.Env[name] = value
			}
		}
	}
	for _, e := range r.got["setenv"] {
		name, value, ok := strings.Cut(e, "=")
		if !ok {
			return r.unfit("setenv", e)
		}
		c.Env[name] = value
	}
	return nil
}

// defaultKeys are tried when no file is named, in OpenSSH's order (readconf.c,
// fill_default_options). Those of hardware tokens are among them: whoever has
// one and needs it is left to ssh.
var defaultKeys = []string{"~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ecdsa_sk", "~/.ssh/id_ed25519",
	"~/.ssh/id_ed25519_sk"}

// paths expands the names of files.
func (r *reader) paths(c *Config) (err error) {
	c.IdentityGiven = r.got["identityfile"] != nil
	for _, list := range []struct {
		key      string
		to       *[]string
		defaults []string
	}{
		{"identityfile", &c.Identities, defaultKeys},
		{"certificatefile", &c.Certificates, nil},
		{"userknownhostsfile", &c.KnownHosts, []string{"~/.ssh/known_hosts", "~/.ssh/known_hosts2"}},
		{"globalknownhostsfile", &c.GlobalHosts, []string{"/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"}},
	} {
		values := r.got[list.key]
		if values == nil {
			values = list.defaults
		}
		for _, v := range values {
			if strings.EqualFold(v, "none") {
				continue
			}
			p, err := r.expand(c, list.key, v)
			if err != nil {
				return err
			}
			*list.to = append(*list.to, p)
		}
	}
	switch v := r.first("identityagent", "SSH_AUTH_SOCK"); {
	case v == "none":
	case v == "SSH_AUTH_SOCK":
		c.Agent = r.sys.Getenv(v)
	case strings.HasPrefix(v, "$") && !strings.HasPrefix(v, "${"):
		c.Agent = r.sys.Getenv(v[1:])
	default:
		c.Agent, err = r.expand(c, "identityagent", v)
	}
	return err
}

// expand fills in ~, ${NAME} and the tokens of ssh_config(5) in a file's name.
func (r *reader) expand(c *Config, key, v string) (string, error) {
	if rest, ok := strings.CutPrefix(v, "~/"); ok {
		v = strings.TrimSuffix(r.sys.Home, "/") + "/" + rest
	} else if strings.HasPrefix(v, "~") {
		return "", r.unfit(key, v)
	}
	short, _, _ := strings.Cut(r.sys.Host, ".")
	tokens := map[byte]string{
		'%': "%", 'd': r.sys.Home, 'h': c.Host, 'i': strconv.Itoa(r.sys.UID), 'k': cmp.Or(c.HostKeyAlias, c.Alias),
		'L': short, 'l': r.sys.Host, 'n': c.Alias, 'p': strconv.Itoa(int(c.Port)), 'r': c.User, 'u': r.sys.User,
	}
	var out strings.Builder
	for i := 0; i < len(v); i++ {
		switch {
		case v[i] == '%':
			i++
			if i == len(v) || tokens[v[i]] == "" {
				return "", r.unfit(key, v)
			}
			out.WriteString(tokens[v[i]])
		case strings.HasPrefix(v[i:], "${"):
			name, _, ok := strings.Cut(v[i+2:], "}")
			if !ok || r.sys.Getenv(name) == "" {
				return "", r.unfit(key, v)
			}
			out.WriteString(r.sys.Getenv(name))
			i += len(name) + 2
		default:
			out.WriteByte(v[i])
		}
	}
	return out.String(), nil
}
