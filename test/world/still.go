package main

import (
	"fmt"
	"os"

	"github.com/stretchr/testify/require"
)

// converse lets rank 0 and another one talk until a file is there. The other leaves its number and
// that of its agent.
func (r *rank) converse(arg string) {
	other := number(arg)
	switch r.Rank() {
	case 0:
		for n := 0; ; n++ {
			_, err := os.Stat("enough")
			over := err == nil
			m := []byte{0}
			if over {
				m[0] = 1
			}
			require.NoError(r, r.Send(r.ctx, other, m))
			if over {
				return
			}
			_, err = r.RecvFrom(r.ctx, other)
			require.NoError(r, err)
		}
	case other:
		for n := 0; ; n++ {
			_, m, err := r.Recv(r.ctx)
			require.NoError(r, err)
			if m[0] == 1 {
				return
			}
			if n == 100 {
				r.leavePids()
			}
			require.NoError(r, r.Send(r.ctx, 0, m))
		}
	}
}

func (r *rank) leavePids() {
	require.NoError(r, os.WriteFile("pids", fmt.Appendln(nil, os.Getpid(), os.Getppid()), 0o600))
}

// flood lets rank 0 send as fast as it can until a file is there, and another one receive.
func (r *rank) flood(arg string) {
	other := number(arg)
	switch r.Rank() {
	case 0:
		for m := make([]byte, 1<<20); len(m) > 0; {
			if _, err := os.Stat("enough"); err == nil {
				m = nil
			}
			require.NoError(r, r.Send(r.ctx, other, m))
		}
	case other:
		for n := 0; ; n++ {
			_, m, err := r.Recv(r.ctx)
			require.NoError(r, err)
			if len(m) == 0 {
				return
			}
			if n == 100 {
				r.leavePids()
			}
			r.Free(m)
		}
	}
}
