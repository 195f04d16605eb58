package ibrun_test

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// maxWords is what the average sentence of a document stays below, in words.
const maxWords = 25

var (
	codeSpan = regexp.MustCompile("`[^`]*`")
	target   = regexp.MustCompile(`\]\([^)]*\)`) // of a link, whose text counts
	address  = regexp.MustCompile(`<?https?://[^\s)>]+>?`)
	bullet   = regexp.MustCompile(`^\s*([-*]|\d+\.)\s+`)
	tail     = regexp.MustCompile(`[.!?]["')*_]*$`)
	// shortened are words whose full stop ends no sentence.
	shortened = regexp.MustCompile(`^\(?(e\.g|i\.e|etc|vs|cf|No|ca)\.$`)
)

// prose returns the paragraphs and list items of a document: without tables, code, headings and
// pictures, and with one word for each code span.
func prose(text string) (paragraphs []string) {
	var lines []string
	end := func() {
		if len(lines) > 0 {
			bare := codeSpan.ReplaceAllString(strings.Join(lines, " "), "code")
			bare = address.ReplaceAllString(target.ReplaceAllString(bare, ""), "")
			paragraphs = append(paragraphs, bare)
		}
		lines = nil
	}
	fenced := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		bare := strings.TrimSpace(line)
		fence := strings.HasPrefix(bare, "```")
		if fence {
			fenced = !fenced
		}
		switch {
		case fence, fenced, bare == "", strings.HasPrefix(bare, "|"), strings.HasPrefix(bare, "#"),
			strings.HasPrefix(bare, "!["), strings.HasPrefix(bare, "<"):
			end()
		case strings.HasPrefix(line, "    ") && lines == nil: // code; within a paragraph it goes on
		case bullet.MatchString(line):
			end()
			lines = append(lines, bullet.ReplaceAllString(line, ""))
		default:
			lines = append(lines, bare)
		}
	}
	end()
	return paragraphs
}

// sentences cuts a paragraph, and returns the words of each.
func sentences(paragraph string) (counts []int) {
	words := 0
	for _, word := range strings.Fields(paragraph) {
		if strings.IndexFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) < 0 {
			continue // a dash, an arrow
		}
		words++
		if tail.MatchString(word) && !shortened.MatchString(word) {
			counts, words = append(counts, words), 0
		}
	}
	if words > 0 {
		counts = append(counts, words)
	}
	return counts
}

// average returns the words of a document's average sentence, 0 if it has none.
func average(text string) float64 {
	words, count := 0, 0
	for _, paragraph := range prose(text) {
		for _, n := range sentences(paragraph) {
			words, count = words+n, count+1
		}
	}
	return float64(words) / float64(max(count, 1))
}

// checkSentences holds documents against maxWords.
func checkSentences(files []source) (faults []string) {
	for _, f := range files {
		if n := average(f.text); n >= maxWords {
			faults = append(faults, fmt.Sprintf("%s: %.1f words in the average sentence, fewer than %d are allowed",
				f.path, n, maxWords))
		}
	}
	return faults
}

// TestPolicySentences: README.md and everything below docs; with -v each average.
func TestPolicySentences(t *testing.T) {
	var files []source
	for _, f := range documents(t) {
		if f.path == "README.md" || strings.HasPrefix(path.Dir(f.path), "docs") {
			t.Logf("%5.1f %s", average(f.text), f.path)
			files = append(files, f)
		}
	}
	require.Empty(t, strings.Join(checkSentences(files), "\n"))
}

// TestPolicySentencesFails shows the rule failing, and what it leaves out.
func TestPolicySentencesFails(t *testing.T) {
	long := strings.Repeat("word ", 24) + "end"
	require.Equal(t, []string{"a.md: 25.0 words in the average sentence, fewer than 25 are allowed"},
		checkSentences([]source{{"a.md", "# a\n\n" + long + ".\n"}}))
	for name, c := range map[string]struct {
		text string
		want float64
	}{
		"empty":         {"# a\n", 0},
		"long":          {long + ".\n", 25},
		"without end":   {long + "\n", 25},
		"wrapped":       {"one two\nthree. Four\nfive six!\n", 3},
		"semicolon":     {"one; two: three, four.\n", 4}, // is one sentence
		"paragraphs":    {"one two\n\nthree four\n", 2},
		"items":         {"- one two\n- three\n  four\n1. five six\n", 2},
		"heading":       {"## one two three\none\n", 1},
		"table":         {"one\n\n| " + long + " |\n| a |\n", 1},
		"code":          {"one\n\n    " + long + "\n    b c\n", 1},
		"fence":         {"one\n```\n" + long + "\n\nb c\n```\n", 1},
		"picture":       {"![" + long + "](a.svg)\none\n", 1},
		"span":          {"one `a b. C d\ne f` three\n", 3},
		"link":          {"one [two three](a b c d.md) four\n", 4},
		"address":       {"one https://a.b/c?d <https://a.b> two\n", 2},
		"numbers":       {"one 2.5 3,000 four.\n", 4},
		"signs":         {"one - two .. three … four\n", 4},
		"abbreviations": {"one (e.g. two) i.e. three etc. four\n", 7},
		"quotes":        {"one \"two.\" (Three four.) **Five six.** seven eight?\n", 2},
	} {
		t.Run(name, func(t *testing.T) { require.InDelta(t, c.want, average(c.text), 0.001) })
	}
}
