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

// create initializes l, the embedded life of object, and returns object. It calls make for the C pointer while none of
// the owners can be closed. In errors, the object is named by kind and of, such as "completion queue of mlx5_0". If
// make fails, hint returns a hint for the error number. A nil hint adds none.
func create[T any](object T, l *life, kind, of string, owners []*life, make func() (unsafe.Pointer, int),
	hint func(syscall.Errno) string) (made T, err error) {
	l.kind, l.name = kind, kind+" "+of
	for i, o := range owners {
		if !o.adopt(kind) {
			for _, o := range owners[:i] {
				o.release(kind)
			}
			return made, ErrClosed
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
		return made, failed("making a "+l.name, rc, hint(syscall.Errno(-rc)))
	}
	l.ptr, l.owners = ptr, owners
	return object, nil
}

// ask calls query with the C pointer of an object and returns the answer, or ErrClosed after Close. What describes the
// query in an error, such as "asking mlx5_0 for its limits".
func ask[T any](l *life, what string, query func(unsafe.Pointer) (T, int)) (answer T, err error) {
	if l.ptr == nil {
		return answer, ErrClosed
	}
	got, rc := query(l.ptr)
	if rc < 0 {
		return answer, failed(what, rc, "")
	}
	return got, nil
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
