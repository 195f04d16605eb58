package remote

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A host that is cut off or dead leaves what we send unacknowledged, and our
// kernel sends it again: after some seconds of silence, in which beats were
// sent, the count of retransmissions tells a dead host from an agent that is
// stopped. Nothing of the far side's cooperation is needed, and no privilege:
// /proc/net/tcp is readable by all.

// silentAfter is the number of retransmissions in a row that means silence:
// the third comes 1.4 s after the first loss at the least.
const silentAfter = 3

// PeerAnswers reports whether the kernel at the far end of the session
// acknowledges what is sent. It is not known when the launcher has no TCP
// connection, unless the session is local.
func (ses *Session) PeerAnswers() (answers, known bool) {
	if ses.local {
		return true, true
	}
	inodes := ses.line.inodes()
	return verdict(func(s tcpSocket) bool { return inodes[s.inode] })
}

// UpstreamAnswers is PeerAnswers for the link to the parent, from the agent's
// side: its own descriptors, or the connection that sshd named.
func UpstreamAnswers() (answers, known bool) {
	inodes := map[string]bool{}
	for _, n := range sockets("/proc/self/fd/[01]") {
		inodes[n] = true
	}
	words := strings.Fields(os.Getenv("SSH_CONNECTION"))
	var local, remote netip.AddrPort
	if len(words) == 4 {
		remote, local = endpoint(words[0], words[1]), endpoint(words[2], words[3])
	} else if len(inodes) == 0 {
		return true, os.Getenv("SSH_CONNECTION") == "" && os.Getppid() > 0 && isPipe()
	}
	return verdict(func(s tcpSocket) bool {
		return inodes[s.inode] || local.IsValid() && s.local == local && s.remote == remote
	})
}

// LocalAddress is the address by which the parent reaches this node: the near
// end of the connection that the agent's session came in by. Empty: there is
// none, or it cannot be told.
func LocalAddress() string {
	if words := strings.Fields(os.Getenv("SSH_CONNECTION")); len(words) == 4 {
		return endpoint(words[2], words[3]).Addr().String()
	}
	// The descriptor is asked, and not /proc/net/tcp, which on a machine with much
	// memory takes milliseconds to read however few connections there are.
	for fd := range 2 {
		name, err := unix.Getsockname(fd)
		if err != nil {
			continue // no socket
		}
		switch name := name.(type) {
		case *unix.SockaddrInet4:
			return netip.AddrFrom4(name.Addr).String()
		case *unix.SockaddrInet6:
			return netip.AddrFrom16(name.Addr).Unmap().String()
		}
	}
	return ""
}

// isPipe reports whether the link is a pipe to a process of this machine, as
// with the local launcher.
func isPipe() bool {
	var st syscall.Stat_t
	return syscall.Fstat(0, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFIFO
}

func family(pid int) []int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	var kids []int
	for _, w := range strings.Fields(string(b)) {
		if k, err := strconv.Atoi(w); err == nil {
			kids = append(kids, k)
		}
	}
	return kids
}

// sockets returns the inodes of the sockets among some descriptors.
func sockets(glob string) []string {
	var inodes []string
	links, _ := filepath.Glob(glob)
	for _, l := range links {
		to, _ := os.Readlink(l)
		if n, ok := strings.CutPrefix(to, "socket:["); ok {
			inodes = append(inodes, strings.TrimSuffix(n, "]"))
		}
	}
	return inodes
}

func endpoint(addr, port string) netip.AddrPort {
	a, err := netip.ParseAddr(addr)
	p, err2 := strconv.ParseUint(port, 10, 16)
	if err != nil || err2 != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Unmap().WithZone(""), uint16(p))
}

// tcpSocket is one line of /proc/net/tcp or tcp6 (kernel: net/ipv4/tcp_ipv4.c,
// get_tcp4_sock).
type tcpSocket struct {
	local, remote netip.AddrPort
	resent        int // retransmissions in a row
	inode         string
}

func verdict(ours func(tcpSocket) bool) (answers, known bool) {
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if s, ok := parseSocket(lines.Text()); ok && ours(s) {
				f.Close()
				return s.resent < silentAfter, true
			}
		}
		f.Close()
	}
	return false, false
}

func parseSocket(line string) (tcpSocket, bool) {
	w := strings.Fields(line)
	if len(w) < 10 {
		return tcpSocket{}, false
	}
	resent, err := strconv.ParseInt(w[6], 16, 32)
	if err != nil {
		return tcpSocket{}, false
	}
	return tcpSocket{local: hexEndpoint(w[1]), remote: hexEndpoint(w[2]), resent: int(resent), inode: w[9]}, true
}

// hexEndpoint reads an address as the kernel prints it: 32-bit words in the
// machine's byte order, which is little-endian wherever ibrun runs today.
func hexEndpoint(s string) netip.AddrPort {
	a, p, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(a)
	port, err2 := strconv.ParseUint(p, 16, 16)
	if err != nil || err2 != nil || len(b)%4 != 0 {
		return netip.AddrPort{}
	}
	for i := 0; i < len(b); i += 4 {
		b[i], b[i+1], b[i+2], b[i+3] = b[i+3], b[i+2], b[i+1], b[i]
	}
	addr, ok := netip.AddrFromSlice(b)
	if !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(port))
}
