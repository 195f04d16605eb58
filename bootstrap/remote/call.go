package remote

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// An agent of a step that has several hosts calls the agent that has started the step
// (docs/dev/decisions/0036-shared-steps.md). Before the lines of a session, each proves to the other
// that it has the key of the step, by HMAC-SHA256 over who it is and both nonces:
//
//	agent -> parent   nonce (16 bytes)
//	parent -> agent   nonce (16), proof (32)
//	agent -> parent   proof (32), which is also over the host; length of the host (1), host

// callVariable has the port and the key, in the environment of the step.
const callVariable = "IBRUN_CALL"

const (
	nonceSize   = 16
	proofSize   = sha256.Size
	callSeconds = 5 // that connecting and each part of the proofs may take
)

var errUnproved = errors.New("the other end does not know the step's key")

// stepKey is what the agents of a step and their parent have in common.
type stepKey [32]byte

// prove is a proof of who says it.
func (k *stepKey) prove(who string, nonces ...[]byte) []byte {
	h := hmac.New(sha256.New, k[:])
	_, _ = io.WriteString(h, "ibrun step: "+who+"\x00")
	for _, n := range nonces {
		_, _ = h.Write(n)
	}
	return h.Sum(nil)
}

// Call makes the link of an agent that shares its step, and puts it in the place of descriptors 0
// and 1. For others it does nothing.
func Call() error {
	words := strings.Fields(os.Getenv(callVariable))
	if os.Unsetenv(callVariable); len(words) == 0 {
		return nil
	}
	if len(words) != 2 {
		return fmt.Errorf("invalid %s", callVariable)
	}
	address, err := netip.ParseAddr(os.Getenv(stepAddress))
	port, err2 := strconv.ParseUint(words[0], 10, 16)
	var key stepKey
	n, err3 := hex.Decode(key[:], []byte(words[1][:min(len(words[1]), 2*len(key))]))
	if err = errors.Join(err, err2, err3); err != nil || n != len(key) {
		return fmt.Errorf("invalid %s or %s: %w", callVariable, stepAddress, err)
	}
	to := netip.AddrPortFrom(address.Unmap(), uint16(port))
	fd, err := dialStep(to)
	if err != nil {
		return fmt.Errorf("calling %v: %w", to, err)
	}
	defer unix.Close(fd)
	if err := key.answer(descriptor(fd), os.Getenv(stepHost)); err != nil {
		return fmt.Errorf("calling %v: %w", to, err)
	}
	return errors.Join(patience(fd, 0), unix.Dup3(fd, 0, 0), unix.Dup3(fd, 1, 0))
}

// dialStep connects to a parent. It needs no more of Go's runtime than a read does.
func dialStep(to netip.AddrPort) (fd int, err error) {
	family, at := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: int(to.Port())})
	if to.Addr().Is4() {
		at.(*unix.SockaddrInet4).Addr = to.Addr().As4()
	} else {
		family, at = unix.AF_INET6, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	}
	if fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	if err = patience(fd, callSeconds); err == nil {
		err = unix.Connect(fd, at)
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// patience bounds what each call to the kernel may wait; 0: it may wait for ever.
func patience(fd int, seconds int64) error {
	t := &unix.Timeval{Sec: seconds}
	return errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, t),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, t))
}

// descriptor reads and writes one.
type descriptor int

func (d descriptor) Read(p []byte) (int, error) {
	n, err := unix.Read(int(d), p)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return max(n, 0), err
}

func (d descriptor) Write(p []byte) (int, error) {
	n, err := unix.Write(int(d), p)
	return max(n, 0), err
}

// answer is the agent's part: it proves itself for a host.
func (k *stepKey) answer(conn io.ReadWriter, host string) error {
	if len(host) == 0 || len(host) > 255 {
		return fmt.Errorf("invalid %s", stepHost)
	}
	mine, theirs := make([]byte, nonceSize), make([]byte, nonceSize+proofSize)
	_, _ = rand.Read(mine)
	if _, err := conn.Write(mine); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, theirs); err != nil {
		return err
	}
	nonce, proof := theirs[:nonceSize], theirs[nonceSize:]
	if !hmac.Equal(proof, k.prove("parent", mine, nonce)) {
		return errUnproved
	}
	said := append(k.prove("agent", mine, nonce, []byte(host)), byte(len(host)))
	_, err := conn.Write(append(said, host...))
	return err
}

// ask is the parent's part, and returns the host that calls.
func (k *stepKey) ask(conn io.ReadWriter) (host string, err error) {
	theirs, mine := make([]byte, nonceSize), make([]byte, nonceSize)
	if _, err := io.ReadFull(conn, theirs); err != nil {
		return "", err
	}
	_, _ = rand.Read(mine)
	if _, err := conn.Write(append(bytes.Clone(mine), k.prove("parent", theirs, mine)...)); err != nil {
		return "", err
	}
	said := make([]byte, proofSize+1)
	if _, err := io.ReadFull(conn, said); err != nil {
		return "", err
	}
	name := make([]byte, said[proofSize])
	if _, err := io.ReadFull(conn, name); err != nil {
		return "", err
	}
	if !hmac.Equal(said[:proofSize], k.prove("agent", theirs, mine, name)) {
		return "", errUnproved
	}
	return string(name), nil
}
