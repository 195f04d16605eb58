package proc

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ForgetText lets go of this program's own code and constants: what starting
// needed and nothing needs again does not stay resident. What is used comes back
// from the page cache, 64 KiB or more at a time.
func ForgetText() {
	if debugged.Load() {
		return // breakpoints are in pages that would be read from the file again
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		// proc_pid_maps(5): address perms offset dev inode pathname, which may have spaces
		words := strings.Fields(lines.Text())
		if len(words) < 6 || !strings.HasSuffix(lines.Text(), " "+exe) || words[1][1] == 'w' {
			continue
		}
		lo, hi, _ := strings.Cut(words[0], "-")
		from, err1 := strconv.ParseUint(lo, 16, 64)
		to, err2 := strconv.ParseUint(hi, 16, 64)
		if err1 == nil && err2 == nil {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_DONTNEED)
		}
	}
}
