package proc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenTerminal makes a pseudo terminal: what is written to one end is read from the other. Theirs
// is a program's terminal; it echoes and edits lines, unless plain is said: then what the program
// writes comes out byte for byte. Ours ends with EIO when nobody has theirs open any more.
func OpenTerminal(rows, cols uint16, plain bool) (ours, theirs *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	ours = os.NewFile(uintptr(fd), "terminal")
	peer, err := openPeer(fd)
	if err != nil {
		ours.Close()
		return nil, nil, os.NewSyscallError("terminal", err)
	}
	theirs = os.NewFile(uintptr(peer), "terminal of a child")
	if err = setTerminal(peer, rows, cols, plain); err != nil {
		ours.Close()
		theirs.Close()
		return nil, nil, os.NewSyscallError("terminal", err)
	}
	return ours, theirs, nil
}

// openPeer opens the program's end: by descriptor, which kernels before 4.13 cannot do, or by name.
func openPeer(fd int) (int, error) {
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, flags)
	if errno == 0 {
		return int(peer), nil
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return -1, err
	}
	return unix.Open(fmt.Sprintf("/dev/pts/%d", number), flags, 0)
}

func setTerminal(fd int, rows, cols uint16, plain bool) error {
	if rows > 0 && cols > 0 {
		if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
			return err
		}
	}
	if !plain {
		return nil
	}
	how, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	how.Oflag &^= unix.OPOST
	how.Lflag &^= unix.ECHO
	return unix.IoctlSetTermios(fd, unix.TCSETS, how)
}

// Raw are modes in which each key goes to the program as it is, Ctrl-C as well, and what the
// program writes to the terminal, as cfmakeraw(3) has them.
func Raw(modes unix.Termios) unix.Termios {
	modes.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP |
		unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	modes.Oflag &^= unix.OPOST
	modes.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	modes.Cflag = modes.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	modes.Cc[unix.VMIN], modes.Cc[unix.VTIME] = 1, 0
	return modes
}

// Resize tells the program of a terminal that its size has changed.
func Resize(ours *os.File, rows, cols uint16) error {
	raw, err := ours.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	return errors.Join(err, failed)
}

// Again is another descriptor of the same open file: closing one leaves the other.
func Again(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	var failed error
	err = raw.Control(func(old uintptr) { fd, failed = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil || failed != nil {
		return nil, os.NewSyscallError("fcntl", failed)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
