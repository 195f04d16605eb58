// Package ibrun is what an application imports to talk to the other ranks of
// the job that the command ibrun started.
//
//	w, err := ibrun.Init(ctx)
//	...
//	err = w.Send(ctx, (w.Rank()+1)%w.Size(), []byte("hello"))
//	from, m, err := w.Recv(ctx)
//	...
//	err = w.Finalize(ctx)
//
// A rank is addressed by its number. The address behind the number is looked
// up, and the connection made, when the first message needs it. Messages
// between two ranks arrive once and in order. Besides messages there are
// collectives (Barrier, Broadcast, AllGather and others) and a key-value store (KVS)
// (Put, Get), both of which go through the tree of agents and open no
// connection between ranks.
//
// A rank that is gone is reported as a *PeerError by the calls that need it.
//
// A program that ibrun did not start is a job of one rank. The package starts
// no processes, does not interpret messages, and is not MPI.
package ibrun
