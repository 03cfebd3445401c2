package usage

import (
	"fmt"
	"slices"
	"strings"
)

// Meant asks whether one of the known names was meant by a word that is none of them, in
// parentheses after a blank. It is empty where no name is near.
func Meant(word string, known []string) string {
	near := nearest(word, known)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", strings.Join(near, " or "))
}

// Unknown is the error of a word that is none of those that a setting takes: it says which one
// was meant, where one is near, and lists them all.
func Unknown[S ~string](what string, word S, known []S) error {
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = string(k)
	}
	return Errorf("unknown %s %q%s: choose one of %s", what, string(word), Meant(string(word), names), strings.Join(names, ", "))
}

// mostMeant is how many names one word may stand for.
const mostMeant = 3

// nearest are the names that take the fewest slips to write as the word: at most one in
// three letters, or the rest of a word that was left unfinished.
func nearest(word string, known []string) (names []string) {
	word = strings.ToLower(word)
	least := max(len(word)/3, 1) + 1
	for _, name := range known {
		d := slips(word, strings.ToLower(name))
		if len(word) >= 3 && strings.HasPrefix(name, word) {
			d = 1
		}
		if d < least {
			least, names = d, nil
		}
		if d == least && len(names) < mostMeant && !slices.Contains(names, name) && d <= max(len(word)/3, 1) {
			names = append(names, name)
		}
	}
	return names
}

// slips counts the letters that are missing, too many, wrong, or swapped with the next
// one, at the fewest (optimal string alignment).
func slips(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range row {
		row[j] = j
	}
	for i := range s {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range t {
			wrong := 1
			if s[i] == t[j] {
				wrong = 0
			}
			row[j+1] = min(last[j]+wrong, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(t)]
}
