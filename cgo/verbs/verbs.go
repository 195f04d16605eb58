// Package verbs is a thin, typed face of libibverbs, and the only C that an
// application of ibrun links: a flat shim (shim.h) that loads libibverbs.so.1
// when Open is called, so that one binary runs where there is none. It posts
// and polls in batches, one crossing into C for each. It has no policy, retries
// nothing, logs nothing, calls nobody back and starts no goroutine.
//
// InfiniBand support needs cgo and the header infiniband/verbs.h (Debian: libibverbs-dev)
// when a program is built. Without them the package compiles too, and Open returns
// ErrNotBuilt. With -tags ib a missing header is a compile error, and Go does not use
// objects from its build cache that were compiled before the header was installed. The tag
// noib leaves InfiniBand out although the header is there.
//
// Ownership: each object is made by its owner and closed by who made it.
// Close may be called again and does nothing then. An object with others open
// on it refuses to close with EBUSY and says what is still open. Calls from
// several goroutines are fine, except that nothing may run beside an object's own Close.
package verbs

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// LibraryVariable names the environment variable whose value, a path or a
// name as dlopen takes it, is loaded in place of libibverbs.so.1: a library
// of one's own build, or a test's fake.
const LibraryVariable = "IBRUN_LIBIBVERBS"

const defaultLibrary = "libibverbs.so.1"

// ErrNotBuilt is the cause when the program has no InfiniBand support in it.
var ErrNotBuilt = errors.New("this program was built without InfiniBand support")

// ErrClosed is returned by what is called on a closed object.
var ErrClosed = errors.New("verbs object is closed")

// Library is libibverbs, loaded. A process has one and keeps it.
type Library struct{}

var loaded struct {
	sync.Mutex
	library *Library
}

// Open loads the library, once for all callers. It opens no device. The error
// says what to install or to set.
func Open() (*Library, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.library != nil {
		return loaded.library, nil
	}
	if why := notBuilt(); why != "" {
		return nil, fmt.Errorf("%w: %s; build with cgo, infiniband/verbs.h (Debian: libibverbs-dev) and -tags ib",
			ErrNotBuilt, why)
	}
	path := cmp.Or(os.Getenv(LibraryVariable), defaultLibrary)
	why, rc := shimLoad(path)
	if rc == 0 {
		loaded.library = &Library{}
		return loaded.library, nil
	}
	why, hint := strings.ToLower(why[:min(1, len(why))])+why[min(1, len(why)):],
		"rdma-core is too old or is another library"
	if syscall.Errno(-rc) == syscall.ENOENT {
		hint = "install rdma-core (Debian: apt-get install libibverbs1 ibverbs-providers)"
	}
	if path != defaultLibrary {
		hint = LibraryVariable + "=" + path + " names the library"
	}
	return nil, fmt.Errorf("no InfiniBand library: %s: %s", why, hint)
}

// Transport is what kind of network a device speaks.
type Transport int32

// The transports, by the numbers of libibverbs.
const (
	TransportUnknown    Transport = -1
	TransportInfiniBand Transport = 0 // InfiniBand and RoCE
	TransportIWARP      Transport = 1 // has no UD
)

// Device is one that the kernel has.
type Device struct {
	Name      string
	GUID      uint64 // of the node, as a number: 0x0002c903000a1b2c
	Transport Transport
}

const mostDevices = 64

// Devices lists what is there, which may be nothing. It fails with ENOSYS where the
// kernel has no RDMA.
func (l *Library) Devices() ([]Device, error) {
	devices, rc := shimDevices(mostDevices)
	if rc < 0 {
		hint := ""
		if syscall.Errno(-rc) == syscall.ENOSYS {
			hint = "the kernel has no RDMA: modprobe ib_uverbs"
		}
		return nil, failed("listing devices", rc, hint)
	}
	return devices, nil
}

// Error is a verb that failed.
type Error struct {
	What  string        // "registering 4096 bytes on mlx5_0"
	Errno syscall.Errno // as the library or the kernel told it
	Hint  string        // what to try, or empty
}

func (e *Error) Error() string {
	text := e.What + ": " + e.Errno.Error()
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Unwrap makes errors.Is find the errno.
func (e *Error) Unwrap() error { return e.Errno }

// failed turns the shim's negative errno into an error.
func failed(what string, rc int, hint string) error {
	return &Error{What: what, Errno: syscall.Errno(-rc), Hint: hint}
}
