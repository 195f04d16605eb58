// Package pack puts a packed form of its program into an ibrun, for nodes that have zstd(1)
// (package build says where it lies). It needs zstd here, too.
package pack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"ibrun/internal/build"
)

// Best is the highest level whose results any zstd unpacks, in 8 MiB of memory (zstd(1), --ultra).
// It takes seconds. Quick takes a tenth of one, and a quarter more bytes.
const (
	Best  = 19
	Quick = 1
)

// ErrNone is that of a machine without zstd: the ibrun is as it was, and nodes are sent all bytes.
var ErrNone = errors.New("no zstd here: apt-get install zstd")

// Into packs the program of the ibrun at a path, which is replaced. The form is kept in a file
// besides, and taken from there if it is this program's; an empty name: it is not kept.
func Into(path, kept string, level int) error {
	program, err := build.Program(path)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("zstd"); err != nil {
		return ErrNone
	}
	packed, err := os.ReadFile(kept)
	if err != nil || !unpacksTo(packed, program) {
		if packed, err = zstd(program, fmt.Sprintf("-%d", level)); err != nil {
			return err
		}
		if kept != "" {
			if err := os.WriteFile(kept, packed, 0o644); err != nil {
				return err
			}
		}
	}
	return build.Pack(path, packed)
}

func unpacksTo(packed, program []byte) bool {
	text, err := zstd(packed, "-d")
	return err == nil && bytes.Equal(text, program)
}

func zstd(text []byte, how string) ([]byte, error) {
	cmd := exec.Command("zstd", "-c", "-q", how)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("zstd %s: %w: %s", how, err, said.Bytes())
	}
	return out, nil
}
