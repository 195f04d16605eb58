package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCode(t *testing.T) {
	inner := Usagef("option %s: no", "-n")
	require.EqualError(t, inner, "option -n: no")
	require.Equal(t, Usage, Code(inner))
	require.Equal(t, Usage, Code(fmt.Errorf("wrapped: %w", inner)))
	require.Equal(t, NotFound, Code(With(NotFound, fs.ErrNotExist)))
	require.ErrorIs(t, With(NotFound, fs.ErrNotExist), fs.ErrNotExist)
	require.Equal(t, Self, Code(errors.New("without a code")))
}

func TestCause(t *testing.T) {
	_, err := os.Open("/nonexistent")
	require.EqualError(t, Cause(err), "no such file or directory")
	require.EqualError(t, Cause(&fs.PathError{Op: "open", Path: "x", Err: fs.ErrClosed}), fs.ErrClosed.Error())
	require.EqualError(t, Cause(errors.New("as it is")), "as it is")
}
