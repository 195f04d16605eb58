package native

import (
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// keeper asks the server whether it is there when nothing came for a while, and
// gives the connection up when it does not say.
type keeper struct {
	conn   *conn
	client *ssh.Client
	most   int           // questions without an answer
	every  time.Duration // of silence

	mu     sync.Mutex
	timer  *time.Timer
	missed int
	ended  bool
}

func keep(c *conn, client *ssh.Client, most int, every time.Duration) *keeper {
	k := &keeper{conn: c, client: client, most: most, every: every}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(k.every, k.tick)
	return k
}

func (k *keeper) tick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return
	}
	quiet := time.Since(time.Unix(0, k.conn.heard.Load()))
	if quiet < k.every {
		k.missed = 0
		k.timer.Reset(k.every - quiet)
		return
	}
	if k.missed++; k.missed > k.most {
		k.client.Close()
		return
	}
	// It ends with the answer, whatever that is, or with the connection.
	go func() { _, _, _ = k.client.SendRequest("keepalive@openssh.com", true, nil) }()
	k.timer.Reset(k.every)
}

func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	k.timer.Stop()
}
