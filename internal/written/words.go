package written

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Words say which names that are listed, such as categories, a file has, and what it has in their place. They are as private as the
// records, and only their owner is shown any.
type Words struct {
	names  []string // of those listed
	index  map[string]int
	used   []bool
	others map[string]int // values that are none of them
}

const (
	mostWords   = 10000 // different values are counted
	longestWord = 1000  // bytes of one: a longer one is no name
	mostNamed   = 5     // are named at most
	mostShown   = 40    // characters
)

// CountWords begins to count. index has the places of names, in every spelling.
func CountWords(names []string, index map[string]int) Words {
	return Words{names, index, make([]bool, len(names)), map[string]int{}}
}

// Look counts a value, if anything is to be counted.
func (w *Words) Look(value string) {
	k, ok := w.index[value]
	switch {
	case w.others == nil:
	case ok:
		w.used[k] = true
	case len(value) <= longestWord && (len(w.others) < mostWords || w.others[value] > 0):
		w.others[value]++
	}
}

// String names the most frequent value that is not listed. It is empty if there is none.
func (w Words) String() string {
	others := w.byCount()
	if others == nil {
		return ""
	}
	said := []string{"most often " + Shown(others[0])}
	if unused := w.unused(); unused != nil {
		said = append(said, "no record has "+And(unused))
	}
	if hint, _ := w.Hint(); hint != "" {
		said = append(said, hint)
	}
	return strings.Join(said, "; ")
}

// byCount are the values that are not listed, the most frequent one first.
func (w *Words) byCount() []string {
	return slices.SortedFunc(maps.Keys(w.others), func(a, b string) int {
		return cmp.Or(cmp.Compare(w.others[b], w.others[a]), cmp.Compare(a, b))
	})
}

// unused names what is listed and stands in no record.
func (w *Words) unused() (all []string) {
	for k, name := range w.names {
		if !w.used[k] {
			all = append(all, Shown(name))
		}
	}
	if n := len(all); n > mostNamed {
		all = append(all[:mostNamed], fmt.Sprintf("%d more", n-mostNamed))
	}
	return all
}

// Shown is a value in quotes, cut where it is long.
func Shown(value string) string {
	if r := []rune(value); len(r) > mostShown {
		value = string(r[:mostShown]) + "…"
	}
	return fmt.Sprintf("%q", value)
}

// NotUTF8 says what to do with a file in another encoding.
const NotUTF8 = "the file is not UTF-8: convert it, by iconv -f latin1 -t utf-8"

// Hint says why values are not listed, where they tell. The list is broken for sure if what it should have named
// differently stands in no record.
func (w *Words) Hint() (hint string, broken bool) {
	for i, value := range w.byCount() {
		if !utf8.ValidString(value) {
			return NotUTF8, i == 0 && w.unused() != nil
		}
		parts, found, unused := strings.Split(value, ","), 0, 0
		for _, part := range parts {
			if k, ok := w.index[strings.TrimSpace(part)]; ok {
				found++
				if !w.used[k] {
					unused++
				}
			}
		}
		if n := len(parts); n > 1 && found == n {
			return fmt.Sprintf("write quotes around a name with a comma: %s", Shown(value)), unused == n
		}
	}
	return "", false
}

// And joins words of a sentence.
func And(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
