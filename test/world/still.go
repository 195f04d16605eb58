package main

import (
	"fmt"
	"os"
)

// converse lets rank 0 and the rank with the number arg exchange messages until the file "enough" exists. After 100
// messages the latter rank writes its process id and that of its agent to the file "pids".
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
			r.noError(r.Send(r.ctx, other, m))
			if over {
				return
			}
			_, err = r.RecvFrom(r.ctx, other)
			r.noError(err)
		}
	case other:
		for n := 0; ; n++ {
			_, m, err := r.Recv(r.ctx)
			r.noError(err)
			if m[0] == 1 {
				return
			}
			if n == 100 {
				r.leavePids()
			}
			r.noError(r.Send(r.ctx, 0, m))
		}
	}
}

func (r *rank) leavePids() {
	r.noError(os.WriteFile("pids", fmt.Appendln(nil, os.Getpid(), os.Getppid()), 0o600))
}

// flood lets rank 0 send messages of 1 MiB to the rank with the number arg as fast as possible, until the file "enough"
// exists. After 100 messages the receiver writes its process id and that of its agent to the file "pids".
func (r *rank) flood(arg string) {
	other := number(arg)
	switch r.Rank() {
	case 0:
		for m := make([]byte, 1<<20); len(m) > 0; {
			if _, err := os.Stat("enough"); err == nil {
				m = nil
			}
			r.noError(r.Send(r.ctx, other, m))
		}
	case other:
		for n := 0; ; n++ {
			_, m, err := r.Recv(r.ctx)
			r.noError(err)
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
