// Command stuck mounts a file system that stops answering, as one over a network does
// whose server is gone, and serves it until its standard input ends:
//
//	stuck DIR
//
// It says "ready" when it is mounted, and "waits" for each request that it has taken and leaves
// without an answer: until then who asks can be killed. DIR/program can be looked at, may be
// executed and opened, and whoever reads of it waits; whoever enters DIR/house waits, and
// so does who asks for any other name. Nothing ends a process that waits, not even
// SIGKILL: the kernel has passed its request on, and leaves it only with the answer, or
// with the end of this program. Needs root.
//
// The protocol is that of the kernel's include/uapi/linux/fuse.h, version 7.31.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Requests that are answered, and those that want no answer.
const (
	opLookup    = 1
	opForget    = 2
	opGetattr   = 3
	opOpen      = 14
	opRead      = 15
	opRelease   = 18
	opGetxattr  = 22
	opInit      = 26
	opAccess    = 34
	opInterrupt = 36
	opBatch     = 42 // of forgets
)

// The files, by the numbers that they have here.
const (
	root    = 1
	program = 2
	house   = 3
)

const (
	version, minor = 7, 31
	headerIn       = 40
	headerOut      = 16
	mostWrite      = 4096
	mostRequest    = 8192 + mostWrite // the kernel wants room for this much at least
	fresh          = 3600             // seconds that the kernel may keep what it was told
)

var order = binary.NativeEndian

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "stuck:", err)
		os.Exit(1)
	}
}

func serve() error {
	if len(os.Args) != 2 {
		return errors.New("usage: stuck DIR")
	}
	dir := os.Args[1]
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("/dev/fuse: %w", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("stuck", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		os.Exit(0) // all that waits gets an error
	}()
	buf := make([]byte, mostRequest)
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.ENOENT) {
			continue
		}
		if err != nil {
			return fmt.Errorf("/dev/fuse: %w", err)
		}
		if reply := answer(buf[:n]); reply != nil {
			if _, err := unix.Write(fd, reply); err != nil && !errors.Is(err, syscall.ENOENT) {
				return fmt.Errorf("/dev/fuse: %w", err)
			}
		}
	}
}

// answer is the reply to a request, or nil: for ever.
func answer(in []byte) []byte {
	op, unique, node := order.Uint32(in[4:]), order.Uint64(in[8:]), order.Uint64(in[16:])
	reply := func(errno syscall.Errno, body []byte) []byte {
		out := order.AppendUint32(nil, uint32(headerOut+len(body)))
		out = order.AppendUint32(out, uint32(-int32(errno)))
		return append(order.AppendUint64(out, unique), body...)
	}
	switch op {
	case opInit:
		fmt.Println("ready")
		out := order.AppendUint32(order.AppendUint32(nil, version), minor)
		out = append(out, make([]byte, 12)...) // readahead, flags, background
		out = order.AppendUint32(out, mostWrite)
		return reply(0, append(out, make([]byte, 40)...))
	case opLookup:
		switch name := string(in[headerIn : len(in)-1]); {
		case node == root && name == "program":
			return reply(0, entry(program))
		case node == root && name == "house":
			return reply(0, entry(house))
		}
	case opGetattr:
		out := append(order.AppendUint64(nil, fresh), make([]byte, 8)...)
		return reply(0, append(out, attributes(node)...))
	case opOpen:
		return reply(0, make([]byte, 16))
	case opAccess:
		if node != house {
			return reply(0, nil)
		}
	case opRelease:
		return reply(0, nil)
	case opForget, opInterrupt, opBatch:
		return nil
	case opRead:
	default:
		return reply(syscall.ENOSYS, nil)
	}
	fmt.Println("waits")
	return nil
}

// entry is struct fuse_entry_out.
func entry(node uint64) []byte {
	out := order.AppendUint64(nil, node)
	out = order.AppendUint64(out, 0)     // generation
	out = order.AppendUint64(out, fresh) // of the name
	out = order.AppendUint64(out, fresh) // of what is said of the file
	return append(append(out, make([]byte, 8)...), attributes(node)...)
}

// attributes is struct fuse_attr.
func attributes(node uint64) []byte {
	mode, size := uint32(unix.S_IFDIR|0o755), uint64(0)
	if node == program {
		mode, size = unix.S_IFREG|0o755, 100
	}
	out := order.AppendUint64(nil, node)
	out = order.AppendUint64(out, size)
	out = order.AppendUint64(out, 1)       // blocks
	out = append(out, make([]byte, 36)...) // times
	out = order.AppendUint32(out, mode)
	out = order.AppendUint32(out, 1)                            // links
	out = append(out, make([]byte, 12)...)                      // root's, no device
	return order.AppendUint32(order.AppendUint32(out, 4096), 0) // block size, flags
}
