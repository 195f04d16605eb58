package udp

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"ibrun/fabric"
)

// PostAll passes all datagrams to the kernel with one call, and the kernel divides them (UDP_SEGMENT, udp(7)). If the
// kernel or the link cannot do that, PostAll sends each datagram by itself, now and in later calls.
func (f *Fabric) PostAll(to fabric.Tuple, b []byte, size int) error {
	if size < len(b) && size <= f.mtu && to.Kind == f.tuple.Kind && !f.single.Load() && f.ending.Err() == nil {
		switch err := f.send(to, b, size); err {
		case unix.EINVAL, unix.EIO, unix.ENOPROTOOPT, unix.EOPNOTSUPP, unix.EMSGSIZE:
			f.single.Store(true)
		default:
			return f.posted(err, b, (len(b)+size-1)/size)
		}
	}
	for part := range slices.Chunk(b, size) {
		if err := f.Post(to, part); err != nil {
			return err
		}
	}
	return nil
}

// segments is the control message that says how long each datagram is.
func segments(size int) []byte {
	b := make([]byte, unix.CmsgSpace(2))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(b[unix.CmsgLen(0):], uint16(size))
	return b
}
