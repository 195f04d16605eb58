package verbs

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// life is what each object has: the library's pointer, those it stands on, and
// how many stand on it.
//
//	born: the owners count it -> closed: the owners count it no more
type life struct {
	ptr    unsafe.Pointer // nil once closed
	kind   string         // "queue pair"
	name   string         // "queue pair 17 of mlx5_0"
	owners []*life

	mu       sync.Mutex
	children map[string]int // by kind
	closed   bool
}

// born makes an object: make runs while no owner can close.
func (l *life) born(kind, name string, owners []*life, make func() (unsafe.Pointer, int),
	hint func(syscall.Errno) string) error {
	l.kind, l.name = kind, name
	for i, o := range owners {
		if !o.adopt(kind) {
			for _, o := range owners[:i] {
				o.release(kind)
			}
			return ErrClosed
		}
	}
	ptr, rc := make()
	if rc < 0 {
		for _, o := range owners {
			o.release(kind)
		}
		if hint == nil {
			hint = func(syscall.Errno) string { return "" }
		}
		return failed("making a "+name, rc, hint(syscall.Errno(-rc)))
	}
	l.ptr, l.owners = ptr, owners
	return nil
}

func (l *life) adopt(kind string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.ptr == nil {
		return false
	}
	if l.children == nil {
		l.children = map[string]int{}
	}
	l.children[kind]++
	return true
}

func (l *life) release(kind string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.children[kind]--; l.children[kind] == 0 {
		delete(l.children, kind)
	}
}

// end closes an object, once. It stays open if others are open on it, or if
// the library refuses.
func (l *life) end(destroy func(unsafe.Pointer) int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.ptr == nil {
		return nil
	}
	if len(l.children) > 0 {
		var open []string
		for kind, n := range l.children {
			open = append(open, fmt.Sprintf("%d of kind %q", n, kind))
		}
		return failed("closing "+l.name, -int(syscall.EBUSY), "still open on it: "+strings.Join(open, ", "))
	}
	if rc := destroy(l.ptr); rc < 0 {
		return failed("closing "+l.name, rc, "")
	}
	l.closed, l.ptr = true, nil
	for _, o := range l.owners {
		o.release(l.kind)
	}
	return nil
}
