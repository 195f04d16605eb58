// Package ibrun lets the ranks of a job that the command ibrun started talk to each other.
//
//	w, err := ibrun.Init(ctx)
//	...
//	err = w.Send(ctx, (w.Rank()+1)%w.Size(), []byte("hello"))
//	from, m, err := w.Recv(ctx)
//	...
//	err = w.Finalize(ctx)
//
// A process calls [Init] once, and [World.Finalize] at its end. A process that ibrun did not start
// is a job of one rank, so that a program can be tested alone.
//
// # Messages
//
// A rank is addressed by its number, from 0 to Size()-1. The network address is looked up, and the
// connection made, when the first message needs it. Messages from one rank to another arrive once
// and in order, or an error names the rank that they do not reach.
//
// # Collectives and the key-value store
//
// Barrier, Broadcast, Gather, AllGather, Scatter and AllToAll, and the values that Put leaves for
// Get, go through the tree of agents that launched the job. They open no connection between ranks
// and are meant for little data: addresses, parameters, results. The values of one collective have
// less than 48 MiB together, since a few bytes are needed for each. All ranks call collectives in
// the same order; a rank calls one collective at a time.
//
// A rank that has called a collective has joined it. If the context of the call ends first, or had
// ended before, the call returns the context's error, the other ranks are not held up, and the
// result for this rank is discarded. The next collective that this rank calls is the next one for
// all ranks.
//
// # Errors
//
// There is one type for each kind of failure. A [*PeerError] names a rank that cannot be reached. A
// [*CollectiveError] says why a collective failed for all ranks. An [*AgentError] says that this
// node's agent refused the process or is lost. Wrong arguments and calls out of order wrap one of
// the variables below, such as [ErrNoSuchRank], and have no effect on other ranks. A context that
// ends is reported by an error for which errors.Is(err, ctx.Err()) holds.
//
// Without the option --keep-going of ibrun, a rank that fails ends the job. With it, see
// [World.Failures].
//
// # What it does not do
//
// The package starts no processes, does not interpret messages, and is not MPI. It writes nothing
// to standard output or standard error; see [WithLogger].
//
// # Compatibility
//
// The exported names of this package keep their meaning within a major version, and so do the
// results of errors.Is and errors.As that the documentation states: a program that compiles goes on
// to compile and to work. New methods, options, fields of [Stats] and error values may be added, so
// write struct literals of this package's types with field names. The texts of errors and log
// records may change. Only this package is a supported API: all other packages of this module may
// change at any time.
//
// The program and the command ibrun talk by a protocol of their own, for which there is no such
// promise: build a program with the version of the module that the command was built from. Before
// version 1, a minor version may break this promise; CHANGELOG.md says where.
package ibrun
