// Package cpuset is sets of small numbers, such as CPUs or NUMA nodes, in the
// forms that the kernel writes. It knows nothing of what they number.
package cpuset

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Max is the number above all that a set may hold: more than the kernel's
// CONFIG_NR_CPUS has ever been.
const Max = 1 << 16

// Set is a set of numbers from 0 to Max-1. The zero value is empty. Add changes
// the set it is called on; all other methods leave it alone and share nothing
// with what they return.
type Set struct{ words []uint64 }

// Of makes a set of some numbers.
func Of(numbers ...int) Set {
	var s Set
	for _, n := range numbers {
		s.Add(n)
	}
	return s
}

// Span makes the set of lo to hi, both included.
func Span(lo, hi int) Set {
	var s Set
	s.fill(lo, hi)
	return s
}

// Add puts a number in. It panics unless 0 <= n < Max.
func (s *Set) Add(n int) {
	if n < 0 || n >= Max {
		panic(fmt.Sprintf("cpuset: %d is out of range", n))
	}
	for n/64 >= len(s.words) {
		s.words = append(s.words, 0)
	}
	s.words[n/64] |= 1 << (n % 64)
}

// fill puts lo to hi in, a word at a time: a short list may name the whole range
// many times.
func (s *Set) fill(lo, hi int) {
	if lo > hi {
		return
	}
	s.Add(lo)
	s.Add(hi)
	for n := lo; n <= hi; n = n/64*64 + 64 {
		word := ^uint64(0) << (n % 64)
		if last := hi - n/64*64; last < 63 {
			word &= 1<<(last+1) - 1
		}
		s.words[n/64] |= word
	}
}

// Has reports whether n is in the set; any n may be asked for.
func (s Set) Has(n int) bool {
	return n >= 0 && n/64 < len(s.words) && s.words[n/64]>>(n%64)&1 == 1
}

// Len is how many numbers there are.
func (s Set) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Empty reports whether there are none.
func (s Set) Empty() bool { return s.First() < 0 }

// First is the lowest number, or -1.
func (s Set) First() int {
	for i, w := range s.words {
		if w != 0 {
			return 64*i + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// Last is the highest number, or -1.
func (s Set) Last() int {
	for i := len(s.words) - 1; i >= 0; i-- {
		if w := s.words[i]; w != 0 {
			return 64*i + 63 - bits.LeadingZeros64(w)
		}
	}
	return -1
}

// All yields the numbers in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(64*i + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// combine works word by word; what is missing of either is 0.
func combine(a, b Set, f func(x, y uint64) uint64) Set {
	r := Set{make([]uint64, max(len(a.words), len(b.words)))}
	for i := range r.words {
		var x, y uint64
		if i < len(a.words) {
			x = a.words[i]
		}
		if i < len(b.words) {
			y = b.words[i]
		}
		r.words[i] = f(x, y)
	}
	return r
}

// And is what both have.
func (s Set) And(o Set) Set { return combine(s, o, func(x, y uint64) uint64 { return x & y }) }

// Or is what either has.
func (s Set) Or(o Set) Set { return combine(s, o, func(x, y uint64) uint64 { return x | y }) }

// Without is what s has and o has not.
func (s Set) Without(o Set) Set { return combine(s, o, func(x, y uint64) uint64 { return x &^ y }) }

// Equal reports whether both have the same numbers.
func (s Set) Equal(o Set) bool { return s.Without(o).Empty() && o.Without(s).Empty() }

// In reports whether o has all of s.
func (s Set) In(o Set) bool { return s.Without(o).Empty() }

// Meets reports whether there is a number that both have.
func (s Set) Meets(o Set) bool { return !s.And(o).Empty() }

// String is the kernel's list form: 0-3,8, and the empty string for none.
func (s Set) String() string {
	var ranges []string
	for n := range s.All() {
		if s.Has(n - 1) {
			continue // part of the previous range
		}
		last := n
		for s.Has(last + 1) {
			last++
		}
		text := strconv.Itoa(n)
		if last > n {
			text += "-" + strconv.Itoa(last)
		}
		ranges = append(ranges, text)
	}
	return strings.Join(ranges, ",")
}

// MarshalText returns the list form, as String does. It never fails.
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Words is the set as the kernel's system calls want it, the lowest 64 numbers
// first.
func (s Set) Words() []uint64 { return slices.Clone(s.words) }

// ParseList reads the kernel's list form: numbers and ranges with commas
// between them, with white space around it or none of it at all.
func ParseList(text string) (Set, error) {
	var s Set
	text = strings.TrimSpace(text)
	if text == "" {
		return s, nil
	}
	for _, part := range strings.Split(text, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		a, err := strconv.ParseUint(lo, 10, 32)
		b, err2 := strconv.ParseUint(hi, 10, 32)
		if err != nil || err2 != nil || a > b || b >= Max {
			return Set{}, fmt.Errorf("%.40q is not a list of numbers like 0-3,8", text)
		}
		s.fill(int(a), int(b))
	}
	return s, nil
}

// ParseMask reads the kernel's mask form: hexadecimal words of 32 bits, the
// highest first, with commas between them. A single word may be longer and may
// have 0x before it.
func ParseMask(text string) (Set, error) {
	fail := fmt.Errorf("%.40q is not a mask like ff or 00000001,80000000", text)
	digits := strings.TrimPrefix(strings.TrimSpace(text), "0x")
	if words := strings.Split(digits, ","); len(words) > 1 {
		for i, w := range words {
			if len(w) > 8 || w == "" {
				return Set{}, fail
			}
			words[i] = strings.Repeat("0", 8-len(w)) + w
		}
		digits = strings.Join(words, "")
	}
	if digits == "" || len(digits) > Max/4 {
		return Set{}, fail
	}
	var s Set
	for i := range len(digits) {
		d, err := strconv.ParseUint(digits[len(digits)-1-i:len(digits)-i], 16, 8)
		if err != nil {
			return Set{}, fail
		}
		for bit := range 4 {
			if d>>bit&1 == 1 {
				s.Add(4*i + bit)
			}
		}
	}
	return s, nil
}
