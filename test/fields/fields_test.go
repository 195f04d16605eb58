package fields

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

type part struct {
	Name string
	Flag bool
}

type whole struct {
	Number uint32
	Parts  []part
	Pair   [2]uint8
	Of     *part
	hidden part
	Packed packed
}

type packed string // a part's name

func view(v any) any {
	if p, ok := v.(packed); ok {
		return part{Name: string(p), Flag: true}
	}
	return nil
}

func TestZero(t *testing.T) {
	samples := []any{
		whole{Number: 1, Parts: []part{{Name: "a"}}, Pair: [2]uint8{0, 1}},
		whole{Of: &part{Flag: true}, hidden: part{Name: "b"}, Packed: "c"},
	}
	want := []string{"whole.Of.Name", "whole.Pair[0]", "whole.Parts[].Flag", "whole.hidden.Flag"}
	require.Equal(t, want, Zero(view, samples...))
	require.Equal(t, []string{"whole.Packed.Name"}, Zero(view, whole{
		Number: 1, Parts: []part{{"a", true}}, Pair: [2]uint8{1, 1}, Of: &part{"b", true}, hidden: part{"c", true},
	}))
}

func TestWithout(t *testing.T) {
	full := whole{
		Number: 1, Parts: []part{{"a", true}, {"b", false}}, Pair: [2]uint8{3, 4},
		Of: &part{"c", true}, hidden: part{"d", true},
	}
	var paths []string
	for path, changed := range Without(full) {
		paths = append(paths, path)
		require.NotEqual(t, full, changed, path)
		require.Equal(t, part{"d", true}, changed.(whole).hidden)
	}
	require.Equal(t, []string{
		"whole.Number", "whole.Parts[0].Name", "whole.Parts[0].Flag", "whole.Parts[1].Name",
		"whole.Pair[0]", "whole.Pair[1]", "whole.Of.Name", "whole.Of.Flag",
	}, paths)
	require.Equal(t, []part{{"a", true}, {"b", false}}, full.Parts, "the sample itself stays")
	require.Equal(t, part{"c", true}, *full.Of)
	for path := range Without(full) {
		require.Equal(t, paths[0], path)
		break
	}
	require.NotContains(t, slices.Collect(func(yield func(string) bool) {
		for path := range Without(whole{Parts: []part{}}) {
			yield(path)
		}
	}), "whole.Parts[0].Name")
}
