//go:build mpi

package mpi

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
	"ibrun/test/launch"
)

// withLibrary compiles testdata/LIBRARY.c with the sources in cgo/LIBRARY, and returns the path of the program. gcc
// runs its static analyzer and treats warnings as errors. Sanitizers end the program at an invalid memory access or
// undefined behaviour.
func withLibrary(t *testing.T, library string) string {
	t.Helper()
	sources, err := filepath.Glob("../../cgo/" + library + "/*.c")
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	if library == "tool" {
		sources = append(sources, "../../cgo/pmgr/frame.c", "-D_GNU_SOURCE")
	}
	return compiled(t, library, append([]string{
		"gcc", "-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror", "-fanalyzer",
		"-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I../../cgo/" + library,
		"testdata/" + library + ".c",
	}, sources...)...)
}

func TestPMGR(t *testing.T) {
	program := withLibrary(t, "pmgr")
	t.Run("collectives", func(t *testing.T) { eachCollective(t, program) })
	t.Run("ends", func(t *testing.T) { testFailures(t, program) })
	t.Run("lies", func(t *testing.T) { testDamagedMessages(t, program) })
}

// eachCollective runs a program that calls each collective of libpmgr with each root and checks the results. The jobs
// have one agent, a flat tree, a binary tree or a chain of agents, or three programs.
func eachCollective(t *testing.T, program string) {
	unequal := " --hosts a:1,b:3,c:2 "
	for _, options := range []string{
		"-n 1", "-n 3 " + strings.Join(detectLeaks, " "), "--lazy --tree flat" + unequal,
		"--lazy --tree kary:2 -m cyclic" + unequal, "--lazy --tree chain -m plane=2" + unequal,
	} {
		args := strings.Fields(options)
		if strings.Contains(options, "--hosts") {
			args = onHosts(options)
		}
		o := ibrun(t, append(args, program, "all")...)
		require.Equal(t, 0, o.Code, "%s: %s", options, o.Stderr)
		require.Regexp(t, `^\d+ ranks: all\n$`, o.Stdout)
	}
	all := " " + program + " all"
	o := ibrun(t, onHosts("--lazy --tree kary:2 -n 3 -H a:2,b"+all+" : -n 2 -H b,c"+all+" : -n 1 -H a:4"+all)...)
	require.Equal(t, "6 ranks: all\n", o.Stdout, o.Stderr)
}

// testFailures runs programs that call libpmgr incorrectly, leave the job early, abort or are killed. If ranks disagree
// about the root or the size of a collective, it must fail in all ranks. If a rank leaves, the next collective must
// fail in all remaining ranks. If a rank aborts or is killed, ibrun must end the job with the expected exit code.
// Without ibrun the program must fail with a hint.
func testFailures(t *testing.T, program string) {
	o := ibrun(t, "-n", "4", program, "mistakes")
	require.Equal(t, 0, o.Code, o.Stderr)
	require.Equal(t, 4, strings.Count(o.Stdout, "collective failed: "), "%s", o.Stdout)
	require.Contains(t, o.Stdout, "4 ranks: mistakes\n")
	o = ibrun(t, "-n", "4", program, "leave")
	require.Equal(t, 0, o.Code, o.Stderr)
	require.Equal(t, strings.Repeat("collective failed: rank 1 ended before it joined\n", 3), o.Stdout)
	o = ibrun(t, "-n", "4", program, "abort")
	require.Equal(t, 7, o.Code, o.Stderr)
	require.Contains(t, o.Stderr, "aborted the job with code 7: because\n")
	o = ibrun(t, "-n", "4", program, "abort-256")
	require.Equal(t, 1, o.Code, o.Stderr)
	o = ibrun(t, "-n", "4", "--launcher", "local", "--hosts", "a,b", program, "die")
	require.Equal(t, 137, o.Code, o.Stderr)
	require.Contains(t, o.Stderr, "ibrun: rank 1 on a was killed by signal 9 (KILL)\n")
	out, err := exec.Command(program).CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "not started by ibrun: there is no IBRUN_FD; try ibrun -n 2 and the program\n", string(out))
}

func TestLibpmi(t *testing.T) {
	program := withLibrary(t, "libpmi")
	t.Run("ibrun", func(t *testing.T) { longValues(t, program) })
	t.Run("others", func(t *testing.T) { testPMI1Launcher(t, program) })
	t.Run("progress", func(t *testing.T) { progressWhileWaiting(t, program) })
	t.Run("idle", func(t *testing.T) { idleWait(t, program) })
}

// progressWhileWaiting tests that libpmi calls the progress function while rank 0 waits in a barrier. Rank 1 joins the
// barrier only after the first such call, which also requests a value from the launcher. ibrun replies to this request
// after it completes the barrier, and mpiexec.hydra before. Under both launchers the two ranks must leave the barrier.
func progressWhileWaiting(t *testing.T, client string) {
	for _, launcher := range []string{launch.Program, "mpiexec.hydra"} {
		fifo := filepath.Join(t.TempDir(), "fifo")
		require.NoError(t, unix.Mkfifo(fifo, 0o600))
		o := launch.Finish(t, exec.CommandContext(t.Context(), launcher, "-n", "2", client, "progress", fifo))
		o.Went(t, []string{"rank 0 went on", "rank 1 went on"}, launcher)
	}
}

// idleWait requires that libpmi sleeps between calls of the progress function while a rank waits in a barrier, so that
// the rank uses little CPU time. The sleeps grow to 10 ms, and are shorter in the first 60 calls. So 100 calls must
// take at least 400 ms.
func idleWait(t *testing.T, client string) {
	const calls, early = 100, 60 // early is the number of first calls after which libpmi sleeps for less than 10 ms
	conn, theirs := launcherSocket(t)
	c := exec.CommandContext(t.Context(), client, "idle", fmt.Sprint(calls))
	c.Env = append(os.Environ(), "PMI_FD=3", "PMI_RANK=2", "PMI_SIZE=4")
	c.ExtraFiles = []*os.File{theirs}
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	theirs.Close()
	for lines, asked := bufio.NewReader(conn), ""; !strings.HasPrefix(asked, "cmd=barrier_in"); {
		asked, err = lines.ReadString('\n')
		require.NoError(t, err)
		for i, question := range []string{"cmd=init", "cmd=get_maxes", "cmd=get_my_kvsname"} {
			if strings.HasPrefix(asked, question) {
				_, err = fmt.Fprintln(conn, pmi1Replies[i])
				require.NoError(t, err)
			}
		}
	}
	waiting := time.Now()
	printed := bufio.NewScanner(out)
	require.True(t, printed.Scan())
	require.Equal(t, "progress", printed.Text())
	require.GreaterOrEqual(t, time.Since(waiting), (calls-early)*10*time.Millisecond)
	_, err = fmt.Fprintln(conn, "cmd=barrier_out")
	require.NoError(t, err)
	require.True(t, printed.Scan())
	require.Equal(t, "barrier 0", printed.Text())
	require.NoError(t, c.Wait())
}

// longValues runs a program of libpmi in which each rank puts a value of 16 KiB, reads the values of all ranks, and
// requests the list of the ranks on its node. The program runs under ibrun with block and cyclic mapping, and without a
// launcher. It must succeed.
func longValues(t *testing.T, program string) {
	for _, args := range [][]string{append([]string{"-n", "3"}, detectLeaks...),
		onHosts("--lazy --tree kary:2 --hosts a:1,b:3,c:2 -m cyclic")} {
		o := ibrun(t, append(args, program, "exchange")...)
		require.Equal(t, 0, o.Code, "%v: %s", args, o.Stderr)
		require.Regexp(t, `^\d+ ranks, values of 16384 bytes\n$`, o.Stdout)
	}
	out, err := exec.Command(program, "exchange").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "1 ranks, values of 16384 bytes\n", string(out))
}

// damagedRuns returns how many times a test runs a program with randomly damaged messages.
func damagedRuns() int {
	if *whole {
		return 400
	}
	return 30
}

var (
	// pmi1Replies has the replies of a launcher that implements PMI-1 without the extensions of ibrun. Their order is
	// that of the requests of the program testdata/libpmi.c with the argument "any".
	pmi1Replies = []string{
		"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
		"cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0",
		"cmd=my_kvsname kvsname=space_1 rc=0", "cmd=universe_size size=-1 rc=0", "cmd=appnum appnum=3 rc=0",
		"cmd=put_result rc=0 msg=success", "cmd=barrier_out",
		"cmd=get_result rc=0 msg=success value=a b=c", "cmd=get_result rc=0 msg=success value=a b=c",
		"cmd=get_result rc=0 msg=success value=(vector,(0,2,1),(0,1,2))",
		"cmd=get_result rc=0 msg=success value=(vector,(0,2,1))",
		"cmd=publish_result rc=0 info=ok", "cmd=lookup_result rc=0 port=p info=ok", "cmd=unpublish_result rc=1 msg=x",
		"cmd=spawn_result rc=0", "cmd=finalize_ack rc=0",
	}
	// pmi1Output has the lines that the program must print after it has received pmi1Replies.
	pmi1Output = []string{
		"rank 2 of 4", "universe -1", "appnum 3", "values 923", "name space_1", "put 0", "barrier 0", "get 0",
		"get short 8",
		"clique 3", "ranks 0", "publish 0", "lookup 0", "unpublish -1", "spawn 0", "finalize 0",
	}
)

// launcherSocket returns the two ends of a connection between a launcher and a rank. The test acts as the launcher and
// uses ours. It passes theirs to the program that acts as the rank.
func launcherSocket(t *testing.T) (ours *net.UnixConn, theirs *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	theirs = os.NewFile(uintptr(fds[1]), "theirs")
	file := os.NewFile(uintptr(fds[0]), "ours")
	defer file.Close()
	conn, err := net.FileConn(file)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	t.Cleanup(func() { theirs.Close() })
	return conn.(*net.UnixConn), theirs
}

// runWithReplies runs a program with the argument "any" as a rank, and acts as its launcher. It sends words, the bytes
// of all replies, at once without waiting for requests. It returns the standard output and standard error of the
// program, the bytes that the program sent, and its exit code.
func runWithReplies(t *testing.T, program, words string, env ...string) (printed, asked string, code int) {
	t.Helper()
	conn, theirs := launcherSocket(t)
	defer conn.Close() // before the end of the test, because a test calls this function up to 400 times
	defer theirs.Close()
	c := exec.Command(program, "any")
	c.Env = append(os.Environ(), env...)
	c.ExtraFiles = []*os.File{theirs}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	require.NoError(t, c.Start())
	theirs.Close()
	if slices.Contains(env, "IBRUN_FD=3") {
		conn = receiveHello(t, conn)
	}
	go func() {
		_, _ = conn.Write([]byte(words)) // fails if the program has ended
		_ = conn.CloseWrite()
	}()
	var heard bytes.Buffer
	_, _ = heard.ReadFrom(conn) // fails if the program resets the connection when it ends
	_ = c.Wait()                // the caller checks the exit code
	return out.String(), heard.String(), c.ProcessState.ExitCode()
}

// receiveHello receives the first message of a program of libpmgr, Hello, and the file descriptor that the program
// sends with it. It returns the socket of this descriptor, on which an agent sends its replies.
func receiveHello(t *testing.T, rank *net.UnixConn) *net.UnixConn {
	t.Helper()
	words, oob := make([]byte, 100), make([]byte, 100)
	n, oobn, _, _, err := rank.ReadMsgUnix(words, oob)
	require.NoError(t, err)
	require.Equal(t, frame.Append(nil, rankwire.Hello{}), words[:n])
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	require.NoError(t, err)
	require.Len(t, messages, 1)
	fds, err := unix.ParseUnixRights(&messages[0])
	require.NoError(t, err)
	require.Len(t, fds, 1)
	f := os.NewFile(uintptr(fds[0]), "program")
	defer f.Close()
	c, err := net.FileConn(f)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*net.UnixConn)
}

// testPMI1Launcher runs a program of libpmi and acts as a launcher without the extensions of ibrun. If all replies are
// valid, the program must send the requests of PMI-1 and print the values that it has received. If replies are damaged,
// the program must still exit with code 0, because each call of libpmi returns success or an error code.
func testPMI1Launcher(t *testing.T, program string) {
	env := []string{"PMI_FD=3", "PMI_RANK=2", "PMI_SIZE=4"}
	printed, asked, _ := runWithReplies(t, program, strings.Join(pmi1Replies, "\n")+"\n", env...)
	require.Equal(t, strings.Join(pmi1Output, "\n")+"\n", printed)
	require.True(t, strings.HasPrefix(asked,
		"cmd=init pmi_version=1 pmi_subversion=1 ibrun_values=16384\ncmd=get_maxes\n"), asked)
	require.Contains(t, asked, "cmd=put kvsname=space_1 key=key value=value\n")
	require.Contains(t, asked,
		"mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=2\nspawnssofar=1\narg1=x\nargcnt=1\npreput_num=1\n"+
			"preput_key_0=k\npreput_val_0=v\ninfo_num=0\nendcmd\nmcmd=spawn\n")
	require.True(t, strings.HasSuffix(asked, "cmd=finalize\n"), asked)

	rng := rand.New(rand.NewPCG(5, 5))
	for range damagedRuns() {
		lines := append([]string{}, pmi1Replies...)
		for range 1 + rng.IntN(3) {
			k := rng.IntN(len(lines))
			lines[k] = damageLine(rng, lines[k])
		}
		printed, _, code := runWithReplies(t, program, strings.Join(lines, "\n")+"\n", env...)
		require.Zero(t, code, "%q: %s", lines, printed)
		require.Regexp(t, `^(init -?\d+|rank 2 of 4\n(.+\n)*finalize -?\d+)\n$`, printed, "%q", lines)
	}
}

// damageLine returns a copy of line with one random change: it may be cut off, extended, split, rotated or replaced by
// another reply, or have a wrong character or numbers out of range.
func damageLine(rng *rand.Rand, line string) string {
	at := rng.IntN(len(line))
	switch rng.IntN(8) {
	case 0:
		return line[:at]
	case 1:
		return line + strings.Repeat("9", rng.IntN(40000))
	case 2:
		return line[:at] + string(rune(rng.IntN(256))) + line[at+1:]
	case 3:
		return line[:at] + "\n" + line[at:]
	case 4:
		return strings.NewReplacer("0", "99999999999", "1", "-1", "2", "2147483647").Replace(line)
	case 5:
		return strings.ReplaceAll(line, "(0,2,1)", fmt.Sprintf("(%d,%d,%d)", rng.IntN(3), rng.Uint32(), rng.IntN(3)))
	case 6:
		return pmi1Replies[rng.IntN(len(pmi1Replies))]
	}
	return line[at:] + line[:at]
}

// testDamagedMessages runs a program of libpmgr and sends it the messages with which an agent completes its
// collectives. One randomly chosen message is damaged, except in the first three runs. In all runs the program must
// exit without an invalid memory access or undefined behaviour.
func testDamagedMessages(t *testing.T, program string) {
	rng := rand.New(rand.NewPCG(6, 6))
	env := []string{"IBRUN_FD=3", "RANK=2", "WORLD_SIZE=4"}
	good, bad := "allgather 0\nbcast 0\ngather 0\nscatter 0\n", 0
	for i := range damagedRuns() {
		l := job.NewLayout([]job.Share{{Nodes: 2, Ranks: 1}, {Nodes: 1, Ranks: 2}}).Dealt(uint32(i % 3))
		value := make([]byte, 100)
		var all []rankwire.Parcel
		for slot := range l.Ranks() {
			all = append(all, rankwire.Parcel{From: job.Slot(slot), To: rankwire.Everyone, Value: value})
		}
		messages := []frame.Message{
			rankwire.Welcome{JobID: "j", Rank: l.Slot(2), Epoch: 1, Layout: l},
			rankwire.Release{Op: 1, What: rankwire.AllGather, Parcels: rankwire.NewParcels(all...)},
			rankwire.Pair{Rank: 1, What: rankwire.Failed}, // libpmgr must ignore this message
			rankwire.Release{Op: 2, What: rankwire.Broadcast, Root: 1, Parcels: rankwire.NewParcels(all[1])},
			rankwire.Release{Op: 3, What: rankwire.Gather, Root: 2, Parcels: rankwire.NewParcels(all...)},
			rankwire.Release{Op: 4, What: rankwire.Scatter, Parcels: rankwire.NewParcels(all[0])},
		}
		spoil := rng.IntN(len(messages))
		var words []byte
		for k, m := range messages {
			f := frame.Append(nil, m)
			if k == spoil && i > 2 {
				f = damageFrame(rng, f)
			}
			words = append(words, f...)
		}
		printed, _, code := runWithReplies(t, program, string(words), env...)
		require.Contains(t, []int{0, 1, 99}, code, "%v: %s", messages[spoil], printed)
		require.NotRegexp(t, "Sanitizer|runtime error", printed, "%v", messages[spoil])
		if i <= 2 {
			require.Equal(t, good, printed)
		} else if printed != good {
			bad++
		}
	}
	require.Greater(t, bad, damagedRuns()/3) // fewer than all runs, because libpmgr cannot detect a wrong bit in a value
}

// TestProgramsInARowInC runs three programs one after the other in each rank: one in C, one in Go, and the one in C
// again. Each program must take part in the job. If a program ends without leaving the job, the next program in this
// rank must fail.
func TestProgramsInARowInC(t *testing.T) {
	program, world := withLibrary(t, "pmgr"), ours(t, "test/world")
	o := ibrun(t, append(onHosts("--lazy --tree kary:2 --hosts n[1-3]"), "sh", "-c",
		`"$0" all && "$1" again b && "$0" all`, program, world)...)
	require.Equal(t, 0, o.Code, o.Stderr)
	require.Equal(t, "3 ranks: all\nb: 3 ranks\n3 ranks: all\n", o.Stdout)
	o = ibrun(t, "-n", "2", "sh", "-c", `"$1" leave; exec "$0" all`, program, world)
	require.NotEqual(t, 0, o.Code)
	require.Contains(t, o.Stderr, "an earlier program of this rank ended without Finalize")
}

// damageFrame returns the frame f with one random change: one wrong bit or byte after the length field, a missing end,
// or a wrong byte in the length field. It may change f itself.
func damageFrame(rng *rand.Rand, f []byte) []byte {
	switch at := 4 + rng.IntN(min(12, len(f)-4)); rng.IntN(4) {
	case 0:
		f[at] ^= byte(1 << rng.IntN(8))
	case 1:
		f[at] = 0xff
	case 2:
		return f[:at]
	default:
		f[rng.IntN(4)] = byte(rng.IntN(256))
	}
	return f
}
