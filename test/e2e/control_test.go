package e2e

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/control"
	"ibrun/test/screen"
)

// entersNoBarrier lets all ranks but one wait in a barrier. The one waits for the end of the job.
func (r *rank) entersNoBarrier(victim int) {
	fmt.Printf("rank %d is here\n", r.Rank())
	if r.Rank() == victim {
		<-r.ctx.Done()
	}
	require.NoError(r, r.Barrier(r.ctx))
}

// running is a job that can be asked.
type running struct {
	t        *testing.T
	cmd      *exec.Cmd
	env      []string
	out, err screen.Screen
}

// controlled starts a job whose socket is in a folder of this test alone.
func controlled(t *testing.T, args ...string) *running {
	dir, err := os.MkdirTemp("", "ctl") // the path of a socket has 107 bytes at most
	require.NoError(t, err)
	r := &running{t: t, cmd: command(t, args...), env: append(os.Environ(), "XDG_RUNTIME_DIR="+dir, swift)}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = r.env, &r.out, &r.err
	require.NoError(t, r.cmd.Start())
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		os.RemoveAll(dir)
	})
	return r
}

// ends waits for the end of the job.
func (r *running) ends() int {
	_ = r.cmd.Wait()
	return r.cmd.ProcessState.ExitCode()
}

// ctl asks the job.
func (r *running) ctl(args ...string) outcome {
	c := command(r.t, append([]string{"ctl"}, args...)...)
	c.Env = r.env
	return finish(r.t, c)
}

// until asks the job until it answers with a text.
func (r *running) until(text string, args ...string) (answer string) {
	r.t.Helper()
	found := regexp.MustCompile(text)
	eventually(r.t, patience/2, fmt.Sprintf("%v: %s", args, text), func() bool {
		answer = string(r.ctl(args...).stdout)
		return found.MatchString(answer)
	})
	return answer
}

func (r *running) folder() string {
	for _, e := range r.env {
		if dir, ok := strings.CutPrefix(e, "XDG_RUNTIME_DIR="); ok {
			r.t.Setenv("XDG_RUNTIME_DIR", dir) // the last one counts
		}
	}
	return control.Folder()
}

// stuckWorld is a job of five nodes with three ranks each of which rank 7 does not enter a barrier.
func stuckWorld(t *testing.T, options ...string) *running {
	self, err := os.Executable()
	require.NoError(t, err)
	s := five("--lazy", "kary:2")
	s.args = append(options, s.args...)
	return controlled(t, s.run(self, ":world", "stuck", "7")...)
}

// The rank that does not enter its barrier is named, with its node and process; equal stacks are
// one. The other verbs answer, too.
func TestControl(t *testing.T) {
	r := stuckWorld(t)
	missing := `Barrier 1: 14 ranks have waited for [0-9.]+ s; missing: rank 7 on n3 \(process (\d+), `
	ranks := r.until(missing, "ranks")
	require.Equal(t, 17, strings.Count(ranks, "\n"), ranks)
	pid := regexp.MustCompile(missing).FindStringSubmatch(ranks)[1]
	require.Regexp(t, `(?m)^ +7 +n3 +`+pid+` .* joined$`, ranks)
	require.Regexp(t, `(?m)^ +8 +n3 .* Barrier 1 for [0-9.]+ s$`, ranks)
	require.Equal(t, 3, strings.Count(r.until("n3", "ranks", "--ranks", "7"), "\n")+1)

	status := r.until("14 ranks: in Barrier 1", "status")
	require.Contains(t, status, "15 ranks on 5 nodes")
	require.Contains(t, status, "(ranks 0-6,8-14)")
	require.Contains(t, status, "1 rank: joined (ranks 7)")

	stacks := r.until(`(?m)^14 ranks: 0-6,8-14 \(in Barrier 1\)$`, "stacks")
	require.Regexp(t, `(?m)^1 rank: 7 \(joined\)$`, stacks)

	list := r.until("running", "list")
	require.Regexp(t, `(?m)^[0-9a-f]{16} +`+fmt.Sprint(r.cmd.Process.Pid)+` +5 +15 .* running +/`, list)
	id := regexp.MustCompile(`(?m)^[0-9a-f]{16}`).FindString(list)
	for _, name := range []string{id, id[:5], fmt.Sprint(r.cmd.Process.Pid)} {
		require.Equal(t, 0, r.ctl("status", "-j", name).code)
	}
	require.Contains(t, r.ctl("status", "-j", "nonesuch").stderr, "no job is nonesuch")
	require.Contains(t, r.ctl("ranks", "--ranks", "99").stderr, "there is no rank 99")

	top := string(r.ctl("top", "--once", "--rows", "3").stdout)
	require.Contains(t, top, "missing: rank 7")
	require.Contains(t, top, "and 12 more")

	var got control.Response
	require.NoError(t, json.Unmarshal(r.ctl("status", "--json").stdout, &got))
	require.Equal(t, uint32(5), got.Standing.Nodes)

	attached := r.attach("--ranks", "7")
	require.Equal(t, "rank 7 is here\n", attached)

	require.Contains(t, r.until("signaled", "stop", "--ranks", "7"), "1 rank: signaled (ranks 7)")
	r.until(`(?m)^ +7 +n3 +`+pid+` +T `, "ranks")
	r.ctl("cont", "--ranks", "7")
	r.until(`(?m)^ +7 +n3 +`+pid+` +S `, "ranks")

	require.Equal(t, 0, r.ctl("end").code)
	require.Equal(t, 143, r.ends(), r.err.String())
	require.Contains(t, string(r.ctl().stdout), "no job runs")
	left, err := os.ReadDir(r.folder())
	require.NoError(t, err)
	require.Empty(t, left)
}

// attach is what ctl attach shows first.
func (r *running) attach(args ...string) string {
	c := command(r.t, append([]string{"ctl", "attach"}, args...)...)
	c.Env = r.env
	out, err := c.StdoutPipe()
	require.NoError(r.t, err)
	require.NoError(r.t, c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(r.t, err)
	_ = c.Process.Kill()
	_ = c.Wait()
	return line
}

// A signal comes to the ranks that are named, and an end by it is a failure like any other.
func TestControlSignal(t *testing.T) {
	r := controlled(t, "-n", "3", "--launcher", "local", "--hosts", "a,b,c", "sh", "-c",
		`trap 'echo $IBRUN_RANK; exit 0' USR1; while :; do sleep 0.1; done`)
	r.until("3 ranks", "status")
	signaled := false
	eventually(t, patience/2, "rank 1 has printed", func() bool { // again, if it had no trap yet
		signaled = strings.Contains(string(r.ctl("signal", "USR1", "--ranks", "1").stdout), "signaled") || signaled
		return strings.Contains(string(r.ctl("status").stdout), "1 rank: exited (ranks 1)")
	})
	require.True(t, signaled)
	r.ctl("signal", "SIGKILL", "--ranks", "0,2")
	require.Equal(t, 137, r.ends())
	require.Equal(t, "1\n", r.out.String())
	require.Regexp(t, `rank [02] on [ac] was killed by signal 9`, r.err.String())
}

// Attached from the middle of a job, a user sees what was printed and what comes, to its end.
func TestControlAttach(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	require.NoError(t, syscall.Mkfifo(gate, 0o600))
	r := controlled(t, "-n", "1", "sh", "-c", `echo before; read word <"$0"; echo "after $word"`, gate)
	r.until("running", "list")
	c := command(t, "ctl", "attach")
	c.Env = r.env
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	in := bufio.NewReader(out)
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "before\n", line)
	require.NoError(t, os.WriteFile(gate, []byte("all\n"), 0)) // the rank goes on
	line, err = in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "after all\n", line)
	require.NoError(t, c.Wait())
	require.Equal(t, 0, r.ends())
	require.Equal(t, "before\nafter all\n", r.out.String())
}

// SIGQUIT and --timeout say who is missing before the job ends.
func TestControlMissing(t *testing.T) {
	r := stuckWorld(t)
	r.until("14 ranks have waited", "ranks")
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGQUIT))
	require.Equal(t, 131, r.ends())
	require.Regexp(t, `ibrun: Barrier 1: 14 ranks have waited for [0-9.]+ s; missing: rank 7 on n3 \(process`,
		r.err.String())
	r = stuckWorld(t, "--timeout", "3")
	require.Equal(t, 124, r.ends())
	require.Contains(t, r.err.String(), "its time of 3s (--timeout) was up")
	require.Contains(t, r.err.String(), "missing: rank 7 on n3")
}

// top in a terminal: a picture that is drawn over itself, and ends with the job. docs/control.md
// has one.
func TestControlTop(t *testing.T) {
	r := stuckWorld(t)
	r.until("14 ranks have waited", "ranks")
	u := sitWith(t, r.env, "ctl", "top", "--interval", "0.2")
	u.sees("missing: rank 7 on n3")
	eventually(t, patience/2, "a second picture", func() bool { return strings.Count(u.screen(), "\x1b[H") >= 3 })
	shown := rendered(u.screen(), 30, 100)
	require.Regexp(t, `^\d\d:\d\d:\d\d  15 ranks on 5 nodes  CPU time \d+:\d\d\.\d\d  memory [0-9.]+[KMG]$`, shown[0])
	require.Contains(t, shown[1], "Barrier 1: 14 ranks have waited for")
	require.Regexp(t, `^RANK  HOST +PID  S +CPU% +TIME +MEMORY  WAITS IN`, shown[2])
	require.Len(t, slices.DeleteFunc(shown, func(line string) bool { return line == "" }), 18)
	t.Logf("%s", strings.Join(shown, "\n"))
	if *picture != "" {
		require.NoError(t, os.WriteFile(*picture, []byte(drawing(shown)), 0o644))
	}
	r.ctl("end")
	require.Equal(t, 143, r.ends())
	u.leaves(0)
}

// picture is where TestControlTop leaves what it has seen (make picture).
var picture = flag.String("picture", "", "file for a picture of ctl top")

// drawing is lines of a terminal as SVG.
func drawing(lines []string) string {
	const line, column, edge = 18, 8, 12 // of a font of 13 px
	var text strings.Builder
	for i, l := range lines {
		fmt.Fprintf(&text, "<text x=\"%d\" y=\"%d\">%s</text>\n", edge, edge+line*i+13, html.EscapeString(l))
	}
	width := 0
	for _, l := range lines {
		width = max(width, len(l))
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="monospace" font-size="13" xml:space="preserve">
<rect width="100%%" height="100%%" rx="6" fill="#1c1c1c"/>
<g fill="#d8d8d8">
%s</g>
</svg>
`, column*width+2*edge, line*len(lines)+2*edge, text.String())
}

// rendered is what a terminal shows of what ctl top writes.
func rendered(written string, rows, cols int) []string {
	end := strings.LastIndex(written, "\x1b[H") // of the last picture that is complete
	begin := strings.LastIndex(written[:end], "\x1b[H")
	var shown []string
	for line := range strings.Lines(written[begin:end]) {
		for _, word := range []string{"\x1b[H", "\x1b[J", "\x1b[K", "\r", "\n"} {
			line = strings.ReplaceAll(line, word, "")
		}
		shown = append(shown, line[:min(len(line), cols)])
	}
	return shown[:min(len(shown), rows)]
}

// What is no request gets an answer in words, and the job goes on. A socket that cannot be made
// costs a line.
func TestControlRefuses(t *testing.T) {
	r := controlled(t, "-n", "2", "sleep", "600")
	r.until("2 ranks", "status")
	sockets, err := filepath.Glob(filepath.Join(r.folder(), "*.sock"))
	require.NoError(t, err)
	require.Len(t, sockets, 1)
	for sent, want := range map[string]string{
		"hello\n": "not a request", `{"verb":"fly"}` + "\n": "unknown request",
		`{"verb":"signal","signal":99}` + "\n": "no signal 99", strings.Repeat("x", 1<<20): "at most 65536 bytes",
		`{"verb":"look","ranks":"0-4000000000"}` + "\n": "no rank 4000000000",
	} {
		c, err := net.Dial("unix", sockets[0])
		require.NoError(t, err)
		go func() { _, _ = c.Write([]byte(sent)) }()
		line, _ := bufio.NewReader(c).ReadString('\n')
		require.Contains(t, line, want)
		c.Close()
	}
	require.Contains(t, string(r.ctl("status").stdout), "2 ranks on 1 node")
	r.ctl("end")
	require.Equal(t, 143, r.ends())

	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "ibrun"), 0o755))
	require.NoError(t, os.Chmod(filepath.Join(dir, "ibrun"), 0o755))
	c := command(t, "-n", "1", "echo", "done")
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
	o := finish(t, c)
	require.Equal(t, "done\n", string(o.stdout))
	require.Equal(t, 0, o.code)
	require.Regexp(t, `^ibrun: the job cannot be asked by ibrun ctl: .* is open to other users \(mode 0755\)\n$`,
		o.stderr)
}

// The same binary under the name ibrunctl is the command.
func TestControlByName(t *testing.T) {
	link := filepath.Join(t.TempDir(), "ibrunctl")
	require.NoError(t, os.Symlink(program, link))
	out, err := exec.Command(link, "--help").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "usage: ibrun ctl")
	o := ibrun(t, "ctl", "fly")
	require.NotEqual(t, 0, o.code)
	require.Contains(t, o.stderr, `ctl knows no "fly"`)
}
