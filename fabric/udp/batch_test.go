package udp

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/fabric"
)

// Several datagrams go by one call and arrive one by one, the last one shorter. Where the kernel
// cannot do that they go one by one, from then on.
func TestPostAll(t *testing.T) {
	for name, prepare := range map[string]func(f *Fabric){
		"together": func(*Fabric) {},
		"refused": func(f *Fabric) { // without checksums of its own, the kernel cuts nothing apart
			require.NoError(t, control(f.in.socket, func(fd int) error {
				return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := open(t, Config{Addr: here, MTU: 1500})
			prepare(f)
			in, send := inletOf(t)
			to := in.name(t)
			for range 2 {
				const size, count = 500, 7
				b := make([]byte, size*count-100)
				for i := range b {
					b[i] = byte(i / size)
				}
				require.NoError(t, f.PostAll(to, b, size))
				for n := 0; n < count; {
					came, err := in.next(false)
					require.NoError(t, err)
					for i := range came {
						_, got := in.datagram(i)
						require.Equal(t, b[n*size:min(len(b), (n+1)*size)], got)
						n++
					}
				}
			}
			require.Equal(t, name == "refused", f.single.Load())
			require.EqualValues(t, 14, f.Counters().Sent)
			send("") // it is still open
			require.ErrorIs(t, f.PostAll(to, make([]byte, 6000), 3000), fabric.ErrTooLong)
			require.NoError(t, f.Close())
			require.ErrorIs(t, f.PostAll(to, make([]byte, 20), 10), fabric.ErrClosed)
		})
	}
}

// name is where the socket is reached.
func (i *inlet) name(t *testing.T) (to fabric.Tuple) {
	require.NoError(t, control(i.socket, func(fd int) error {
		name, err := unix.Getsockname(fd)
		if four, ok := name.(*unix.SockaddrInet4); ok {
			to = fabric.Tuple{Kind: fabric.ETH4, Num: uint32(four.Port)}
			copy(to.Addr[:], four.Addr[:])
		}
		return err
	}))
	return to
}
