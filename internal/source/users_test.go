package source

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/config"
)

// Whose a record is stands in its line, or behind its name. Other lines are no error.
func TestNameUsers(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		names []string
		want  []string
	}{
		"in order":       {"ann\n bob \n\nann", nil, []string{"ann", "bob", "", "ann"}},
		"too short":      {"ann\r\nbob", nil, []string{"ann", "bob", "", ""}},
		"too long":       {"1\n2\n3\n4\n5\n6\n", nil, []string{"1", "2", "3", "4"}},
		"empty":          {"", nil, []string{"", "", "", ""}},
		"byte order":     {"\ufeffann\n", nil, []string{"ann", "", "", ""}},
		"no text":        {"\xff\xfe\n\x00\n", nil, []string{"\xff\xfe", "\x00", "", ""}},
		"by name":        {"cat/2.png,ann\n\"dog/a, b.png\",bob\nbird/1.png,eve\ncat/1.png\n", []string{"cat/1.png", "cat/2.png", "dog/1.png", "dog/a, b.png"}, []string{"", "ann", "", "bob"}},
		"twice":          {"cat/1.png,ann\ncat/1.png,bob\n", []string{"cat/1.png", "b", "c", "d"}, []string{"bob", "", "", ""}},
		"names and none": {"ann\nbob\n", []string{"a", "b", "c", "d"}, []string{"", "", "", ""}},
	} {
		path := filepath.Join(t.TempDir(), "users.txt")
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		set := &datasets.Set{Train: datasets.Split{Labels: make([]uint8, 4), Names: c.names}}
		named, err := nameUsers(set, path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := named.Train.Users; !slices.Equal(got, c.want) || set.Train.Users != nil {
			t.Errorf("%s: the users are %q, want %q", name, got, c.want)
		}
	}
}

// A source of a program's own says whose its records are when they are opened. Its facts need not.
func TestUsersOfFacts(t *testing.T) {
	facts := func() *datasets.Set {
		return &datasets.Set{Name: "own", Classes: 2, Train: datasets.Split{Shape: [3]int{1, 1, 1}, Unit: true}}
	}
	own := map[string]Source{"own": {Open: func(string) (*datasets.Set, error) { return facts(), nil }, Facts: facts}}
	c := config.Default()
	c.Data, c.Unit, c.RecordsPerUser = "own", config.OfSource, 3
	set, _, err := Open(&c, own, true, datasets.Rank{})
	if err != nil || set.Train.UnitRows != 3 {
		t.Errorf("facts without a record: %v", err)
	}
	if _, _, err := Open(&c, own, false, datasets.Rank{}); err == nil {
		t.Error("records that are nobody's are users")
	}
}
