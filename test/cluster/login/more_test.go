//go:build cluster || soak

package login

// login is the plain configuration for another server, whose host key is known.
func login(port, lines string) situation {
	return situation{config: with("Port " + port + "\n" + lines), known: "[node0001]:" + port + " {host_ed25519}\n"}
}

func (s situation) named(name, want string) situation {
	s.name, s.want = name, want
	return s
}

func (s situation) byExec() situation { s.exec = true; return s }

func (s situation) printing(text string) situation { s.prints = text; return s }

func (s situation) asking(agent string) situation { s.agent = agent; return s }

func (s situation) to(host string, args ...string) situation {
	s.host, s.args = host, args
	return s
}

// keyless is plain without keys.
const keyless = "HostName node0001\nPort 2201\nUserKnownHostsFile {KNOWN}\nGlobalKnownHostsFile none\n"

func keys(lines string) situation { return situation{config: keyless + lines + "\n", known: right} }

var keySituations = []situation{
	login("2203", "").named("server wants a password", "denied").printing("password"),
	login("2204", "IdentityFile {DIR}/second").named("two keys", "root@{ADDR}:2204"),
	login("2204", "").named("two keys, one there", "denied"),
	login("2207", "").named("banner", "root@{ADDR}:2207"),
	login("2209", "").named("particular algorithms", "root@{ADDR}:2209"),
	login("2206", "").named("a key exchange that we lack", "root@{ADDR}:2206").byExec(),
	login("2212", "Ciphers +3des-cbc").named("an old cipher that is allowed", "root@{ADDR}:2212"),
	login("2212", "").named("an old cipher that is not", "configuration").byExec(),
	login("2210", "").named("key and password", "denied"),
	login("2299", "").named("nobody listens", "no connection"),
	keys("IdentityFile {DIR}/bad1\nIdentityAgent none").named("wrong key",
		"denied").printing("refused keys: ssh-ed25519"),
	keys("IdentityFile {DIR}/bad1\nIdentityFile {DIR}/good\nIdentityAgent none").named("wrong key, then right", ok2201),
	keys("IdentityFile {DIR}/rsa\nIdentityAgent none").named("rsa", ok2201),
	keys("IdentityFile {DIR}/second\nIdentityAgent none").named("ecdsa", ok2201),
	keys("IdentityFile {DIR}/rsa\nPubkeyAcceptedAlgorithms ssh-ed25519\nIdentityAgent none").named("rsa not accepted",
		"denied"),
	keys("IdentityFile {DIR}/rsa\nPubkeyAcceptedAlgorithms -ssh-ed25519*\nIdentityAgent none").named("all but ed25519",
		ok2201),
	keys("IdentityFile {DIR}/good\nPubkeyAcceptedAlgorithms -ssh-ed25519*\nIdentityAgent none").named(
		"ed25519 not accepted", "denied"),
	keys("IdentityFile {DIR}/locked\nIdentityAgent none").named("passphrase", "denied").printing("ssh-add"),
	keys("IdentityFile {DIR}/locked\nIdentitiesOnly yes").asking("locked").named("passphrase and agent", ok2201),
	keys("IdentityFile {DIR}/loose\nIdentityAgent none").named("key that others can read",
		"denied").printing("chmod 600"),
	keys("IdentityFile {DIR}/missing\nIdentityAgent none").named("key that is not there",
		"denied").printing("does not exist"),
	keys("IdentityFile {DIR}/banner\nIdentityAgent none").named("key that is none", "denied"),
	keys("IdentityFile none").asking("good").named("agent only", ok2201),
	keys("IdentityFile none\nIdentitiesOnly yes").asking("good").named("agent, identities only", "denied"),
	keys("IdentityFile {DIR}/good.pub\nIdentitiesOnly yes").asking("many").named("public half of the agent's key",
		ok2201),
	keys("IdentityFile {DIR}/bad1\nIdentitiesOnly yes").asking("good").named("other key than the agent's", "denied"),
	keys("Port 2208\nIdentityFile none").asking("many").named("first port counts", ok2201),
	situation{config: "Port 2208\n" + keyless + "IdentityFile none\n", known: "[node0001]:2208 {host_ed25519}\n",
		agent: "many"}.named("too many keys", "denied").printing("IdentitiesOnly"),
	keys("IdentityFile {DIR}/good\nIdentityAgent /nonexistent").named("no agent there", ok2201),
	situation{config: "Port 2205\n" + keyless + "IdentityFile {DIR}/bad1\nIdentityAgent none\n",
		known: "[node0001]:2205 {host_ed25519}\n"}.named("user certificate", "root@{ADDR}:2205"),
	situation{config: "Port 2205\n" + keyless +
		"IdentityFile {DIR}/bad1\nCertificateFile {DIR}/bad1-cert.pub\nIdentityAgent none\n",
		known: "[node0001]:2205 {host_ed25519}\n"}.named("named certificate", "root@{ADDR}:2205"),
	situation{config: "Port 2205\n" + keyless + "User worker\nIdentityFile {DIR}/bad1\nIdentityAgent none\n",
		known: "[node0001]:2205 {host_ed25519}\n"}.named("certificate of another user", "denied"),
	keys("User worker\nIdentityFile {DIR}/good\nIdentityAgent none").named("another user", "worker@{ADDR}:2201"),
	keys("User nobody-at-all\nIdentityFile {DIR}/good\nIdentityAgent none").named("user that is not there", "denied"),
	keys("IdentityFile {DIR}/good\nPubkeyAuthentication no\nIdentityAgent none").named("no public keys",
		"denied").byExec(),
	keys("IdentityFile {DIR}/good\nPreferredAuthentications password\nIdentityAgent none").named("other methods only",
		"denied").byExec(),
	keys("IdentityFile {DIR}/good\nGSSAPIAuthentication yes\nIdentityAgent none").named("GSSAPI allowed", ok2201),
	keys("IdentityFile {DIR}/rsa\nRequiredRSASize 4096\nIdentityAgent none").named("RSA key too short", "denied"),
}

// included are files in {DIR} that configurations name.
var included = map[string]string{
	"inc_port":  "Port 2201\n",
	"inc_hosts": "Host y\n    Port 2299\nHost x\n    Port 2201\n",
	"inc_self":  "Include {DIR}/inc_self\n",
}

// systemConfig ends the system's file; without -F both clients read it.
const systemConfig = `
Host sys-*
    HostName node0001
    Port 2201
    User worker
    UserKnownHostsFile {DIR}/sys_known
    IdentityFile {DIR}/good
    IdentityAgent none
    StrictHostKeyChecking accept-new
Match final all
    Port 2299
    User root
    Ciphers aes256-gcm@openssh.com
`

var configSituations = []situation{
	situation{want: "worker@{ADDR}:2201"}.to("sys-a").named("system's file, match final", "worker@{ADDR}:2201"),
	situation{}.to("sys-b", "-l", "root", "-o", "Compression=yes").named("options first", "root@{ADDR}:2201"),
	situation{}.to("sys-d", "-i", "{DIR}/bad1", "-o", "IdentitiesOnly yes").named("another key too",
		"worker@{ADDR}:2201"),
	situation{config: "Host y\n Port 2299\nHost x\n Port 2201\nHost *\n" + plain, known: right}.named("host sections",
		ok2201),
	situation{config: "Include {DIR}/inc_port\nPort 2299\n" + plain, known: right}.named("include", ok2201),
	situation{config: "Include {DIR}/inc_self\n" + plain, known: right}.named("include of itself",
		"configuration").byExec(),
	situation{config: "HostName node%h\n" + plain, known: right}.to("0001").named("name by token", ok2201),
	situation{config: "HostName node0001\nMatch host node0001\n Port 2201\nMatch all\n Port 2299\n" + plain,
		known: right}.named("match host", ok2201),
	situation{config: "Match exec true\n Port 2201\nMatch all\n" + plain, known: right}.named("match exec",
		ok2201).byExec(),
	situation{config: "NoSuchThing yes\n" + plain, known: right}.named("unknown word", "configuration").byExec(),
	situation{config: "Port many\n" + plain, known: right}.named("bad port", "configuration").byExec(),
	situation{config: "ProxyCommand nc %h %p\nProxyCommand none\n" + plain, known: right}.named("proxy",
		"configuration").byExec(),
	situation{config: "ControlMaster auto\nControlPath {KNOWN}.socket\n" + plain,
		known: right}.named("shared connection", ok2201).byExec(),
	situation{config: "KexAlgorithms sntrup761x25519-sha512@openssh.com,curve25519-sha256\n" + plain,
		known: right}.named("prefers what we lack", ok2201).byExec(),
	situation{config: "KexAlgorithms -curve25519*\nCiphers aes128-ctr,aes256-ctr\nMACs ^hmac-sha2-512\n" + plain,
		known: right}.named("lists", ok2201),
	situation{config: "HostKeyAlgorithms rsa-sha2-512\n" + plain,
		known: "[node0001]:2201 {host_rsa}\n"}.named("host key of another kind", ok2201),
	situation{config: "HostKeyAlgorithms rsa-sha2-512\n" + plain,
		known: right}.named("host key of another kind, not known", "host key"),
	situation{config: "ForwardAgent yes\nForwardX11 yes\nRequestTTY force\nServerAliveInterval 5\nConnectTimeout " +
		"5\nConnectionAttempts 2\nAddressFamily inet\nTCPKeepAlive no\nSendEnv LANG LC_*\nSetEnv A=b\nLogLevel " +
		"ERROR\nRekeyLimit 1G\n" + plain, known: right}.named("all sorts of things", ok2201),
}

// grammarSituations are further forms of lines, which bootstrap/remote/native tests too.
var grammarSituations = []situation{
	situation{}.to("sys-c", "-p", "2299").named("another port", "no connection"),
	situation{config: "Host * !x\n Port 2299\nHost *\n" + plain, known: right}.named("negated host", ok2201),
	situation{config: "Host x?\n Port 2299\nHost *\n" + plain, known: right}.named("question mark is one letter",
		ok2201),
	situation{config: "Host\tz\tx\n Port 2201\nHost *\n Port 2299\n" + plain, known: right}.named("tabs", ok2201),
	situation{config: "Host \"x\" y\n Port=2201\nHost *\n Port 2299\n" + plain,
		known: right}.named("quotes and equals signs", ok2201),
	situation{config: "Port = 2201 # not 2299\r\n" + plain, known: right}.named("comment and carriage return", ok2201),
	situation{config: "HOSTNAME node0001\npORT 2201\n" + plain, known: right}.named("capitals", ok2201),
	situation{config: "Include {DIR}/inc_hosts\nPort 2299\n" + plain, known: right}.named("include with sections",
		ok2201),
	situation{config: "Host y\n Include {DIR}/inc_port\nHost *\n Port 2299\n" + plain,
		known: right}.named("include in another section", "no connection"),
	situation{config: "Include {DIR}/inc_none*\n" + plain, known: right}.named("include of nothing", ok2201),
	situation{config: "IdentityFile {DIR}/%r\nUser good\n" + plain, known: right}.named("token of the user", "denied"),
	situation{config: "IdentityFile ${NODE_NUMBER}\n" + plain, known: right}.named("environment", ok2201),
	situation{config: "IdentityFile ${NOT_THERE}\n" + plain, known: right}.named("environment without it",
		"configuration").byExec(),
	situation{config: "Match host node0001\n Port 2299\nMatch all\n" + plain,
		known: right}.named("match before the name", ok2201),
	situation{config: "Match originalhost x user worker\n Port 2299\nMatch !user worker\n Port 2201\nMatch all\n" +
		plain, known: right}.named("match user", ok2201),
	situation{config: "IgnoreUnknown NoSuch*\nNoSuchThing yes\n" + plain, known: right}.named("unknown word, ignored",
		ok2201),
	situation{config: "Host y\n Port many\nHost *\n" + plain, known: right}.named("bad port elsewhere",
		"configuration").byExec(),
	situation{config: "StrictHostKeyChecking perhaps\n" + plain, known: right}.named("bad word",
		"configuration").byExec(),
	situation{config: "IdentityFile \"{DIR}/good\n" + plain, known: right}.named("open quote",
		"configuration").byExec(),
	situation{config: "Port 2201 2202\n" + plain, known: right}.named("two ports", "configuration").byExec(),
	situation{config: "Port\n" + plain, known: right}.named("no port", "configuration").byExec(),
	situation{config: "Host y\n ProxyJump z\nHost *\n ProxyJump none\n" + plain, known: right}.named("proxy elsewhere",
		ok2201),
	situation{config: "KexAlgorithms no-such-thing\n" + plain, known: right}.named("unknown algorithm",
		"configuration").byExec(),
	situation{config: "BindAddress 10.77.0.1\n" + plain, known: right}.named("bind address", ok2201),
	situation{config: "AddressFamily inet6\n" + plain, known: right}.named("no such address", "configuration").byExec(),
	situation{config: plain, known: right}.to("x", "-4q").named("letters together", ok2201),
	situation{config: plain, known: right}.to("x", "-J", "none").named("jump option", ok2201).byExec(),
}
