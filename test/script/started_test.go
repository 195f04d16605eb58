package script

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"ibrun/internal/proc"
	"ibrun/test/product"
	"ibrun/test/waitfor"
)

// started is a command that a script has started and that runs in parallel with the script.
type started struct {
	*exec.Cmd
	keys, tty *os.File      // the two ends of its terminal, or nil
	shown     chan struct{} // closed when all that the terminal has shown is in its file
}

// commands maps names to the commands that a script has started. setup gives each script an empty one.
type commands map[string]*started

// commandsKey is the key of a script's commands.
type commandsKey struct{}

func commandsOf(ts *testscript.TestScript) commands { return ts.Value(commandsKey{}).(commands) }

// prepare returns a command that the caller must start. args are the name of the command in the script, its program and
// its arguments. The command is killed when the script ends, or after two minutes if it still runs then.
func prepare(ts *testscript.TestScript, args []string) *started {
	if len(args) < 2 {
		ts.Fatalf("usage: start|terminal NAME COMMAND [ARGUMENT...]")
	}
	ts.Check(ts.Exec("env", "-0"))
	ctx, cancel := context.WithTimeout(context.Background(), 2*waitfor.Deadline)
	c := &started{Cmd: exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", `exec "$@"`, "sh"}, args[1:]...)...)}
	c.Dir, c.Env = ts.MkAbs("."), strings.Split(strings.TrimSuffix(ts.ReadFile("stdout"), "\x00"), "\x00")
	out, err := os.Create(ts.MkAbs(args[0] + ".out"))
	ts.Check(err)
	c.Stdout = out
	commandsOf(ts)[args[0]] = c
	ts.Defer(func() {
		cancel()
		_ = c.Wait()
		out.Close()
	})
	return c
}

// start implements the script command start NAME COMMAND [ARGUMENT...]. It starts a command that runs in parallel with
// the script. The output goes to the files NAME.out and NAME.err. The variable NAME is the process id of the command.
func start(ts *testscript.TestScript, _ bool, args []string) {
	c := prepare(ts, args)
	messages, err := os.Create(ts.MkAbs(args[0] + ".err"))
	ts.Check(err)
	defer messages.Close()
	c.Stderr = messages
	ts.Check(c.Start())
	ts.Setenv(args[0], strconv.Itoa(c.Process.Pid))
}

// terminal implements the script command terminal NAME COMMAND [ARGUMENT...]. It starts a command as start does, but in
// a new terminal of 30 lines and 100 columns. All output of the terminal goes to the file NAME.out.
func terminal(ts *testscript.TestScript, _ bool, args []string) {
	c := prepare(ts, args)
	var err error
	c.keys, c.tty, err = proc.OpenTerminal(30, 100, false)
	ts.Check(err)
	copied := c.Stdout.(*os.File)
	c.Stdin, c.Stdout, c.Stderr = c.tty, c.tty, c.tty
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c.shown = make(chan struct{})
	ts.Check(c.Start())
	ts.Setenv(args[0], strconv.Itoa(c.Process.Pid))
	go func() {
		defer close(c.shown)
		_, _ = io.Copy(copied, c.keys)
	}()
	ts.Defer(func() { c.keys.Close(); c.tty.Close() })
}

// types implements the script command types NAME KEYS. It sends keys to the terminal of a command; \r is the key
// Return, and \x03 is Ctrl-C. First it waits until the echo of the terminal is off, because ibrun turns it off when it
// sends the keys to a rank. The form ! types NAME KEYS does not wait.
func types(ts *testscript.TestScript, neg bool, args []string) {
	c := commandsOf(ts)[args[0]]
	keys, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	if !neg {
		ts.Check(waitfor.True(func() bool { return !echoes(c.tty) }))
	}
	_, err = c.keys.WriteString(keys)
	ts.Check(err)
}

// echoes reports whether a terminal shows what is typed.
func echoes(tty *os.File) bool {
	how, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	return err == nil && how.Lflag&unix.ECHO != 0
}

// resize changes the size of a terminal: resize NAME ROWS COLUMNS.
func resize(ts *testscript.TestScript, _ bool, args []string) {
	var rows, columns uint16
	_, err := fmt.Sscan(args[1]+" "+args[2], &rows, &columns)
	ts.Check(err)
	ts.Check(proc.Resize(commandsOf(ts)[args[0]].keys, rows, columns))
}

// ends implements the script command ends NAME CODE. It waits until the command NAME ends, which start or terminal has
// started. The exit code must match the regular expression CODE; it is -1 if a signal has killed the command. If the
// command has a terminal, its echo must be on again. Then stdout and stderr of the script are the output of NAME.
func ends(ts *testscript.TestScript, _ bool, args []string) {
	c := commandsOf(ts)[args[0]]
	_ = c.Wait()
	if c.tty != nil {
		if !echoes(c.tty) {
			ts.Fatalf("the command has left the echo of the terminal off")
		}
		c.tty.Close()
		<-c.shown
	} else {
		fmt.Fprint(ts.Stderr(), product.Complaints(ts.ReadFile(args[0]+".err")))
	}
	fmt.Fprint(ts.Stdout(), ts.ReadFile(args[0]+".out"))
	code := strconv.Itoa(c.ProcessState.ExitCode())
	if !regexp.MustCompile("^" + args[1] + "$").MatchString(code) {
		ts.Fatalf("%s exited with code %s, want %s; it printed:\n%s", args[0], code, args[1], ts.ReadFile(args[0]+".out"))
	}
}

// until runs a command again and again, until what it prints has a line that matches:
// until PATTERN COMMAND [ARGUMENT...].
func until(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	err := waitfor.True(func() bool {
		_ = ts.Exec(args[1], args[2:]...)
		return pattern.MatchString(ts.ReadFile("stdout") + ts.ReadFile("stderr"))
	})
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	fmt.Fprint(ts.Stdout(), stdout)
	fmt.Fprint(ts.Stderr(), stderr)
	if err != nil {
		ts.Fatalf("%v; the last time it printed:\n%s%s", err, stdout, stderr)
	}
}
