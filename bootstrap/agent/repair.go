package agent

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/reaper"
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
	"ibrun/internal/safefile"
)

// An agent of a job that repairs its tree can be given another link
// (docs/dev/decisions/0021-tree-repair.md). It listens on an abstract Unix socket, which has no file and ends with the
// process. The new parent opens a session to the node, which starts a fresh agent. The fresh agent passes the standard
// input and output of its session to the older agent:
//
//	fresh -> agent   the parent's level (4 bytes), SSH_CONNECTION; descriptors: input, output
//	agent -> fresh   the answer, as in Joined
//	fresh -> parent  Joined
//	fresh -> agent   one byte: the link is the agent's
//
// The socket stays open as long as the link. Then the fresh agent ends, and so does its session.

// handoverMost limits the time for each step of handing a link over.
const handoverMost = 4 * time.Second

// joinName returns the address of the socket on which an agent of the job with this ID listens for new parents.
func joinName(id string, key job.NodeIndex) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("@ibrun-%s-%d", id, key)}
}

// parentLink reports the events of one link to a parent. An agent that was given a new parent has had several of them.
type parentLink struct {
	*loop
	link *link
}

func (p parentLink) Frame(ev core.Frame)       { p.post(fromParent{p.link, neighborFrame(ev)}) }
func (p parentLink) LinkLost(ev core.LinkLost) { p.post(fromParent{p.link, toCore{ev}}) }

// fromParent is an event of a link to a parent. The loop ignores it if the agent has replaced the link since.
type fromParent struct {
	link *link
	event
}

func (e fromParent) handle(l *loop) {
	if e.link == l.up {
		e.event.handle(l)
	}
}

// relink is the event that this agent was given a link to a new parent.
type relink struct {
	in, out *os.File
	hold    *net.UnixConn
	level   uint32
}

// readUp reports the messages of a link to a parent until the link ends.
func (l *loop) readUp(up *link, r io.Reader) {
	from := parentLink{l, up}
	if err := read(bufio.NewReaderSize(r, linkBuffer), core.Up, false, from); !errors.Is(err, errHandedOver) {
		from.LinkLost(core.LinkLost{Link: core.Up, Cause: err.Error()})
	}
}

// listenJoins opens the socket by which another agent can become the parent of this agent. If the socket cannot be
// opened, the loss of the parent ends the ranks, as in a job without tree repair.
func (l *loop) listenJoins(id string, key job.NodeIndex, level uint32) {
	at, err := net.ListenUnix("unix", joinName(id, key))
	if err != nil {
		return
	}
	parent := parentLevel{level: level}
	go func() {
		for {
			conn, err := at.AcceptUnix()
			if err != nil {
				return
			}
			go func() {
				if link, err := parent.take(conn); err == nil {
					l.post(link)
				} else {
					conn.Close()
				}
			}()
		}
	}()
}

// parentLevel holds the level in the tree of the newest parent.
type parentLevel struct {
	mu    sync.Mutex
	level uint32
}

var errStranger = errors.New("it is another user's, or says nothing that is understood")

// take receives the link to a new parent from a fresh agent of this node.
func (p *parentLevel) take(conn *net.UnixConn) (relink, error) {
	if !sameUser(conn) {
		return relink{}, errStranger
	}
	_ = conn.SetDeadline(time.Now().Add(handoverMost))
	data, rights := make([]byte, 512), make([]byte, unix.CmsgSpace(2*4))
	n, rightsSize, _, _, err := conn.ReadMsgUnix(data, rights)
	if err != nil {
		return relink{}, err
	}
	files := passed(rights[:rightsSize])
	if n < 4 || len(files) != 2 {
		closeFiles(files)
		return relink{}, errStranger
	}
	link := relink{in: files[0], out: files[1], hold: conn, level: binary.BigEndian.Uint32(data)}
	p.mu.Lock()
	defer p.mu.Unlock()
	how := wire.JoinedTaken
	if !recovery.MayJoin(p.level, link.level) {
		how = wire.JoinedOther
	}
	if _, err = conn.Write([]byte{how}); err == nil && how == wire.JoinedTaken {
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	if err != nil || how != wire.JoinedTaken {
		closeFiles(files)
		return relink{}, errors.Join(err, errStranger)
	}
	p.level = link.level
	_ = conn.SetDeadline(time.Time{})
	remote.Rejoined(int(link.in.Fd()), int(link.out.Fd()), string(data[4:n]))
	return link, nil
}

// sameUser reports whether the process at the other end of conn runs as the user of this process.
func sameUser(conn *net.UnixConn) bool {
	uid, err := safefile.Peer(conn)
	return err == nil && uid == os.Geteuid()
}

// passed returns the file descriptors in rights, the control data that came with a message.
func passed(rights []byte) (files []*os.File) {
	messages, _ := unix.ParseSocketControlMessage(rights)
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "link"))
		}
	}
	return files
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// handle replaces the link to the parent and tells the core. The loop ignores later events of the old link.
func (r relink) handle(l *loop) {
	l.up.finish()
	up := newLink()
	up.lines.Store(l.lines)
	l.up, l.cutOff = up, false
	go up.write(r.out)
	go func() {
		l.readUp(up, r.in)
		r.in.Close()
		r.hold.Close()
	}()
	if l.reaped {
		reaper.Relinked()
	}
	l.hear(core.Relinked{Level: r.level})
}

// handOver passes the link of this agent to the agent of a job on this node. It returns when that agent no longer
// uses the link.
func (l *loop) handOver(m wire.Join) {
	l.up.lines.Store(m.Lines)
	conn, how := l.offer(m)
	l.up.send(wire.Joined{How: how})
	l.up.drain(handoverMost)
	if how != wire.JoinedTaken {
		return
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{1}); err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	held := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		close(held)
	}()
	for {
		select {
		case <-held:
			return
		case ev := <-l.events:
			if e, ok := ev.(toCore); ok {
				switch e.Event.(type) {
				case core.EndRequested, core.ReaperLost:
					return
				}
			}
		}
	}
}

// offer connects to the agent of a job on this node, and passes the link of this agent to it.
func (l *loop) offer(m wire.Join) (*net.UnixConn, uint8) {
	conn, err := net.DialUnix("unix", nil, joinName(m.Job, m.Key))
	if err != nil {
		return nil, wire.JoinedNobody
	}
	answer := []byte{wire.JoinedNobody}
	_ = conn.SetDeadline(time.Now().Add(handoverMost))
	if sameUser(conn) {
		said := append(binary.BigEndian.AppendUint32(nil, m.Level), os.Getenv("SSH_CONNECTION")...)
		if _, _, err = conn.WriteMsgUnix(said, unix.UnixRights(0, 1), nil); err == nil {
			_, err = io.ReadFull(conn, answer)
		}
	}
	if err != nil {
		answer[0] = wire.JoinedNobody
	}
	if answer[0] != wire.JoinedTaken {
		conn.Close()
	}
	return conn, min(answer[0], wire.JoinedOther)
}

// joinChild opens a session to an agent that has lost its parent.
func (l *loop) joinChild(e core.JoinChild) {
	l.openSession(e.Child, func(ctx context.Context) (*remote.Session, error) { return l.openJoin(ctx, e) })
}

// errJoinRefused is the error of openJoin if the agent keeps its present parent, because that is nearer to the root.
var errJoinRefused = errors.New("the agent keeps its parent")

func (l *loop) openJoin(ctx context.Context, e core.JoinChild) (*remote.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Most)
	defer cancel()
	target := remote.Target{Host: e.Node.Host, User: e.Node.User, Local: e.Local, Most: e.Most}
	join := wire.Join{Job: l.jobID, Key: e.Key, Level: e.Level, Lines: l.lines}
	s, joined, err := request[wire.Joined](ctx, l, target, join)
	if err != nil || joined.How == wire.JoinedTaken {
		return s, err
	}
	s.Kill()
	s.Release()
	if joined.How == wire.JoinedOther {
		return nil, errJoinRefused
	}
	return nil, &remote.Error{Phase: "join", Cause: "its agent is gone"}
}
