package cpuset

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestForms(t *testing.T) {
	for _, c := range []struct {
		list, mask string
		numbers    []int
	}{
		{"", "0", nil},
		{"0", "1", []int{0}},
		{"0-3,8", "0000010f", []int{0, 1, 2, 3, 8}},
		{"31-32", "00000001,80000000", []int{31, 32}},
		{"63-64,127", "80000000,00000001,80000000,00000000", []int{63, 64, 127}},
	} {
		s, err := ParseList(c.list + "\n")
		require.NoError(t, err)
		m, err := ParseMask(c.mask + "\n")
		require.NoError(t, err)
		require.True(t, s.Equal(m), "%s is not %s", s, m)
		require.True(t, s.Equal(Of(c.numbers...)))
		require.Equal(t, c.list, m.String())
		require.Equal(t, c.numbers, slices.Collect(s.All()))
		require.Equal(t, len(c.numbers), s.Len())
		require.Equal(t, len(c.numbers) == 0, s.Empty())
	}
	s, err := ParseMask("0xfedcba98765432100")
	require.NoError(t, err)
	require.Equal(t, 67, s.Last())
}

func TestBadForms(t *testing.T) {
	for _, list := range []string{"a", "1-", "-1", "3-1", "1,,2", "1 2", "65536", "0-4294967296", ","} {
		_, err := ParseList(list)
		require.Error(t, err, list)
	}
	for _, mask := range []string{"", "0x", "g", "1,,2", "123456789,0", "1,-1", strings.Repeat("f", Max)} {
		_, err := ParseMask(mask)
		require.Error(t, err, mask)
	}
	require.Panics(t, func() { Of(-1) })
	require.Panics(t, func() { Of(Max) })
}

func TestAlgebra(t *testing.T) {
	a, b := Span(0, 99), Span(50, 149)
	require.Equal(t, "50-99", a.And(b).String())
	require.Equal(t, "0-149", a.Or(b).String())
	require.Equal(t, "0-49", a.Without(b).String())
	require.Equal(t, []int{0, 99}, []int{a.First(), a.Last()})
	require.Equal(t, []int{-1, -1}, []int{Set{}.First(), Set{}.Last()})
	require.True(t, Of(60).In(a) && !b.In(a) && a.Meets(b) && !Of(1).Meets(b))
	require.False(t, a.Has(-1) || a.Has(100) || a.Has(1<<40))
	require.True(t, a.And(Span(200, 300)).Equal(Set{}), "words of nothing are nothing")
}

func FuzzParse(f *testing.F) {
	f.Add("0-3,8")
	f.Add("00000001,80000000")
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) (Set, error){ParseList, ParseMask} {
			s, err := parse(text)
			if err != nil {
				continue
			}
			again, err := ParseList(s.String())
			require.NoError(t, err)
			require.True(t, s.Equal(again))
		}
	})
}

func TestSpan(t *testing.T) {
	for lo := range 140 {
		for hi := range 140 {
			var one Set
			for n := lo; n <= hi; n++ {
				one.Add(n)
			}
			require.Equal(t, one.String(), Span(lo, hi).String(), "%d to %d", lo, hi)
		}
	}
}
