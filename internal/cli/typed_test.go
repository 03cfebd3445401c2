package cli

import (
	"testing"

	"github.com/privgrad/privgrad/internal/plan"
)

func TestTyped(t *testing.T) {
	c, off, n := plan.Default(), false, 5000
	c.Data, c.Classes, c.ClassNames, c.PublicN, c.TestIsPublic = "dir:my photos", []int{3, 5}, []string{"cat", "old dog"}, &n, true
	c.Search = &plan.Search{Correct: &off}
	want := " --data 'dir:my photos' --classes 3,5 --class-names 'cat,old dog' --public-n 5000 --test-is-public --search-correct=false"
	if got := Typed(&c, func(s plan.Setting) bool { return s.Group.Title == "Data" || s.Key == "search.correct" }); got != want {
		t.Errorf("typed%s\nwant %s", got, want)
	}
	if got := Typed(&c, func(s plan.Setting) bool { return s.Key == "epochs" }); got != "" {
		t.Errorf("a default is typed: %s", got)
	}
}
