package remote

import (
	"bufio"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Evidence is what this machine's kernel knows of the TCP connection that carries
// a link: a host that is cut off or dead leaves what we send unacknowledged. Nothing
// of the far side's cooperation is needed, and no privilege: the kernel tells of
// everybody's connections, sshd's too (sock_diag(7), proc(5)).
type Evidence struct {
	Resent int    // retransmissions in a row
	Waits  bool   // something is not acknowledged, or not sent though the far kernel's window is open
	Acked  uint64 // bytes; 0 where the kernel does not say
}

// Evidence is about the session's connection. Nothing is known when the launcher has none of
// its own, unless the session is local.
func (ses *Session) Evidence() (e Evidence, known bool) {
	if ses.local {
		return e, true
	}
	inodes := ses.inodes()
	return evidence(func(s tcpSocket) bool { return slices.Contains(inodes, s.inode) })
}

// UpstreamEvidence is about the link to the parent, from the agent's side: its
// own descriptors, or the connection that sshd named.
func UpstreamEvidence() (e Evidence, known bool) {
	up := upstream.Load()
	if up == nil {
		up = &upLink{in: 0, out: 1, connection: os.Getenv("SSH_CONNECTION")}
	}
	const descriptors = "/proc/self/fd/"
	inodes := slices.Concat(sockets(descriptors+strconv.Itoa(up.in)), sockets(descriptors+strconv.Itoa(up.out)))
	words := strings.Fields(up.connection)
	var local, remote netip.AddrPort
	if len(words) == 4 {
		remote, local = endpoint(words[0], words[1]), endpoint(words[2], words[3])
	} else if len(inodes) == 0 {
		return e, up.connection == "" && os.Getppid() > 0 && isPipe(up.in)
	}
	return evidence(func(s tcpSocket) bool {
		return slices.Contains(inodes, s.inode) || local.IsValid() && s.local == local && s.remote == remote
	})
}

// upLink is the link to the parent, if it is not the one that the agent was started with.
type upLink struct {
	in, out    int    // descriptors
	connection string // as sshd says in SSH_CONNECTION
}

var upstream atomic.Pointer[upLink]

// Rejoined says that the link to the parent is another one from now on: the agent's descriptors,
// and the SSH_CONNECTION of the session that it came by.
func Rejoined(in, out int, connection string) { upstream.Store(&upLink{in, out, connection}) }

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
func isPipe(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFIFO
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

// tcpSocket is a connection and how to tell it from others.
type tcpSocket struct {
	local, remote netip.AddrPort
	inode         string
	Evidence
}

// evidence is about the first connection that is ours.
func evidence(ours func(tcpSocket) bool) (e Evidence, known bool) {
	for _, list := range []func() []tcpSocket{diagnosed, listed} {
		for _, s := range list() {
			if ours(s) {
				return s.Evidence, true
			}
		}
	}
	return e, false
}

// diagnosed are the connections of this machine as the kernel tells of them to programs.
func diagnosed() (found []tcpSocket) {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		all, _ := netlink.SocketDiagTCPInfo(family) // what came before an error counts
		for _, one := range all {
			if one.InetDiagMsg == nil || one.TCPInfo == nil {
				continue
			}
			at, i := one.InetDiagMsg.ID, one.TCPInfo
			found = append(found, tcpSocket{
				local: from(at.Source, at.SourcePort), remote: from(at.Destination, at.DestinationPort),
				inode: strconv.FormatUint(uint64(one.InetDiagMsg.INode), 10),
				Evidence: Evidence{
					Resent: int(i.Retransmits), Acked: i.Bytes_acked,
					// Linux before 5.4 does not tell the window. What never left this machine is
					// not seen there.
					Waits: i.Unacked > 0 || i.Notsent_bytes > 0 && i.Snd_wnd > 0,
				},
			})
		}
	}
	return found
}

func from(ip net.IP, port uint16) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(addr.Unmap(), port)
}

// listed are the same as the kernel shows them to the user, who are told less.
func listed() (found []tcpSocket) {
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if s, ok := parseSocket(lines.Text()); ok {
				found = append(found, s)
			}
		}
		f.Close()
	}
	return found
}

// parseSocket reads a line of /proc/net/tcp or tcp6 (kernel: net/ipv4/tcp_ipv4.c,
// get_tcp4_sock).
func parseSocket(line string) (tcpSocket, bool) {
	w := strings.Fields(line)
	if len(w) < 10 {
		return tcpSocket{}, false
	}
	resent, err := strconv.ParseInt(w[6], 16, 32)
	if err != nil {
		return tcpSocket{}, false
	}
	return tcpSocket{local: hexEndpoint(w[1]), remote: hexEndpoint(w[2]), inode: w[9],
		Evidence: Evidence{Resent: int(resent)}}, true
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
