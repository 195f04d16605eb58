package native

// A keyword is treated in one of these ways.
type kind uint8

const (
	asExec   kind = iota // what it asks for only ssh itself does
	harmless             // without meaning to a login that runs one command without a terminal
	flag                 // yes or no; the first one counts
	word                 // one word; the first one counts
	list                 // words; the first line counts
	many                 // words; all lines count
)

// keywords are those of ssh_config(5) of OpenSSH 7 to 10 that may stand in a
// file without native ssh having to step back, in lower case. What is not here
// is left to ssh, which knows whether it is a keyword at all.
var keywords = map[string]kind{
	"hostname": word, "user": word, "port": word, "identityfile": many, "certificatefile": many, "identitiesonly": flag,
	"identityagent": word, "userknownhostsfile": list, "globalknownhostsfile": list, "stricthostkeychecking": word,
	"hostkeyalias": word, "hashknownhosts": flag, "kexalgorithms": word, "ciphers": word, "macs": word,
	"hostkeyalgorithms":        word,
	"pubkeyacceptedalgorithms": word, "casignaturealgorithms": word, "requiredrsasize": word, "connecttimeout": word,
	"serveralivecountmax": word, "addressfamily": word, "bindaddress": word, "connectionattempts": word,
	"sendenv": many,
	"setenv":  list, "gssapiauthentication": flag, "hostbasedauthentication": flag, "preferredauthentications": word,
	"tcpkeepalive": flag, "rekeylimit": list, "ignoreunknown": word,

	// Our flags for ssh decide these: -T -x -a -e none, BatchMode, ServerAliveInterval.
	"requesttty": harmless, "forwardx11": harmless, "forwardx11trusted": harmless, "forwardx11timeout": harmless,
	"forwardagent": harmless, "escapechar": harmless, "batchmode": harmless, "serveraliveinterval": harmless,
	"xauthlocation": harmless, "enableescapecommandline": harmless,
	// These concern terminals, users, forwarding that is not asked for, and what is printed.
	"passwordauthentication": harmless, "kbdinteractiveauthentication": harmless,
	"challengeresponseauthentication": harmless,
	"kbdinteractivedevices":           harmless, "numberofpasswordprompts": harmless, "visualhostkey": harmless,
	"loglevel": harmless, "logverbose": harmless,
	"syslogfacility": harmless, "fingerprinthash": harmless, "compression": harmless, "compressionlevel": harmless,
	"gatewayports":        harmless,
	"clearallforwardings": harmless, "exitonforwardfailure": harmless, "permitremoteopen": harmless,
	"streamlocalbindmask":   harmless,
	"streamlocalbindunlink": harmless, "tunneldevice": harmless, "obscurekeystroketiming": harmless,
	"controlpersist":            harmless,
	"gssapidelegatecredentials": harmless, "gssapikexalgorithms": harmless, "gssapitrustdns": harmless,
	"gssapirenewalforcesrekey": harmless,
	"gssapiclientidentity":     harmless, "gssapiserveridentity": harmless, "hostbasedacceptedalgorithms": harmless,
	"hostbasedkeytypes": harmless, "ipqos": harmless, "updatehostkeys": harmless, "addkeystoagent": harmless,
	"securitykeyprovider": harmless,
	"canonicaldomains":    harmless, "canonicalizefallbacklocal": harmless, "canonicalizemaxdots": harmless,
	"canonicalizepermittedcnames": harmless,
	"protocol":                    harmless, "rhostsrsaauthentication": harmless, "rsaauthentication": harmless,
	"useprivilegedport": harmless,
	"warnweakcrypto":    harmless, "proxyusefdpass": harmless, "enablesshkeysign": harmless, "noneenabled": harmless,
}

// unless are keywords that only a value of these keeps from being left to ssh.
var unless = map[string][]string{
	"checkhostip":                      {"no"},
	"canonicalizehostname":             {"no"},
	"controlpath":                      {"none"},
	"controlmaster":                    {"no"},
	"proxycommand":                     {"none"},
	"proxyjump":                        {"none"},
	"pkcs11provider":                   {"none"},
	"verifyhostkeydns":                 {"no"},
	"knownhostscommand":                {"none"},
	"gssapikeyexchange":                {"no"},
	"permitlocalcommand":               {"no"},
	"pubkeyauthentication":             {"yes", "unbound", "host-bound"},
	"tunnel":                           {"no"},
	"stdinnull":                        {"no"},
	"forkafterauthentication":          {"no"},
	"sessiontype":                      {"default"},
	"remotecommand":                    {"none"},
	"nohostauthenticationforlocalhost": {"no"},
	"revokedhostkeys":                  {"none"},
}

// alias are old names.
var alias = map[string]string{
	"pubkeyacceptedkeytypes": "pubkeyacceptedalgorithms", "globalknownhostsfile2": "globalknownhostsfile",
	"userknownhostsfile2": "userknownhostsfile",
	"identityfile2":       "identityfile", "dsaauthentication": "pubkeyauthentication",
}

// yes and no, as OpenSSH takes them for a flag.
var flags = map[string]bool{"yes": true, "true": true, "no": false, "false": false}
