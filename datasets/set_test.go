package datasets

import (
	"slices"
	"strings"
	"testing"
)

func toySet() *Set {
	return &Set{
		Name: "toy", Classes: 4, ClassNames: []string{"a", "b", "c", "d"},
		PublicN: 100, PerClass: []int{10, 20, 30, 40}, TestIsPublic: true, Note: "made up",
		Train: Split{Shape: [3]int{1, 1, 2}, Features: []uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, Labels: []uint8{3, 1, 255, 0, 3, 2}},
		Test:  Split{Shape: [3]int{1, 1, 2}, Features: []uint8{20, 21, 22, 23}, Labels: []uint8{1, 4}},
	}
}

func TestKeep(t *testing.T) {
	s := toySet()
	k, err := s.Keep([]int{3, 1})
	check(t, err)
	if k.Classes != 2 || k.PublicN != 60 || !slices.Equal(k.PerClass, []int{40, 20}) ||
		!slices.Equal(k.ClassNames, []string{"d", "b"}) || k.Name != "toy" || !k.TestIsPublic || k.Note != s.Note {
		t.Errorf("kept set is described as %+v", *k)
	}
	if !slices.Equal(k.Train.Labels, []uint8{0, 1, 0}) || !slices.Equal(k.Train.Features, []uint8{0, 1, 2, 3, 8, 9}) {
		t.Errorf("training split: labels %v, pixels %v", k.Train.Labels, k.Train.Features)
	}
	if !slices.Equal(k.Test.Labels, []uint8{1}) || !slices.Equal(k.Test.Features, []uint8{20, 21}) {
		t.Errorf("test split: labels %v, pixels %v", k.Test.Labels, k.Test.Features)
	}
	if k.Train.Shape != s.Train.Shape || k.Test.Shape != s.Test.Shape {
		t.Error("the shape changed")
	}
	if !slices.Equal(s.Train.Labels, toySet().Train.Labels) || !slices.Equal(s.PerClass, toySet().PerClass) {
		t.Error("Keep changed the set it was asked on")
	}
}

func TestKeepErrors(t *testing.T) {
	noTable := toySet()
	noTable.PerClass = nil
	for _, c := range []struct {
		set     *Set
		classes []int
		want    string
	}{
		{toySet(), nil, "at least two"},
		{toySet(), []int{2}, "at least two"},
		{toySet(), []int{0, 4}, "no class 4: choose from 0 to 3"},
		{toySet(), []int{-1, 0}, "no class -1"},
		{toySet(), []int{1, 2, 1}, "class 1 of toy is named twice"},
		{noTable, []int{1, 2}, "no published size per class"},
	} {
		if _, err := c.set.Keep(c.classes); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Keep(%v): error %v, want one that says %q", c.classes, err, c.want)
		}
	}
}

// Labels are kept twice, and rows only where they do not lie in files.
func TestBytes(t *testing.T) {
	for _, c := range []struct {
		set  Set
		want int64
	}{
		{Set{Train: Split{Features: make([]uint8, 600), Labels: make([]uint8, 6)}}, 600 + 6*5},
		{Set{Train: Split{Values: make([]float32, 600), Targets: make([]float32, 6)}}, 2400 + 6*4},
		{Set{Train: Split{Values: make([]float32, 600), Labels: make([]uint8, 6), Mapped: true}}, 6 * 5},
		{Set{}, 0},
	} {
		if got := c.set.Bytes(); got != c.want {
			t.Errorf("%d bytes, want %d", got, c.want)
		}
	}
}

func TestPublicName(t *testing.T) {
	for data, want := range map[string]string{
		"fmnist": "fmnist", "": "", "csv:t.csv": "csv:t.csv", "csv:/home/ann/t.csv": "csv:t.csv", "dir:../ann/images/": "dir:images",
		"npz:a/b/../c.npz": "npz:c.npz", "shards:./s": "shards:s",
	} {
		if got := PublicName(data); got != want || PublicName(got) != got {
			t.Errorf("%q is shown as %q, want %q", data, got, want)
		}
	}
}
