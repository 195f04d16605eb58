package safefile

import (
	"net"

	"golang.org/x/sys/unix"
)

// Peer is the user of the process at the other end of a connection, as it was when that process
// connected or listened (unix(7), SO_PEERCRED).
func Peer(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var fail error
	if err = raw.Control(func(fd uintptr) {
		cred, fail = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if fail != nil {
		return 0, fail
	}
	return int(cred.Uid), nil
}
