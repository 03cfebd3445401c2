package usage

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestMeant(t *testing.T) {
	known := []string{"dp-sgd", "dp-adam", "dp-blsgd", "dp-blsgd-ac", "train", "trained", "epsilon", "lr"}
	for word, want := range map[string]string{
		"dp-sdg":   " (did you mean dp-sgd?)", // two letters swapped are one slip
		"DP-ADAM":  " (did you mean dp-adam?)",
		"trian":    " (did you mean train?)",
		"epsi":     " (did you mean epsilon?)", // unfinished
		"epsilonn": " (did you mean epsilon?)",
		"dp-blsg":  " (did you mean dp-blsgd or dp-blsgd-ac?)",
		"l":        " (did you mean lr?)",
		"momentum": "",
		"":         "",
		"xyz":      "",
	} {
		if got := Meant(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

func TestUnknown(t *testing.T) {
	for word, want := range map[string]string{
		"pdl": `unknown accountant "pdl" (did you mean pld?): choose one of pld, rdp`,
		"xyz": `unknown accountant "xyz": choose one of pld, rdp`,
	} {
		if got := Unknown("accountant", word, []string{"pld", "rdp"}).Error(); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

func TestCause(t *testing.T) {
	_, err := os.Open("nowhere/at/all")
	if got := Cause(fmt.Errorf("model: %w", err)).Error(); strings.Contains(got, "open") || strings.Contains(got, "nowhere") {
		t.Errorf("the cause is %q", got)
	}
	if err := errors.New("other"); Cause(err) != err {
		t.Error("an error that is of no file changes")
	}
}

func TestSlips(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"ca", "abc", 3}, {"größe", "grösse", 2}} {
		if got := slips(c.a, c.b); got != c.want || slips(c.b, c.a) != c.want {
			t.Errorf("%q and %q are %d slips apart, want %d", c.a, c.b, got, c.want)
		}
	}
}
