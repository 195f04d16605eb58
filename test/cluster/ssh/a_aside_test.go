//go:build cluster

package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/skip"
	"ibrun/test/screen"
	"ibrun/test/vcluster/cluster"
)

// errands are tests that wait for minutes, each on a cluster of its own. The first
// test of the package begins them and the last one judges them, so that they run
// beside all others: what is marked parallel would begin when those are over. An
// errand has no testing.T, whose test has ended: it returns what is to be judged.
var errands = map[string]func(context.Context) func(*testing.T){
	"Rekey": rekey, "FrozenNode": frozenNode, "StoppedRoot": stoppedRoot,
	"HungShells": hungShells, "CutBehindAProxy": cutBehindAProxy,
}

var aside = struct {
	begin  sync.Once
	work   sync.WaitGroup
	mu     sync.Mutex
	judges map[string]func(*testing.T)
}{judges: map[string]func(*testing.T){}}

// TestBeginAside begins what TestWhatWasAside judges.
func TestBeginAside(t *testing.T) { beginAside(t) }

func beginAside(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Because(t, cluster.ErrNotRoot.Error())
	}
	aside.begin.Do(func() {
		for name, errand := range errands {
			aside.work.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
				defer cancel()
				judge := errand(ctx)
				aside.mu.Lock()
				defer aside.mu.Unlock()
				aside.judges[name] = judge
			})
		}
	})
}

// judgeAside waits for the errands.
func judgeAside(t *testing.T) {
	beginAside(t)
	aside.work.Wait()
	for name, judge := range aside.judges {
		t.Run(name, judge)
	}
}

// failed is the judgement of an errand that could not be run.
func failed(err error) func(*testing.T) { return func(t *testing.T) { require.NoError(t, err) } }

// over runs ibrun on a cluster to its end; meanwhile has its process and its
// standard input.
func over(
	ctx context.Context, c *cluster.Cluster, out io.Writer,
	meanwhile func(*os.Process, io.WriteCloser) error, args ...string,
) (outcome, error) {
	cmd := c.Command(ctx, append([]string{program}, args...)...)
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &errs
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return outcome{}, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	err = meanwhile(cmd.Process, stdin)
	_ = cmd.Wait()
	return outcome{code: cmd.ProcessState.ExitCode(), stderr: errs.String(), took: time.Since(began)}, err
}

// The job of rekey: rank 0 reads, rank 3 prints, the links of the others are idle.
const (
	rekeySeconds = 180
	rekeyDown    = 60_000  // bytes a second
	rekeyUp      = 200_000 // the same
	rekeyScript  = `case $RANK in 0) wc -c;; ` +
		`3) i=0; while [ $i -lt %d ]; do head -c %d /dev/zero; i=$((i+1)); sleep 1; done;; *) exec sleep %d;; esac`
)

// rekey is a job of three minutes over servers that exchange keys every ten
// seconds and every megabyte, as clients do.
func rekey(ctx context.Context) func(*testing.T) {
	c, err := cluster.Up(ctx, cluster.Config{Nodes: 4, SSHD: []string{"RekeyLimit 1M 10s", "LogLevel DEBUG1"}})
	if err != nil {
		return failed(err)
	}
	defer c.Close()
	feed := func(_ *os.Process, stdin io.WriteCloser) error {
		for range rekeySeconds {
			if _, err := stdin.Write(make([]byte, rekeyDown)); err != nil {
				return err
			}
			select {
			case <-time.After(time.Second): // the job's pace
			case <-ctx.Done():
			}
		}
		return stdin.Close()
	}
	var out bytes.Buffer
	o, err := over(ctx, c, &out, feed, "--ssh", "native", "--ssh-args", "-o RekeyLimit=1M",
		"--hosts", "node[0001-0004]", "--tree", "kary:2", "sh", "-c",
		fmt.Sprintf(rekeyScript, rekeySeconds, rekeyUp, rekeySeconds))
	exchanges := map[string]int{}
	for _, node := range c.Nodes() {
		exchanges[node] = strings.Count(read(c.Log(node)), "rekeying in, ")
	}
	return func(t *testing.T) {
		require.NoError(t, err, o.stderr)
		require.Equal(t, 0, o.code, o.stderr)
		require.GreaterOrEqual(t, o.took, rekeySeconds*time.Second)
		require.Equal(t, rekeyUp*rekeySeconds, bytes.Count(out.Bytes(), []byte{0}))
		require.Contains(t, out.String(), fmt.Sprint(rekeyDown*rekeySeconds))
		t.Log("key exchanges after the first:", exchanges)
		for node, n := range exchanges {
			require.GreaterOrEqual(t, n, rekeySeconds/10-3, "%s: %v", node, exchanges)
		}
	}
}

// frozenNode is a node whose kernel answers and whose processes do not.
func frozenNode(ctx context.Context) func(*testing.T) {
	c, err := cluster.Up(ctx, cluster.Config{Nodes: 2})
	if err != nil {
		return failed(err)
	}
	defer c.Close()
	var out screen.Screen
	freeze := func(*os.Process, io.WriteCloser) error {
		if err := printed(ctx, &out, "up\n", 2); err != nil {
			return err
		}
		return c.Freeze("node0002")
	}
	o, err := over(ctx, c, &out, freeze,
		append([]string{"--hosts", "node[0001-0002]", "--tree", "flat"}, upAndAsleep...)...)
	err = errors.Join(err, c.Thaw("node0002"))
	return func(t *testing.T) {
		require.NoError(t, err, o.stderr)
		require.Equal(t, 125, o.code, o.stderr)
		require.Greater(t, o.took, 50*time.Second)
		require.Less(t, o.took, 100*time.Second)
		require.Regexp(t, "node0002 .*("+
			"its sshd has answered nothing for 1m0s|its host answers but its agent has been silent for 60 s)", o.stderr)
	}
}

// stoppedRoot is a root that is stopped until its agents have given it up.
func stoppedRoot(ctx context.Context) func(*testing.T) {
	c, err := cluster.Up(ctx, cluster.Config{Nodes: 1})
	if err != nil {
		return failed(err)
	}
	defer c.Close()
	var out screen.Screen
	stop := func(root *os.Process, _ io.WriteCloser) error {
		if err := printed(ctx, &out, "up\n", 1); err != nil {
			return err
		}
		stopped := root.Signal(syscall.SIGSTOP)
		gone := until(ctx, func() bool { return len(shells(c, "node0001")) == 0 })
		return errors.Join(stopped, gone, root.Signal(syscall.SIGCONT))
	}
	o, err := over(ctx, c, &out, stop, append([]string{"--hosts", "node0001"}, upAndAsleep...)...)
	return func(t *testing.T) {
		require.NoError(t, err, o.stderr)
		require.Equal(t, 125, o.code, o.stderr)
		require.Contains(t, o.stderr, "its agent received nothing from this host and ended itself")
	}
}

// upAndAsleep is a program that says that it runs, and does not end.
var upAndAsleep = []string{"sh", "-c", "echo up; exec sleep 1000"}

// cutBehindAProxy is a node that is cut off, and whose proxy's kernel answers.
func cutBehindAProxy(ctx context.Context) func(*testing.T) {
	c, err := cluster.Up(ctx, cluster.Config{Nodes: 2})
	if err != nil {
		return failed(err)
	}
	defer c.Close()
	var out screen.Screen
	var began time.Time
	cut := func(*os.Process, io.WriteCloser) error {
		if err := printed(ctx, &out, "up\n", 1); err != nil {
			return err
		}
		began = time.Now()
		return c.Cut("node0002")
	}
	o, err := over(ctx, c, &out, cut,
		append([]string{"-v", "--ssh-args", "-J node0001", "--hosts", "node0002"}, upAndAsleep...)...)
	took := time.Since(began)
	return func(t *testing.T) {
		require.NoError(t, err, o.stderr)
		require.Equal(t, 125, o.code, o.stderr)
		require.Contains(t, o.stderr, "node0002 is behind a proxy (proxyjump node0001): if it is cut off")
		require.Regexp(t, `node0002 .*: ssh failed \(code 255\): Timeout, server node0002 not responding`, o.stderr)
		require.Less(t, took, 30*time.Second, "not a minute")
	}
}

// printed waits until a job has printed something so often.
func printed(ctx context.Context, out *screen.Screen, text string, often int) error {
	return until(ctx, func() bool { return strings.Count(out.String(), text) >= often })
}

// until waits for something where there is no testing.T.
func until(ctx context.Context, ok func() bool) error {
	for !ok() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// read is the text of a file, or nothing.
func read(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}
