package spawn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
)

// What a dead rank has said is heard, however late the agent comes to it and
// whoever else holds the rank's end open.
func TestLastWords(t *testing.T) {
	const count = 2000 // more than the reader takes in at a time
	late, said := make(chan struct{}), 0
	d := newDoor(3, func(ev Event) {
		require.IsType(t, Said{}, ev)
		if said++; said == 1 {
			<-late
		}
	})
	theirs, err := d.open()
	require.NoError(t, err)
	defer theirs.Close()
	d.serve()
	var words []byte
	for range count {
		words = wire.Append(words, wire.Finalize{})
	}
	_, err = theirs.Write(words)
	require.NoError(t, err)
	time.AfterFunc(3*lastWords, func() { close(late) })
	d.drain()
	d.close()
	require.Equal(t, count, said)
}

// Somebody who never stops talking is not listened to for ever.
func TestEndlessWords(t *testing.T) {
	d := newDoor(3, func(Event) {})
	theirs, err := d.open()
	require.NoError(t, err)
	d.serve()
	over := make(chan struct{})
	go func() {
		defer close(over)
		words := wire.Append(nil, wire.Finalize{})
		for err == nil {
			_, err = theirs.Write(words)
		}
	}()
	d.drain()
	d.close()
	<-over
	theirs.Close()
}
