package pmix

import "fmt"

// row is one command: what its fields are, and what its reply holds behind the status.
type row struct {
	name  string
	parse func(r *reader) Request // nil from it: the engine answers NotSupported
	// empty is the body of an answer without one. A reply that is not Done has no body but this.
	empty Body
	quiet bool // there is no reply
	bare  bool // the reply has no status: a refusal ends the connection
}

// grammar has the commands. A client may send fields behind those that are read here: newer
// versions do. Commands that are not here are answered NotSupported.
var grammar = map[command]*row{
	cmdJob: {name: "job", bare: true, parse: func(*reader) Request { return GetJob{} }},
	cmdAbort: {name: "abort", parse: func(r *reader) Request {
		return Abort{Code: r.topStatus(), Text: r.topText()}
	}},
	cmdCommit:   {name: "commit", parse: parseCommit},
	cmdFence:    {name: "fence", parse: func(r *reader) Request { return parseFence(r) }},
	cmdGet:      {name: "get", parse: parseGet},
	cmdFinalize: {name: "finalize", parse: func(*reader) Request { return Finalize{} }},
	cmdPublish: {name: "publish", parse: func(r *reader) Request {
		r.topU32() // skip the user ID that the client claims
		p := Publish{Attrs: topList[Attr](r)}
		p.Range = choice(p.Attrs, keyRange, RangeSession)
		p.Persistence = choice(p.Attrs, keyPersistence, PersistSession)
		return p
	}},
	cmdLookup: {name: "lookup", empty: Results{}, parse: func(r *reader) Request {
		r.topU32() // the user ID, as in cmdPublish
		l := Lookup{Keys: topCounted[Text](r)}
		attrs := topList[Attr](r)
		l.Range = choice(attrs, keyRange, RangeSession)
		l.Wait, l.Timeout = flag(attrs, keyWait), seconds(attrs)
		return l
	}},
	cmdUnpublish: {name: "unpublish", parse: func(r *reader) Request {
		r.topU32() // the user ID, as in cmdPublish
		return Unpublish{Keys: topCounted[Text](r), Range: choice(topList[Attr](r), keyRange, RangeSession)}
	}},
	cmdSpawn: {name: "spawn", parse: func(r *reader) Request {
		topList[Attr](r) // skip the attributes of the whole job
		return Spawn{topList[App](r)}
	}},
	cmdConnect:    {name: "connect", parse: func(r *reader) Request { return Connect(parseFence(r)) }},
	cmdDisconnect: {name: "disconnect", parse: func(r *reader) Request { return Disconnect(parseFence(r)) }},
	cmdNotify: {name: "notify", parse: func(r *reader) Request {
		return Notify{Code: r.topStatus(), Range: Range(r.topOctet()), Attrs: topList[Attr](r)}
	}},
	cmdRegisterEvents: {name: "register events", parse: func(r *reader) Request {
		return registerEvents{topList[Status](r)}
	}},
	cmdDeregisterEvents: {name: "deregister events", quiet: true, parse: func(r *reader) Request {
		return deregisterEvents{readCounted[Status](r, -1)}
	}},
	cmdQuery: {name: "query", empty: Attributes{}, parse: func(r *reader) Request {
		return Query{topList[Question](r)}
	}},
	cmdLog: {name: "log", parse: func(r *reader) Request {
		r.count(1)
		r.u64() // skip the time, in seconds since 1970
		entries := topList[Attr](r)
		return Log{Stdout: texts(entries, keyLogStdout), Stderr: texts(entries, keyLogStderr)}
	}},
	cmdJobControl: {name: "job control", empty: Attributes{}, parse: func(r *reader) Request {
		topList[Proc](r) // skip the targets, which are the client itself or empty
		c := Cleanup{}
		if !c.wanted(topList[Attr](r)) {
			return nil
		}
		return c
	}},
	cmdGroupConstruct: {name: "group construct", empty: Group{}, parse: func(r *reader) Request {
		g := GroupConstruct{Name: r.topText(), Members: topList[Proc](r), Attrs: topList[Attr](r)}
		g.Context, g.Timeout = flag(g.Attrs, keyAssignContext), seconds(g.Attrs)
		return g
	}},
	cmdGroupDestruct: {name: "group destruct", parse: func(r *reader) Request {
		return GroupDestruct{Name: r.topText()}
	}},
}

// registerEvents and deregisterEvents are for the engine itself.
type (
	registerEvents   struct{ codes List[Status] }
	deregisterEvents struct{ codes List[Status] }
)

// Items at the top level of a message have a count before them.
func (r *reader) topOctet() byte    { r.count(1); return r.octet() }
func (r *reader) topU32() uint32    { r.count(1); return r.u32() }
func (r *reader) topSize() uint64   { r.count(1); return r.size() }
func (r *reader) topStatus() Status { r.count(1); return r.status() }
func (r *reader) topText() string   { r.count(1); return string(r.text()) }

// topNumber reads how many items follow. Each takes at least one byte.
func (r *reader) topNumber() int {
	n := r.topSize()
	if n > uint64(len(r.b)) {
		r.fail(errShort)
		return 0
	}
	return int(n)
}

// topList reads a number, and if it is not 0 that many items with one count.
func topList[T item[T]](r *reader) List[T] {
	n := r.topNumber()
	if n == 0 {
		return List[T]{}
	}
	r.count(n)
	return readList[T](r, uint64(n))
}

// topCounted reads a number, and that many items with a count each.
func topCounted[T item[T]](r *reader) List[T] { return readCounted[T](r, r.topNumber()) }

// parseFence reads the fields of a Fence. A Connect and a Disconnect have the same fields.
func parseFence(r *reader) Fence {
	return Fence{Procs: topList[Proc](r), Timeout: seconds(topList[Attr](r))}
}

// parseCommit reads scopes, each with a buffer of pairs. The pairs need not be readable: they are
// for other clients.
func parseCommit(r *reader) Request {
	local, remote := Pairs{Encoding: r.enc}, Pairs{Encoding: r.enc}
	for r.err == nil && len(r.b) > 0 {
		scope := Scope(r.topOctet())
		r.count(1)
		if kind := r.octet(); r.err == nil && kind != bufferPlain {
			r.fail(fmt.Errorf("a buffer of kind %d", kind))
		}
		b := r.bytes()
		if scope == ScopeLocal || scope == ScopeGlobal {
			local.Bytes = joined(local.Bytes, b)
		}
		if scope == ScopeRemote || scope == ScopeGlobal {
			remote.Bytes = joined(remote.Bytes, b)
		}
	}
	return Commit{local, remote}
}

// joined appends b. The usual commit has one buffer for each scope, which is not copied.
func joined(old, b []byte) []byte {
	if len(old) == 0 {
		return b
	}
	return append(old, b...)
}

func parseGet(r *reader) Request {
	g := Get{}
	g.Of.Namespace = r.topText()
	r.count(1)
	g.Of.Rank = Rank(r.u32())
	g.Attrs = topList[Attr](r)
	if len(r.b) > 0 {
		g.Key = r.topText()
	}
	g.Immediate, g.Timeout = flag(g.Attrs, keyImmediate), seconds(g.Attrs)
	return g
}
