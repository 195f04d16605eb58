package cluster

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The rsh stand-in consists of a server in the init of each node and the client vrsh. Exec uses the same server. A
// client connects to the Unix socket of a node. It sends the length of its request in 4 bytes, together with the
// descriptors of its three standard files, and then the request, a session in JSON. The server starts the command and
// replies with an outcome in JSON when the command ends. No packets are sent on the network, so this works while the
// node is cut off. If the client is killed, the server sends SIGHUP to the process group of the command. For Exec it
// sends SIGKILL instead.

// session represents the request of a client. Either Line or Argv is set.
type session struct {
	Line string   // a command line for root's login shell
	Argv []string // a program and its arguments, run without a shell
}

// outcome is the session's exit code as a shell would give it.
type outcome struct {
	Code  int
	Error string
}

// serveRSH listens on the node's socket.
func serveRSH(name string, r *reaper) (net.Listener, error) {
	path := filepath.Join(runDir, "rsh", name)
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveSession(conn.(*net.UnixConn), r)
		}
	}()
	return listener, nil
}

func serveSession(conn *net.UnixConn, r *reaper) {
	defer conn.Close()
	s, files, err := readSession(conn)
	defer func() {
		for _, fd := range files {
			_ = unix.Close(fd)
		}
	}()
	if err != nil {
		_ = json.NewEncoder(conn).Encode(outcome{Code: 255, Error: err.Error()})
		return
	}
	shell := rootShell()
	env := append(coverage(), "HOME="+homeDir, "USER=root", "LOGNAME=root", "SHELL="+shell, "PATH="+nodePath,
		"LANG=C.UTF-8")
	argv, path := s.Argv, ""
	if len(argv) == 0 {
		argv, path = []string{filepath.Base(shell), "-c", s.Line}, shell
	} else if path, err = exec.LookPath(argv[0]); err != nil {
		_ = json.NewEncoder(conn).Encode(outcome{Code: 127, Error: err.Error()})
		return
	}
	attr := &syscall.ProcAttr{Dir: homeDir, Env: env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, fd := range files {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	pid, done, err := r.start(path, argv, attr)
	for _, fd := range files {
		_ = unix.Close(fd) // Otherwise readers of the output would not see its end when the session ends.
	}
	files = nil
	if err != nil {
		_ = json.NewEncoder(conn).Encode(outcome{Code: 126, Error: err.Error()})
		return
	}
	hangUp := syscall.SIGHUP
	if len(s.Argv) > 0 {
		hangUp = syscall.SIGKILL
	}
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		close(gone)
	}()
	select {
	case status := <-done:
		_ = json.NewEncoder(conn).Encode(outcome{Code: exitCode(status)})
	case <-gone:
		_ = syscall.Kill(-pid, hangUp)
	}
}

func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

func readSession(conn *net.UnixConn) (s session, files []int, err error) {
	head, rights := make([]byte, 4), make([]byte, unix.CmsgSpace(3*4))
	n, rn, _, _, err := conn.ReadMsgUnix(head, rights)
	if err != nil {
		return s, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:rn])
	if err == nil && len(messages) == 1 {
		files, err = unix.ParseUnixRights(&messages[0])
	}
	if err != nil || len(files) != 3 || n != 4 {
		return s, files, errors.New("a session comes with three descriptors")
	}
	for _, fd := range files {
		unix.CloseOnExec(fd)
	}
	return s, files, json.NewDecoder(io.LimitReader(conn, int64(binary.BigEndian.Uint32(head)))).Decode(&s)
}

// rootShell reads root's login shell from /etc/passwd, where a test may have changed it.
func rootShell() string {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return "/bin/sh"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Split(lines.Text(), ":"); len(fields) == 7 && fields[0] == "root" && fields[6] != "" {
			return fields[6]
		}
	}
	return "/bin/sh"
}

// call runs a session at a socket with this process's own standard files and returns its exit code.
func call(socket string, s session, stdin *os.File) (int, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return 255, err
	}
	defer conn.Close()
	text, err := json.Marshal(s)
	if err != nil {
		return 255, err
	}
	rights := unix.UnixRights(int(stdin.Fd()), 1, 2)
	if _, _, err := conn.WriteMsgUnix(binary.BigEndian.AppendUint32(nil, uint32(len(text))), rights, nil); err != nil {
		return 255, err
	}
	if _, err := conn.Write(text); err != nil {
		return 255, err
	}
	var o outcome
	if err := json.NewDecoder(conn).Decode(&o); err != nil {
		return 255, fmt.Errorf("connection lost: %w", err)
	}
	if o.Error != "" {
		return o.Code, errors.New(o.Error)
	}
	return o.Code, nil
}

// runVRSH implements the client of the rsh stand-in. It runs a command line on a node as root, whatever the user, and
// returns the exit code, or 255 after most errors. The arguments are
//
//	[-n] [-l user] [user@]host command...
func runVRSH(args []string) int {
	stdin := os.Stdin
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-n":
			if null, err := os.Open(os.DevNull); err == nil {
				stdin = null
			}
			args = args[1:]
		case "-l":
			args = args[min(2, len(args)):]
		default:
			fmt.Fprintf(os.Stderr, "vrsh: unknown option %q; usage: vrsh [-n] [-l user] host command...\n", args[0])
			return 255
		}
	}
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: vrsh [-n] [-l user] host command...")
		return 255
	}
	host := args[0][strings.LastIndexByte(args[0], '@')+1:]
	if host != filepath.Base(host) {
		fmt.Fprintf(os.Stderr, "vrsh: %q is no host name\n", host)
		return 255
	}
	code, err := call(filepath.Join(runDir, "rsh", host), session{Line: strings.Join(args[1:], " ")}, stdin)
	if err != nil {
		fmt.Fprintf(os.Stderr, "vrsh: %s: %v\n", host, err)
	}
	return code
}

// runExec implements the process that Exec starts. It runs a program on a node and returns the exit code. The arguments
// are the path of the socket of the node, the program and its arguments.
func runExec(args []string) int {
	if len(args) < 2 {
		return 2
	}
	code, err := call(args[0], session{Argv: args[1:]}, os.Stdin)
	if err != nil {
		fmt.Fprintf(os.Stderr, "vcluster: %s: %v\n", filepath.Base(args[0]), err)
	}
	return code
}
