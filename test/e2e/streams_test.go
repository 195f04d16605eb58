package e2e

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ibrun/test/screen"
)

// deep is a tree in which the last of four agents is four links away.
var deep = []string{"--launcher", "local", "--hosts", "a,b,c,d", "--tree", "chain"}

func args(front []string, more ...string) []string {
	return append(append([]string(nil), front...), more...)
}

// 100 MB reach the reader, wherever it is, byte for byte; nobody else reads.
func TestStdin(t *testing.T) {
	const size = 100 << 20
	for _, reader := range []string{"0", "3"} {
		in, sum := noise(size)
		cmd := command(t, args(deep, "-n", "4", "--stdin", reader, "sh", "-c", "if [ $RANK = "+reader+
			" ]; then sha256sum; else echo got $(wc -c); fi")...)
		cmd.Stdin = in
		o := finish(t, cmd)
		require.Equal(t, 0, o.code, o.stderr)
		require.Contains(t, string(o.stdout), sum())
		require.Equal(t, 3, strings.Count(string(o.stdout), "got 0\n"))
	}
}

func TestStdinToAll(t *testing.T) {
	in, sum := noise(5 << 20)
	cmd := command(t, args(deep, "-n", "8", "--stdin", "all", "sha256sum")...)
	cmd.Stdin = in
	o := finish(t, cmd)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, strings.Repeat(sum()+"  -\n", 8), string(o.stdout))
}

// A reader that stops reading holds nobody up.
func TestStdinNotRead(t *testing.T) {
	in, _ := noise(50 << 20)
	cmd := command(t, args(deep, "-n", "4", "--stdin", "3", "head", "-c", "1000")...)
	cmd.Stdin = in
	o := finish(t, cmd)
	require.Equal(t, 0, o.code, o.stderr)
	require.Len(t, o.stdout, 1000)
}

// longOutput is more than all agents of a tree may hold.
var longOutput = flag.Int("output", 256<<20, "bytes of the tests of long output; make long-output has 1 GiB")

// Much from the end of the tree, binary, byte for byte.
func TestOutput(t *testing.T) {
	cmd := command(t, args(deep, "-n", "4", "sh", "-c",
		"[ $RANK = 3 ] && exec openssl enc -aes-128-ctr -K 0 -iv 0 -in /dev/zero 2>/dev/null | head -c "+
			strconv.Itoa(*longOutput)+"; exit 0")...)
	h := sha256.New()
	cmd.Stdout = h
	o := finish(t, cmd)
	require.Equal(t, 0, o.code, o.stderr)
	want, err := exec.Command("sh", "-c", "openssl enc -aes-128-ctr -K 0 -iv 0 -in /dev/zero 2>/dev/null | head -c "+
		strconv.Itoa(*longOutput)+" | sha256sum").Output()
	require.NoError(t, err)
	require.Equal(t, strings.Fields(string(want))[0], fmt.Sprintf("%x", h.Sum(nil)))
}

// From each of 256 ranks: every labelled line whole, in order, none lost.
func TestLabels(t *testing.T) {
	const ranks = 256
	count := *longOutput / ranks / 95 / 4 // lines of about 95 bytes
	o := ibrun(t, "-n", strconv.Itoa(ranks), "--launcher", "local", "--hosts", "h[01-16]", "--tree", "kary:2", "-l",
		"--stdin", "none", "sh", "-c", "seq -f \"$RANK %.0f "+strings.Repeat("x", 80)+"\" "+strconv.Itoa(count))
	require.Equal(t, 0, o.code, o.stderr)
	next := make([]int, ranks)
	tail := " " + strings.Repeat("x", 80) + "\n"
	for line := range bytes.Lines(o.stdout) {
		rank := 0
		for _, c := range line[1:bytes.IndexByte(line, ']')] {
			rank = rank*10 + int(c-'0')
		}
		next[rank]++
		label := strconv.Itoa(rank)
		want := "[" + label + "] " + label + " " + strconv.Itoa(next[rank]) + tail
		if string(line) != want {
			require.Equal(t, want, string(line))
		}
	}
	for r, n := range next {
		require.Equal(t, count, n, "rank %d", r)
	}
}

// printLines is a rank that prints some lines of a size, with the end, each by so
// many writes.
func printLines(count, size, writes string) {
	n, _ := strconv.Atoi(count)
	bytes, _ := strconv.Atoi(size)
	pieces, _ := strconv.Atoi(writes)
	line := []byte(strings.Repeat(string('a'+os.Getenv("IBRUN_RANK")[0]-'0'), bytes-1) + "\n")
	for range n {
		for at := range pieces {
			_, _ = os.Stdout.Write(line[at*bytes/pieces : (at+1)*bytes/pieces])
		}
	}
}

// Lines of up to 32 KiB are whole without labels, too, whoever else prints: those
// that come in one write, as a program prints them that buffers, and in several.
func TestWholeLines(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for _, c := range []struct{ ranks, count, size, writes int }{
		{64, 100, 4096, 1},
		{32, 100, 4096, 3},
		{16, 40, 32 << 10, 1},
		{16, 40, 32 << 10, 9},
		{16, 1000, 80, 20},
		{16, 300, 1023, 2},
	} {
		o := ibrun(t, args(deep, "--stdin", "none", "-n", strconv.Itoa(c.ranks), self, ":lines", strconv.Itoa(c.count),
			strconv.Itoa(c.size), strconv.Itoa(c.writes))...)
		require.Equal(t, 0, o.code, o.stderr)
		whole := 0
		for line := range bytes.Lines(o.stdout) {
			if len(line) == c.size && bytes.Count(line, line[:1]) == c.size-1 {
				whole++
			}
		}
		require.Len(t, o.stdout, c.ranks*c.count*c.size)
		assert.Equal(t, c.ranks*c.count, whole, "lines of %d bytes in %d writes", c.size, c.writes)
	}
}

// A prompt appears before it is answered, with labels, too, and its line goes on
// behind it; another rank's output in between does not mix with it.
func TestPrompt(t *testing.T) {
	for _, c := range []struct {
		args         []string
		prompt, rest string
	}{
		{nil, "name? ", "name? hi me\n"},
		{[]string{"-l"}, "[0] name? ", "[0] name? hi me\n"},
		{[]string{"-u"}, "name? ", "name? hi me\n"},
	} {
		cmd := command(t, args(c.args, "sh", "-c", `printf "name? "; read name; echo hi $name`)...)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		var out screen.Screen
		cmd.Stdout = &out
		require.NoError(t, cmd.Start())
		eventually(t, 2*time.Minute, "the prompt", func() bool { return out.String() == c.prompt })
		_, err = io.WriteString(in, "me\n")
		require.NoError(t, err)
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
		require.Equal(t, c.rest, out.String())
	}
}

func TestConsumerThatLeaves(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd := command(t, args(deep, "-n", "4", "yes")...)
	cmd.Env = append(os.Environ(), mark(t))
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	w.Close()
	_, err = io.ReadFull(r, make([]byte, 100))
	require.NoError(t, err)
	r.Close()
	_ = cmd.Wait()
	require.Equal(t, 141, cmd.ProcessState.ExitCode())
	// It takes a tenth of a second, but on a busy machine a second and more. The bound is a second
	// and the grace (docs/faults.md).
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Empty(c, left(mark(t))) }, 3*time.Second,
		10*time.Millisecond, "nothing is left")
}

func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	cmd := command(t, "echo", "x")
	cmd.Stdout = full
	o := finish(t, cmd)
	require.Equal(t, 125, o.code)
	require.Contains(t, o.stderr, "no space left")
}

// A consumer that takes nothing does not delay the end of an interrupted job.
func TestSlowConsumer(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd := command(t, args(deep, "-n", "4", "yes")...)
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	w.Close()
	_, err = io.ReadFull(r, make([]byte, 100))
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	require.Equal(t, 130, cmd.ProcessState.ExitCode())
	require.Less(t, time.Since(began), 3*time.Second)
}

// Much meets a reader that stops now and then. No agent takes more than 64 MiB at any time, and
// Ctrl-C ends the job while the reader stands still.
func TestSlowReader(t *testing.T) {
	const most = 64 << 10 // KiB
	size := *longOutput
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd := command(t, args(deep, "-n", "4", "sh", "-c",
		"[ $RANK = 3 ] && head -c "+strconv.Itoa(size)+" /dev/zero && exec yes; exec sleep 1000")...)
	cmd.Env = append(os.Environ(), mark(t))
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	w.Close()
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for range 256 {
		_, err = io.CopyN(io.Discard, r, int64(size/256))
		require.NoError(t, err)
		<-pause.C // of the reader: its length does not matter
	}
	pids := slices.DeleteFunc(agents(":agent"), func(pid int) bool {
		return !slices.Contains(marked(mark(t)), strconv.Itoa(pid))
	})
	require.Len(t, pids, 4)
	peak := 0
	for _, pid := range append(pids, cmd.Process.Pid) {
		peak = max(peak, memory(t, pid, "VmHWM"))
	}
	t.Logf("%d bytes and a slow reader: the largest agent, the root included, had %d KiB", size, peak)
	require.LessOrEqual(t, peak, most)
	began := time.Now()
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	require.Equal(t, 130, cmd.ProcessState.ExitCode())
	require.Less(t, time.Since(began), 3*time.Second)
	t.Logf("Ctrl-C ended it after %v", time.Since(began).Round(time.Millisecond))
}

func TestClosedDescriptors(t *testing.T) {
	for _, closing := range []string{"<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"} {
		sh := exec.Command("sh", "-c", "exec timeout -s KILL 20 "+program+" -n 2 sh -c 'cat; echo out; echo err >&2' "+
			closing)
		out, err := sh.Output()
		require.NoError(t, err, closing)
		if !strings.Contains(closing, ">&-") || closing == "2>&-" {
			require.Equal(t, "out\nout\n", string(out), closing)
		}
	}
}

// Arguments and environment arrive byte for byte.
func TestWordsAreExact(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	const longest = 128<<10 - 1 // MAX_ARG_STRLEN with its NUL
	words := []string{":digest", "", "a b", "'", `"`, "$(touch canary)", "`x`", "new\nline", "\xff\xfe", "-n", "--",
		":x", "*", "", strings.Repeat("w", longest)}
	env := []string{"E2E_A=", "E2E_B=a b\n$(touch canary)'\"", "E2E_C=\xff", "E2E_D=" + strings.Repeat("v", longest-6)}
	cmd := command(t, args(deep, append([]string{"-n", "4", self}, words...)...)...)
	cmd.Env = append(os.Environ(), env...)
	o := finish(t, cmd)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, strings.Repeat(digest(words[1:], env)+"\n", 4), string(o.stdout))
	require.NoFileExists(t, cmd.Dir+"/canary")
}

func TestFilesPerRank(t *testing.T) {
	cmd := command(t, args(deep, "-n", "8", "--output", "o.%r.%h.%t", "--error", "e.%r", "sh", "-c",
		"echo $RANK; echo e$RANK >&2")...)
	o := finish(t, cmd)
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, o.stdout)
	for r := range 8 {
		out, err := os.ReadFile(fmt.Sprintf("%s/o.%d.%c.%d", cmd.Dir, r, 'a'+r/2, r%2))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%d\n", r), string(out))
		out, err = os.ReadFile(fmt.Sprintf("%s/e.%d", cmd.Dir, r))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("e%d\n", r), string(out))
	}
}
