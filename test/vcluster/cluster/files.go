package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	// runDir is the directory, on every host, that contains vrsh, the client of the rsh stand-in, and the sockets of
	// all nodes.
	runDir = "/run/vcluster"
	// nodePath is the PATH of a login on a node.
	nodePath = runDir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// homeDir is root's home directory on every host.
	homeDir = "/root"
)

// writeFiles fills the directory of the cluster. It contains etc, the /etc of all hosts; home, the initial content of
// each home directory; run, which is mounted at runDir; id, the files machine-id, boot_id and hostname of each host;
// and the empty directories shared and log.
func writeFiles(dir string, cfg Config, hosts []*host) error {
	for _, sub := range []string{"run/rsh", "shared", "log", "id", "home/.ssh"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(dir, "home/.ssh"), 0o700); err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", "/etc", filepath.Join(dir, "etc")).CombinedOutput(); err != nil {
		return fmt.Errorf("copying /etc: %w: %s", err, out)
	}
	if err := copySelf(filepath.Join(dir, "run", roleVRSH)); err != nil {
		return fmt.Errorf("copying the rsh stand-in: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "etc/vcluster"), 0o755); err != nil {
		return err
	}
	files := etcFiles(hosts)
	files["home/.bashrc"] = ""
	files["home/.rhosts"] = rhosts(hosts)
	for _, h := range hosts {
		files["id/"+h.name+".machine-id"] = newID() + "\n"
		id := newID()
		files["id/"+h.name+".boot_id"] = fmt.Sprintf("%s-%s-4%s-a%s-%s\n", id[:8], id[8:12], id[13:16], id[17:20],
			id[20:])
		files["id/"+h.name+".hostname"] = h.name + "\n"
	}
	if !cfg.NoSSH {
		if err := sshFiles(dir, cfg, files); err != nil {
			return err
		}
	}
	for name, text := range files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(name, "home/") {
			mode = 0o600
		}
		if err := replaceFile(filepath.Join(dir, name), text, mode); err != nil {
			return err
		}
	}
	return nil
}

// copySelf copies the executable of this process to path. If the copy is called vrsh, it acts as the client of the rsh
// stand-in (role.go).
func copySelf(path string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// replaceFile writes a new file, even if path is a link that was copied from the machine.
func replaceFile(path, text string, mode os.FileMode) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.WriteFile(path, []byte(text), mode)
}

func etcFiles(hosts []*host) map[string]string {
	var table strings.Builder
	table.WriteString("127.0.0.1 localhost\n")
	for _, h := range hosts {
		fmt.Fprintf(&table, "%s %s\n", h.address, h.name)
	}
	return map[string]string{
		"etc/hosts":       table.String(),
		"etc/hostname":    "",
		"etc/machine-id":  "",
		"etc/resolv.conf": "",
		"etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: " +
			"files\n",
		// This file is empty, because bash reads it for every command that sshd starts. The time would be included in
		// measurements of ssh.
		"etc/bash.bashrc":    "",
		"etc/vcluster/inetd": "shell stream tcp nowait.60000 root /usr/sbin/in.rshd in.rshd\n",
		"etc/pam.d/rsh": "auth required pam_rhosts.so\naccount required pam_permit.so\nsession required " +
			"pam_permit.so\n",
	}
}

func rhosts(hosts []*host) string {
	var text strings.Builder
	for _, h := range hosts {
		fmt.Fprintf(&text, "%s root\n", h.name)
	}
	return text.String()
}

// sshFiles makes the keys: one host key and one user key for the whole cluster, known everywhere,
// so that strict host key checking stays on.
func sshFiles(dir string, cfg Config, files map[string]string) error {
	hostKey, err := newKey(filepath.Join(dir, "etc/vcluster/host_key"))
	if err != nil {
		return err
	}
	userKey, err := newKey(filepath.Join(dir, "home/.ssh/id_ed25519"))
	if err != nil {
		return err
	}
	files["etc/ssh/ssh_known_hosts"] = "node*,10.77.*," + FrontName + " " + hostKey + "\n"
	files["etc/vcluster/authorized_keys"] = userKey + "\n"
	config := append(slices.Clone(cfg.SSHD),
		"HostKey /etc/vcluster/host_key", "AuthorizedKeysFile /etc/vcluster/authorized_keys", "PidFile none",
		"PermitRootLogin prohibit-password", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
		"UsePAM no", "UseDNS no", "MaxStartups 1000", "MaxSessions 1000", "PermitUserEnvironment no", "PrintMotd no",
		"X11Forwarding no", "LogLevel ERROR", strings.Join(append([]string{"SetEnv PATH=" + nodePath}, coverage()...), " "),
	)
	if cfg.Kex != "" {
		config = append(config, "KexAlgorithms "+cfg.Kex)
	}
	files["etc/vcluster/sshd_config"] = strings.Join(config, "\n") + "\n"
	// With UsePAM off sshd refuses an account whose password is locked by "!".
	shadow, err := os.ReadFile(filepath.Join(dir, "etc/shadow"))
	if err == nil {
		text := regexp.MustCompile(`(?m)^root:[^:]*:`).ReplaceAllString(string(shadow), "root:*:")
		err = os.WriteFile(filepath.Join(dir, "etc/shadow"), []byte(text), 0o640)
	}
	return err
}

// newKey makes a key pair and returns the public line.
func newKey(path string) (string, error) {
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "vcluster", "-f",
		path).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	text, err := os.ReadFile(path + ".pub")
	return strings.TrimSpace(string(text)), err
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// coverage returns the variable GOCOVERDIR, in the form "key=value", for the environment of a process on a host. It
// returns nil if this process does not have the variable, which package product sets for measurements of coverage.
// Sessions on nodes do not inherit it.
func coverage() []string {
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		return []string{"GOCOVERDIR=" + dir}
	}
	return nil
}
