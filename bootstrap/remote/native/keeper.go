package native

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// verdict is what follows from a look at a connection.
type verdict uint8

const (
	wait verdict = iota // something came lately
	ask                 // send a keepalive
	lost                // the server has not answered them
)

// detector decides when the silence of a server is its loss. Times are those of
// one monotonic clock. A keepalive is answered when anything was received after
// it was sent.
type detector struct {
	most   int           // keepalives without an answer
	every  time.Duration // of silence
	due    time.Duration // when to look next
	asked  time.Duration // when the last keepalive was sent
	missed int           // keepalives that were sent since something was received
}

// look takes in the time and when something was last received.
func (d *detector) look(now, received time.Duration) verdict {
	late := now - d.due
	if received > d.asked {
		d.missed = 0
	}
	if now-received < d.every {
		d.due = received + d.every
		return wait
	}
	// A process that was stopped for so long has not read what came meanwhile: it
	// asks again, and that keepalive takes the place of the last.
	if d.missed == 0 || late < d.every {
		d.missed++
	}
	if d.missed > d.most {
		return lost
	}
	d.asked, d.due = now, now+d.every
	return ask
}

// keeper asks the server whether it is there when nothing came for a while, and
// gives the connection up when it does not say.
type keeper struct {
	conn   *conn
	client *ssh.Client

	mu       sync.Mutex
	detector detector
	timer    *time.Timer
	cause    error // why the connection was given up
	ended    bool
}

func keep(c *conn, client *ssh.Client, most int, every time.Duration) *keeper {
	k := &keeper{conn: c, client: client, detector: detector{most: most, every: every, due: c.age() + every}}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(every, k.tick)
	return k
}

func (k *keeper) tick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return
	}
	switch now, received := k.conn.age(), k.conn.received(); k.detector.look(now, received) {
	case lost:
		k.ended = true
		k.cause = fmt.Errorf("its sshd has answered nothing for %v", (now - received).Round(time.Second))
		k.client.Close()
		return
	case ask:
		// It ends with the answer, whatever that is, or with the connection.
		go func() { _, _, _ = k.client.SendRequest("keepalive@openssh.com", true, nil) }()
	}
	k.timer.Reset(k.detector.due - k.conn.age())
}

// stop ends the questions, and says why the connection was given up, if it was.
func (k *keeper) stop() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	k.timer.Stop()
	return k.cause
}
