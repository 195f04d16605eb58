package spawn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// connection identifies a TCP connection over IPv4. The caller's end has the address from, and our end has to.
type connection struct{ from, to netip.AddrPort }

var errNoCaller = errors.New("the caller has hung up already")

// Caller returns the user ID of the process that has the other end of a TCP connection over the loopback interface. It
// returns errNoCaller if that process has closed its end, because the kernel assigns such a socket to user 0.
func Caller(ours *net.TCPConn) (uid int, err error) {
	c := connection{ours.RemoteAddr().(*net.TCPAddr).AddrPort(), ours.LocalAddr().(*net.TCPAddr).AddrPort()}
	if uid, err = c.askKernel(); err == nil || errors.Is(err, errNoCaller) {
		return uid, err
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		if uid, err := c.find(text); err == nil {
			return uid, nil
		}
	}
	return 0, errNoCaller
}

const (
	established = 1 // TCP_ESTABLISHED of linux/tcp_states.h
	idSize      = 48
)

// id is the connection as struct inet_diag_sockid: ports, addresses with room for
// IPv6, interface and cookie, which is any.
func (c *connection) id() []byte {
	b := make([]byte, idSize)
	binary.BigEndian.PutUint16(b, c.from.Port())
	binary.BigEndian.PutUint16(b[2:], c.to.Port())
	copy(b[4:], c.from.Addr().AsSlice())
	copy(b[20:], c.to.Addr().AsSlice())
	binary.NativeEndian.PutUint64(b[40:], ^uint64(0))
	return b
}

// askKernel asks the kernel for the user ID by sock_diag(7), which searches for a single connection.
func (c *connection) askKernel() (uid int, err error) {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(s)
	b := make([]byte, unix.NLMSG_HDRLEN, 128)
	binary.NativeEndian.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	b = append(b, unix.AF_INET, unix.IPPROTO_TCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, 1<<established)
	b = append(b, c.id()...)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	if err := unix.Sendto(s, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(s, answer, 0)
	if err != nil {
		return 0, err
	}
	return c.read(answer[:n])
}

// read decodes the answer of the kernel, which is a struct inet_diag_msg or an error.
func (c *connection) read(b []byte) (uid int, err error) {
	const state, at, uidAt, inodeAt, size = 1, 4, 64, 68, 72
	if len(b) < unix.NLMSG_HDRLEN+4 {
		return 0, unix.EBADMSG
	}
	kind, b := binary.NativeEndian.Uint16(b[4:]), b[unix.NLMSG_HDRLEN:]
	switch {
	case kind == unix.NLMSG_ERROR && int32(binary.NativeEndian.Uint32(b)) == -int32(unix.ENOENT):
		return 0, errNoCaller
	case kind == unix.NLMSG_ERROR:
		return 0, unix.Errno(-int32(binary.NativeEndian.Uint32(b)))
	case kind != unix.SOCK_DIAG_BY_FAMILY || len(b) < size:
		return 0, unix.EBADMSG
	}
	same := bytes.Equal(b[at:at+8], c.id()[:8]) && bytes.Equal(b[at+20:at+24], c.id()[20:24])
	if !same || b[state] != established || binary.NativeEndian.Uint32(b[inodeAt:]) == 0 {
		return 0, errNoCaller
	}
	return int(binary.NativeEndian.Uint32(b[uidAt:])), nil
}

// find returns the user ID from a table of procfs (proc_pid_net(5)). It is for kernels without sock_diag.
func (c *connection) find(table []byte) (uid int, err error) {
	const local, remote, state, uidAt, inode, fields = 1, 2, 3, 7, 9, 10
	for line := range bytes.Lines(table) {
		f := bytes.Fields(line)
		if len(f) < fields || string(f[state]) != "01" || string(f[inode]) == "0" ||
			!names(f[local], c.from) || !names(f[remote], c.to) {
			continue
		}
		return strconv.Atoi(string(f[uidAt]))
	}
	return 0, errNoCaller
}

// names reports whether a field of a table such as /proc/net/tcp ends with the address and the port of a, in
// hexadecimal digits. The address has the byte order of the machine. In /proc/net/tcp6, the digits of the IPv6 prefix
// precede the IPv4 address.
func names(field []byte, a netip.AddrPort) bool {
	address := binary.NativeEndian.Uint32(a.Addr().AsSlice())
	return bytes.HasSuffix(field, fmt.Appendf(nil, "%08X:%04X", address, a.Port()))
}
