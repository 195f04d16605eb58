package spawn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
)

// FuzzControl is a rank that writes anything to its descriptor: what is posted are
// frames that a rank may send, or words of PMI, and at most one warning.
func FuzzControl(f *testing.F) {
	f.Add(frame.Append(frame.Append(nil, rankwire.Hello{}), rankwire.Put{Key: "k", Value: []byte("v")}))
	f.Add(frame.Append(nil, rankwire.Collect{Op: 1, Parcels: rankwire.NewParcels(rankwire.Parcel{From: 1, To: 2})}))
	f.Add(frame.Append(nil, wire.Signal{Number: 9})) // which is not a rank's to send
	f.Add([]byte("cmd=init pmi_version=1 pmi_subversion=1\n"))
	f.Add([]byte{3, 0xff, 0xff, 0xff, byte(rankwire.KindCollect)})
	f.Fuzz(func(t *testing.T, said []byte) {
		if len(said) > 64<<10 {
			return // more than a socket holds
		}
		var posted []Event
		d := newControl(7, recorder(func(ev Event) { posted = append(posted, ev) }))
		theirs, err := d.open()
		require.NoError(t, err)
		_, err = theirs.Write(said)
		require.NoError(t, err)
		theirs.Close()
		d.serve(d.read)
		d.drain()
		d.close()
		words, warnings := 0, 0
		for _, ev := range posted {
			switch ev := ev.(type) {
			case core.RankFrame:
				require.True(t, rankwire.Vocabulary.Allows(ev.Msg.Kind(), frame.Rank), "%v", ev.Msg)
			case PMIBytes:
				words += len(ev.Words)
			case Warning:
				warnings++
			}
		}
		require.LessOrEqual(t, words, len(said))
		require.LessOrEqual(t, warnings, 1)
	})
}
