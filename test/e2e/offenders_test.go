package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// speaker is a shell that speaks PMI-1 through its descriptor: ask says a line
// and leaves the answer in $answer.
const speaker = `
ask() { printf '%s\n' "$1" >&3; read -r answer <&3; }
tell() { ask "$1"; echo "$answer"; }
ask "cmd=init pmi_version=1 pmi_subversion=1"
kvs="kvsname=kvs_$IBRUN_JOB_ID"
`

// A mistake is answered by the protocol's own error, to the rank that made it;
// the exchange goes on for all, itself included.
func TestOffenderIsRefused(t *testing.T) {
	client := pmiClient(t)
	const offender = speaker + `
tell "cmd=put kvsname=other key=a value=b"
tell "cmd=put $kvs key=a b value=c"
tell "cmd=put $kvs key=$(printf %0100d 7) value=c"
( tell "cmd=init pmi_version=1 pmi_subversion=1" )
ask "cmd=barrier_in"
value=
while [ ${#value} -lt 400 ]; do value=${value}9e3779b1; done
tell "cmd=put $kvs key=addr-1 value=$value"
ask "cmd=barrier_in"
ask "cmd=barrier_in"
tell "cmd=finalize"
tell "cmd=put $kvs key=late value=b"
tell "cmd=barrier_in"
`
	o := ibrun(t, "-n", "1", client, ":", "-n", "1", "sh", "-c", offender, ":", "-n", "2", client)
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, o.stderr)
	lines := strings.Split(string(o.stdout), "\n")
	for i, want := range []string{
		"cmd=put_result rc=-1 msg=no_such_kvsname", "cmd=put_result rc=-1 msg=malformed:_b",
		"cmd=put_result rc=-1 msg=key_longer_than_64",
		"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=-1 msg=a_second_init:_two_programs_on_one_descriptor?",
		"cmd=put_result rc=0 msg=success",
	} {
		require.Equal(t, want, lines[i])
	}
	require.Contains(t, lines, "cmd=finalize_ack rc=0")
	require.Contains(t, lines, "cmd=put_result rc=-1 msg=after_finalize")
	require.Contains(t, lines, "cmd=barrier_out rc=-1 msg=after_finalize")
	require.Contains(t, lines, "4 ranks exchanged")
}

// What makes no sense is named once. An offender that is gone has left those who wait for it: it is
// to blame, not they, who end because they wait in vain.
func TestOffenderIsNamed(t *testing.T) {
	client := pmiClient(t)
	for _, c := range []struct{ words, says string }{
		{`head -c 5000 /dev/zero | tr '\0' x >&3`, "rank 1: pmi-1: a line of more than 2047 bytes"},
		{`echo cmd=turn_around >&3`, `rank 1: pmi-1: unknown command: "cmd=turn_around"`},
		{`printf '\377\376\375\n' >&3`, "rank 1: pmi-1: no command: "},
		// a child that has inherited it
		{`sh -c 'echo this is my own >&3'`, `rank 1: pmi-1: no command: "this is my own"`},
	} {
		o := ibrun(t, "-n", "1", client, ":", "-n", "1", "sh", "-c", speaker+c.words, ":", "-n", "1", client)
		require.Equal(t, 1, o.code, "%s: %s", c.words, o.stderr)
		require.Equal(t, 1, strings.Count(o.stderr, c.says), "%s: %s", c.words, o.stderr)
		require.Regexp(t, `ibrun: rank 1 on \S+ exited with code 0, and without MPI_Finalize\n`, o.stderr)
		require.Equal(t, 2, strings.Count(o.stderr, "\n"), "%s: %s", c.words, o.stderr)
	}
	// no PMI at all
	o := ibrun(t, "-n", "1", "sh", "-c", `printf '\001\002\003\004\005' >&3`, ":", "-n", "2", "echo", "well")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, "well\nwell\n", string(o.stdout))
}

// A child that inherits a rank's descriptor and outlives it holds nobody up.
func TestGrandchildKeepsPMI(t *testing.T) {
	client := pmiClient(t)
	entry := mark(t)
	o := ibrun(t, "-x", entry, "-n", "3", "sh", "-c", `"$0" && { sleep 1000 >/dev/null 2>&1 & }`, client)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, "3 ranks exchanged\n", string(o.stdout))
	require.Empty(t, o.stderr)
	require.Empty(t, left(entry))
}

// A rank that aborts because it sees a peer dead may be heard of first: it is
// next to the root, the dead one at the end of a chain. The death is named.
func TestDeathBeforeAbort(t *testing.T) {
	const program = speaker + `
if [ $RANK = 3 ]; then echo $$ >"$0.new"; mv "$0.new" "$0"; kill -9 $$; fi
[ $RANK = 0 ] || exec sleep 1000
until [ -e "$0" ]; do :; done
read -r pid <"$0"
while kill -0 $pid 2>/dev/null; do :; done
echo "cmd=abort exitcode=7" >&3
exec sleep 1000
`
	for i := range 5 {
		o := ibrun(t, "--launcher", "local", "--hosts", "a,b,c,d", "--tree", "chain", "sh", "-c", program,
			filepath.Join(t.TempDir(), fmt.Sprint("pid", i)))
		require.Equal(t, 137, o.code, o.stderr)
		require.Equal(t, "ibrun: rank 3 on d was killed by signal 9 (KILL)\n", o.stderr)
	}
}

// The kernel closes the connections of a process that dies before it can be waited for, and may
// have much to do in between, here to free a file. A peer that aborts meanwhile is not the cause.
func TestSlowDeathBeforeAbort(t *testing.T) {
	const program = speaker + `
[ $RANK = 1 ] || { read -r pid <"$0/connection"; echo "cmd=abort exitcode=7" >&3; exec sleep 1000; }
exec 4<>"$0/large"
rm "$0/large"
head -c 512M /dev/zero >&4
exec 5>"$0/connection"
`
	for _, c := range []struct {
		end  string
		code int
		says string
	}{
		{"kill -ABRT $$", 134, "was killed by signal 6 (ABRT)"},
		{"exit 0", 1, "exited with code 0, and without MPI_Finalize"},
	} {
		dir, err := os.MkdirTemp("/dev/shm", "ibrun-test-") // a disk would be busy for seconds
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "connection"), 0o600))
		o := ibrun(t, "--launcher", "local", "--hosts", "a,b", "sh", "-c", program+c.end, dir)
		require.Equal(t, c.code, o.code, o.stderr)
		require.Equal(t, "ibrun: rank 1 on b "+c.says+"\n", o.stderr)
	}
}
