package alloc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/topo/bind"
)

func TestFile(t *testing.T) {
	got,
		err := RankFile("f",
		[]byte("# all\nrank 1=b slot=1:0-2\r\n\nrank 0 = a slots = 0:0,1 # x\nrank 2=+n3 slot=2-4\nrank 3=a "+
			"slot=0:*;1:2\n"))
	require.NoError(t, err)
	require.Equal(t, []RankPlace{
		{Host: "a", Slots: "0:0,1"}, {Host: "b", Slots: "1:0-2"}, {Index: 3, Slots: "2-4"},
		{Host: "a", Slots: "0:*;1:2"},
	}, got)
	for text, why := range map[string]string{
		"":                                   "f: no rank in it",
		"rank 1=a slot=0":                    "f: rank 0 is missing, and there is a rank 1",
		"rank 0=a slot=0\nrank 0=b slot=0":   "f:2: rank 0 has two lines",
		"rank 0=a":                           "invalid line",
		"rank 0=a slot":                      "invalid line",
		"rank 0= slot=0":                     "invalid line",
		"rang 0=a slot=0":                    "invalid line",
		"rank x=a slot=0":                    "invalid rank",
		"rank -1=a slot=0":                   "invalid rank",
		"rank 99999999=a slot=0":             "invalid rank",
		"rank 0=a slot=":                     "invalid core",
		"rank 0=a slot=p0":                   "invalid core",
		"rank 0=a slot=0:":                   "invalid core",
		"rank 0=a slot=2-1":                  "is not a range of cores",
		"rank 0=a slot=0:1:2":                "invalid core",
		"rank 0=a slot=+1":                   "invalid core",
		"rank 0=+nx slot=1":                  "no such host",
		"rank 0=a slot=99999999999999999999": "invalid core",
	} {
		_, err := RankFile("f", []byte(text))
		require.ErrorContains(t, err, why, text)
	}
}

// What parses has every rank once, and slots that parse.
func FuzzFile(f *testing.F) {
	for _, s := range []string{"rank 0=a slot=0:1\n", "rank 1=+n0 slot=*\nrank 0=b slot=1-2,5;0:3", "# x\n", "rank"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := RankFile("f", b)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.NotEmpty(t, all)
		for _, e := range all {
			slots, err := bind.ParseSlots(e.Slots)
			require.NoError(t, err)
			require.NotEmpty(t, slots)
		}
	})
}
