//go:build cluster || soak

package login

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// situation is a configuration and what comes of it, with both clients.
type situation struct {
	name   string
	config string   // of ssh -F; {KNOWN} is the known_hosts file
	known  string   // what that has at first
	args   []string // of ssh, before the host; -F CONFIG is added where config is not empty
	host   string   // x where empty
	agent  string   // agents by name: empty, one
	want   string   // verdict
	exec   bool     // native ssh leaves it to ssh
	learns bool     // known_hosts has a line more afterwards
	prints string   // part of what native ssh says
}

const (
	ok2201 = "root@{ADDR}:2201"
	plain  = "HostName node0001\nPort 2201\nUserKnownHostsFile {KNOWN}\nGlobalKnownHostsFile none\nIdentityFile " +
		"{DIR}/good\nIdentitiesOnly yes\nIdentityAgent none\n"
	right = "[node0001]:2201 {host_ed25519}\n"
)

// with is the plain configuration below other lines, which count first.
func with(lines string) string { return lines + "\n" + plain }

var situations = slices.Concat([]situation{
	{name: "plain", config: plain, known: right, want: ok2201},
	{name: "unknown host", config: plain, want: "host key", prints: "not known"},
	{name: "unknown, yes", config: with("StrictHostKeyChecking yes"), want: "host key"},
	{name: "unknown, accept-new", config: with("StrictHostKeyChecking accept-new"), want: ok2201, learns: true},
	{name: "unknown, accept-new, hashed", config: with("StrictHostKeyChecking accept-new\nHashKnownHosts yes"),
		want: ok2201, learns: true},
	{name: "unknown, no", config: with("StrictHostKeyChecking no"), want: ok2201, learns: true},
	{name: "unknown, off", config: with("StrictHostKeyChecking off"), want: ok2201, learns: true},
	{name: "unknown, ask", config: with("StrictHostKeyChecking ask"), want: "host key"},
	{name: "changed", config: plain, known: "[node0001]:2201 {ca}\n", want: "host key",
		prints: "ssh-keygen -R '[node0001]:2201'"},
	{name: "changed, accept-new", config: with("StrictHostKeyChecking accept-new"), known: "[node0001]:2201 {ca}\n",
		want: "host key", prints: "known:1 has another"},
	{name: "changed, no", config: with("StrictHostKeyChecking no"), known: "[node0001]:2201 {ca}\n", want: ok2201,
		exec: true},
	{name: "changed, another type known", config: plain, known: "[node0001]:2201 {second}\n", want: "host key"},
	{name: "both right and wrong", config: plain, known: "[node0001]:2201 {ca}\n" + right, want: ok2201},
	{name: "only the rsa key known", config: plain, known: "[node0001]:2201 {host_rsa}\n", want: ok2201},
	{name: "wrong ed25519, right rsa", config: plain, known: "[node0001]:2201 {ca}\n[node0001]:2201 {host_rsa}\n",
		want: "host key"},
	{name: "known without port", config: plain, known: "node0001 {host_ed25519}\n", want: ok2201},
	{name: "another key without port", config: plain, known: "node0001 {ca}\n", want: "host key"},
	{name: "known by wildcard", config: plain, known: "[node*]:2201 {host_ed25519}\n", want: ok2201},
	{name: "known by star", config: plain, known: "* {host_ed25519}\n", want: ok2201},
	{name: "negated", config: plain, known: "*,![node0001]:* {host_ed25519}\n", want: ok2201},
	{name: "negated both ways", config: plain, known: "*,![node0001]:*,!node0001 {host_ed25519}\n", want: "host key"},
	{name: "in capitals", config: with("HostName NODE0001"), known: "[Node0001]:2201 {host_ed25519}\n", want: ok2201},
	{name: "known by address only", config: plain, known: "[{ADDR}]:2201 {host_ed25519}\n", want: "host key"},
	{name: "by address", config: with("HostName {ADDR}"), known: "[{ADDR}]:2201 {host_ed25519}\n", want: ok2201},
	{name: "spoilt lines", config: plain,
		known: "#\n\nrubbish\n[node0001]:2201 ssh-ed25519 ????\n@what [node0001]:2201 {ca}\n[node0001]:2201 ssh-rsa " +
			"AAAA\n" + right, want: ok2201},
	{name: "revoked", config: plain, known: right + "@revoked * {host_ed25519}\n", want: "host key", prints: "revoked"},
	{name: "revoked for another", config: plain, known: right + "@revoked elsewhere {host_ed25519}\n", want: ok2201},
	{name: "key alias", config: with("HostKeyAlias cluster"), known: "cluster {host_ed25519}\n", want: ok2201},
	{name: "key alias, not known", config: with("HostKeyAlias cluster"), known: right, want: "host key"},
	{name: "second file", config: with("UserKnownHostsFile /nonexistent {KNOWN}"), known: right, want: ok2201},
	{name: "system's file", config: with("UserKnownHostsFile none\nGlobalKnownHostsFile {KNOWN}"), known: right,
		want: ok2201},
	{name: "nowhere to write", config: with("StrictHostKeyChecking accept-new\nUserKnownHostsFile /dev/null"),
		want: ok2201},
	{name: "authority", config: with("Port 2202"), known: "@cert-authority node* {ca}\n", want: "root@{ADDR}:2202"},
	{name: "authority with port", config: with("Port 2202"), known: "@cert-authority [node*]:2202 {ca}\n",
		want: "root@{ADDR}:2202"},
	{name: "other authority", config: with("Port 2202"), known: "@cert-authority * {bad2}\n", want: "host key"},
	{name: "other authority, key known", config: with("Port 2202"),
		known: "@cert-authority * {bad2}\n[node0001]:2202 {host_ed25519}\n", want: "root@{ADDR}:2202"},
	{name: "authority, other name", config: with("Port 2202\nHostKeyAlias b"), known: "@cert-authority b {ca}\n",
		want: "host key"},
	{name: "authority revoked", config: with("Port 2202"), known: "@cert-authority * {ca}\n@revoked * {ca}\n",
		want: "host key"},
	{name: "check by address too", config: with("CheckHostIP yes"), known: right, want: ok2201, exec: true},
	{name: "known hosts by command", config: with("KnownHostsCommand /bin/false"), known: right, want: "configuration",
		exec: true},
}, keySituations, configSituations)

// requireSameVerdict logs in with both clients in each situation, and requires the same end.
func requireSameVerdict(t *testing.T, situations []situation) {
	s := newSite(t)
	s.write(t, "askpass", "#!/bin/sh\necho secret\n")
	require.NoError(t, os.Chmod(s.path("askpass"), 0o700))
	agents := map[string]string{"": "", "good": s.agent(t, "good"), "locked": s.agent(t, "locked"), "many": s.agent(t,
		"bad1", "bad2", "bad3", "good")}
	s.append(t, filepath.Join(s.Etc(), "ssh/ssh_config"), "\n"+s.fill(systemConfig))
	for name, text := range included {
		s.write(t, name, s.fill(text))
	}
	s.listen(t)
	seen := map[string]bool{}
	for _, c := range situations {
		require.False(t, seen[c.name], c.name)
		seen[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			want := s.fill(c.want)
			theirs, theirKnown, said := s.attempt(t, c, agents[c.agent], false)
			require.Equal(t, want, theirs, "ssh: %s", said)
			ours, ourKnown, said := s.attempt(t, c, agents[c.agent], true)
			if c.exec {
				require.Equal(t, "exec", ours, said)
				return
			}
			require.Equal(t, want, ours, said)
			require.Contains(t, said, c.prints)
			if c.learns {
				lines := 0
				if c.known != "" {
					lines = 1
				}
				require.Len(t, strings.Split(strings.TrimSpace(ourKnown), "\n"), lines+1, ourKnown)
				s.findable(t, theirKnown, ourKnown)
			} else {
				require.Equal(t, s.fill(c.known), ourKnown)
			}
		})
	}
}

// findable asks ssh-keygen whether both clients wrote down the same key of the same host.
func (s *site) findable(t *testing.T, files ...string) {
	var keys [2]string
	for i, text := range files {
		f := filepath.Join(t.TempDir(), "known")
		require.NoError(t, os.WriteFile(f, []byte(text), 0o600))
		out, err := exec.Command("ssh-keygen", "-F", "[node0001]:2201", "-f", f).Output()
		require.NoError(t, err, text)
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		w := strings.Fields(lines[len(lines)-1])
		keys[i] = strings.Join(w[len(w)-2:], " ")
		require.Equal(t, strings.HasPrefix(files[0], "|1|"), strings.HasPrefix(text, "|1|"), text)
	}
	require.Equal(t, keys[0], keys[1])
}

// attempt runs one client and returns its verdict, the known_hosts it leaves,
// and what it said.
func (s *site) attempt(t *testing.T, c situation, agent string, native bool) (end, known, said string) {
	dir := t.TempDir()
	file, config := filepath.Join(dir, "known"), filepath.Join(dir, "config")
	require.NoError(t, os.WriteFile(file, []byte(s.fill(c.known)), 0o600))
	fill := func(text string) string { return strings.ReplaceAll(s.fill(text), "{KNOWN}", file) }
	var args []string
	if c.config != "" {
		require.NoError(t, os.WriteFile(config, []byte(fill(c.config)), 0o600))
		args = append(args, "-F", config)
	}
	for _, a := range c.args {
		args = append(args, fill(a))
	}
	host := c.host
	if host == "" {
		host = "x"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := s.Command(ctx, append([]string{self}, append(args, host)...)...)
	if !native {
		args = append([]string{"ssh", "-T", "-x", "-a", "-e", "none", "-o", "BatchMode=yes", "-o", "UpdateHostKeys=no"},
			args...)
		cmd = s.Command(ctx, append(args, "--", host, sshdHere)...)
	}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "SSH_AUTH_SOCK=") })
	cmd.Env = append(cmd.Env, "NODE_NUMBER=0001")
	if agent != "" {
		cmd.Env = append(cmd.Env, "SSH_AUTH_SOCK="+agent)
	}
	if native {
		cmd.Env = append(cmd.Env, probeVariable+"=1")
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the verdict says it
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	return verdict(stdout.String(), stderr.String()), string(after), stderr.String()
}
