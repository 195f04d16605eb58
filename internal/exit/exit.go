// Package exit holds the exit codes of ibrun's own and the errors that carry them from where
// something fails to main. It neither prints nor ends the process. docs/cli.md has the whole rule.
package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Codes of ibrun's own.
const (
	Usage         = 2   // the command line cannot be obeyed
	Self          = 125 // ibrun or a node failed
	NotExecutable = 126 // the program was found and cannot be executed
	NotFound      = 127 // the program was not found
)

// Error ends ibrun with a code.
type Error struct {
	Code int
	Err  error
}

func (e Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e Error) Unwrap() error { return e.Err }

// With gives an error a code.
func With(code int, err error) error { return Error{code, err} }

// Usagef is an error about the command line.
func Usagef(format string, args ...any) error { return Error{Usage, fmt.Errorf(format, args...)} }

// Code is the exit code for an error: Self if it carries none.
func Code(err error) int {
	if e, ok := errors.AsType[Error](err); ok {
		return e.Code
	}
	return Self
}

// Cause is an error without the path and the call, which its reader knows.
func Cause(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
