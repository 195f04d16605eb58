package pmix

import (
	"iter"
	"slices"
	"strings"
	"time"
)

// Request is what an Engine asks of its owner: one of the types below. Texts, lists and bytes in it
// share the bytes of the client's message. All wait for an Answer but Finalize and Abort, which the
// engine has answered. Several may wait at a time, and answers may come in any order.
type Request any

// Join is the client's first word: a process of some namespace and rank wants to be served. The
// owner compares the namespace, and says whether there is such a rank here. Body: none.
type Join struct {
	Proc
	Version  string // of the client's library, such as "5.0.7a1"
	Dialect  string // "v21", "v3", "v4" or "v41"
	Store    string // where the client keeps values: "hash"
	UID, GID uint32 // what the client says; the socket's owner is the truth
}

// GetJob wants the attributes of the client's job. Body: *Job. It has no status: a refusal ends the
// connection.
type GetJob struct{}

// Commit has values of the client for others, as pairs that a reply of Get can hold. They add to
// those of earlier commits, and replace pairs of the same key. Body: none.
type Commit struct {
	Local, Remote Pairs // for ranks of this node, and of others
}

// Fence waits for all processes listed, in any order; RankWildcard is all of a namespace. Body:
// none.
type Fence struct {
	Procs   List[Proc]
	Timeout time.Duration // 0: it may wait for ever; the same for those that wait likewise
}

// Get wants what a process has committed. Without a Key it wants all. Immediate: the answer
// must not wait for a commit to come. Timeout 0: it may wait for ever. Body: Values.
type Get struct {
	Of        Proc
	Key       string
	Attrs     List[Attr]
	Immediate bool
	Timeout   time.Duration
}

// Publish makes the attributes that Published yields known under their keys. Body: none.
type Publish struct {
	Attrs       List[Attr]
	Range       Range
	Persistence Persistence
}

// Lookup wants published values. Wait: the answer waits until all are there. Body: Results.
type Lookup struct {
	Keys    List[Text]
	Range   Range
	Wait    bool
	Timeout time.Duration
}

// Unpublish takes back what the client has published; no keys mean all. Body: none.
type Unpublish struct {
	Keys  List[Text]
	Range Range
}

// Spawn starts further programs as one job. Body: *Job, the new one.
type Spawn struct{ Apps List[App] }

// Connect waits as Fence does, and makes the jobs of the processes known to each other. Body: Jobs,
// those of other namespaces.
type Connect Fence

// Disconnect undoes Connect, and waits as Fence does. Body: none.
type Disconnect Fence

// Notify reports an event to the processes in a range that have registered its code. Body: none.
type Notify struct {
	Code  Status
	Range Range
	Attrs List[Attr]
}

// Cleanup names files and folders that must be removed when the client ends. The server must check that they belong to
// the user. Body: Attrs.
type Cleanup struct {
	Paths   []Path
	Ignored []string // names of files that are not removed
}

// Path is a file, or a folder, to remove.
type Path struct {
	Name      string
	Folder    bool
	Recursive bool // what is in a folder too
	OnlyEmpty bool // folders only if nothing is in them
	KeepTop   bool // the folder itself stays
}

// Query asks about the job or the machine. Body: Attrs.
type Query struct{ Questions List[Question] }

// Log has text for the user. Body: none.
type Log struct{ Stdout, Stderr []string }

// GroupConstruct makes a group of processes, and waits for all of them. Body: Group.
type GroupConstruct struct {
	Name    string
	Members List[Proc]
	Attrs   List[Attr]
	Context bool // a number for the group is wanted
	Timeout time.Duration
}

// GroupDestruct ends a group, and waits for all of its members. Some versions name the members,
// too. Body: none.
type GroupDestruct struct{ Name string }

// Finalize says that the client takes its leave.
type Finalize struct{}

// Abort ends the whole job, even if the client lists some of its processes.
type Abort struct {
	Code Status // exit code that the program has chosen
	Text string // for the user, or empty
}

// Published yields what a Publish makes known: the attributes that do not say how.
func (p Publish) Published() iter.Seq[Attr] {
	return func(yield func(Attr) bool) {
		for a := range p.Attrs.All() {
			if !strings.HasPrefix(a.Key, reservedPrefix) && !yield(a) {
				return
			}
		}
	}
}

// Limits of requests that become more than slices of their message.
const (
	maxPaths = 64 // of one Cleanup
	maxTexts = 64 // of one Log, to each stream
)

// wanted sorts out what a Cleanup says; ok is false if it says something else too.
func (c *Cleanup) wanted(attrs List[Attr]) (ok bool) {
	var recursive, onlyEmpty, keepTop bool
	for a := range attrs.All() {
		s, _ := a.Value.Text()
		switch a.Key {
		case keyCleanup, keyCleanupDir:
			for name := range commaSeparated(s) {
				c.Paths = append(c.Paths, Path{Name: name, Folder: a.Key == keyCleanupDir})
			}
		case keyCleanupIgnore:
			c.Ignored = slices.AppendSeq(c.Ignored, commaSeparated(s))
		case keyCleanupRecurse:
			recursive = a.Value.Bool()
		case keyCleanupEmpty:
			onlyEmpty = a.Value.Bool()
		case keyCleanupKeepTop:
			keepTop = a.Value.Bool()
		default:
			return false
		}
		if len(c.Paths) > maxPaths || len(c.Ignored) > maxPaths {
			return false
		}
	}
	for i := range c.Paths {
		if p := &c.Paths[i]; p.Folder {
			p.Recursive, p.OnlyEmpty, p.KeepTop = recursive, onlyEmpty, keepTop
		}
	}
	return len(c.Paths) > 0
}

// commaSeparated yields the names in a list, one more than are taken at most.
func commaSeparated(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		n := 0
		for name := range strings.SplitSeq(s, ",") {
			if n++; n > maxPaths+1 || !yield(name) {
				return
			}
		}
	}
}

// find returns the value of the first attribute of a key.
func find(attrs List[Attr], key string) (v Value, ok bool) {
	for a := range attrs.All() {
		if a.Key == key {
			return a.Value, true
		}
	}
	return Value{}, false
}

func flag(attrs List[Attr], key string) bool {
	v, _ := find(attrs, key)
	return v.Bool()
}

// seconds is a duration; 0 or less, and what is none, are 0.
func seconds(attrs List[Attr]) time.Duration {
	v, _ := find(attrs, keyTimeout)
	n, _ := v.Number()
	return time.Duration(min(max(n, 0), 1<<31-1)) * time.Second
}

// choice is a small number, or what it is if nobody says.
func choice[T ~uint8](attrs List[Attr], key string, otherwise T) T {
	if v, ok := find(attrs, key); ok {
		n, _ := v.Number()
		return T(n)
	}
	return otherwise
}

// texts are the values of a key, a limited number of them.
func texts(attrs List[Attr], key string) (all []string) {
	for a := range attrs.All() {
		if s, ok := a.Value.Text(); ok && a.Key == key && len(all) < maxTexts {
			all = append(all, s)
		}
	}
	return slices.Clip(all)
}
