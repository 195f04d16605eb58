package spawn

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// What the kernel did not execute is looked at to say why, and to find out whether a
// shell may run it, as execvp would: a text. A program of another machine, or a part
// of one, is no text: a shell would run what looks like words in it.

// mostHead is how much of a file decides what it is.
const mostHead = 512

// refusal returns the exit code of a rank whose file the kernel has not executed because of err, and the reason why the
// file cannot be run. The reason is nil if a shell is to run the file. If interpreted is false, path is the interpreter
// of a script, and refusal does not look for an interpreter of it.
func refusal(path string, err error, interpreted bool) (code uint8, why error) {
	head, info, fail := beginning(path, mostHead)
	switch {
	case errors.Is(fail, fs.ErrNotExist):
		return 127, fmt.Errorf("%s: no such file", path)
	case fail != nil:
		return 126, err // that one is the kernel's
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOEXEC):
	default:
		return 126, err
	}
	interpreter, script := interpreterOf(head)
	switch {
	case script && interpreted:
		_, why := refusal(interpreter, err, false)
		if why == nil {
			why = fmt.Errorf("%s: %w", interpreter, err)
		}
		return 126, fmt.Errorf("%s: its interpreter %w", path, why)
	case len(head) == 0:
		return 126, fmt.Errorf("%s: is empty", path)
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return 126, fmt.Errorf("%s: %s", path, wrong(path, head, info.Size(), err))
	case errors.Is(err, syscall.ENOEXEC) && !script && bytes.IndexByte(head, 0) < 0:
		return 0, nil
	}
	return 126, fmt.Errorf("%s: not a program: neither ELF nor a script", path)
}

// beginning is what a file begins with, and what it is.
func beginning(path string, most int) (head []byte, info fs.FileInfo, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	head = make([]byte, most)
	n, err := io.ReadFull(f, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return head[:n], info, err
}

// interpreterOf is what a script begins with: "#!/bin/sh -e".
func interpreterOf(head []byte) (path string, script bool) {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	words, script := bytes.CutPrefix(line, []byte("#!"))
	if fields := bytes.Fields(words); len(fields) > 0 {
		path = string(fields[0])
	}
	return path, script
}

// wrong says what is wrong with an ELF file.
func wrong(path string, head []byte, size int64, err error) string {
	if len(head) < elfHeaderSize {
		return fmt.Sprintf("is truncated: it ends after %d of %d bytes or more", size, elfHeaderSize)
	}
	if want := requiredSize(path); size < want {
		return fmt.Sprintf("is truncated: it ends after %d of %d bytes", size, want)
	}
	own, _, fail := beginning("/proc/self/exe", mostHead)
	if its, ours := platformOf(head), platformOf(own); fail == nil && its != ours {
		return fmt.Sprintf("wrong architecture: it is for %v, and this node is %v", its, ours)
	}
	if loader := loaderOf(path); errors.Is(err, fs.ErrNotExist) && loader != "" {
		return fmt.Sprintf("its loader %s: no such file", loader)
	}
	return "no program of this system: " + err.Error()
}
