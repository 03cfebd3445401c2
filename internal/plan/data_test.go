package plan

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/usage"
)

// A table in the form of a published one is that one by word, not by its records.
func TestPublishedTableByWord(t *testing.T) {
	t.Chdir(t.TempDir())
	lines := []string{"5.1,3.5,1.4,0.2,0", "7.0,3.2,4.7,1.4,1", "6.3,3.3,6.0,2.5,2"}
	for _, rows := range []int{0, 1, 3} {
		text := strings.Join(append([]string{"150,4,setosa,versicolor,virginica"}, lines[:rows]...), "\n")
		check(t, os.WriteFile("iris.csv", []byte(text), 0o644))
		c := Default()
		c.Data, c.NoiseMultiplier, c.Steps = TablePrefix+"iris.csv", ptr(1.0), ptr(1)
		if _, err := Resolve(c, Options{}); err == nil || !strings.Contains(err.Error(), "--published-set") {
			t.Errorf("%d records: %v", rows, err)
		}
		c.PublishedSet = true
		p, err := Resolve(c, Options{})
		check(t, err)
		if p.PublicN != 120 || !p.Set.TestIsPublic || *p.Config.Delta != defaultDelta { // a fifth of 150 is held out
			t.Errorf("%d records: N = %d, test records are public: %v", rows, p.PublicN, p.Set.TestIsPublic)
		}
	}
}

// What is built in needs no word, and takes none for other files.
func TestBuiltInTakesNoDeclaration(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"data-dir mine": func(c *Config) { c.DataDir = "mine" },
		"leave out --published-set and --test-is-public":  func(c *Config) { c.PublishedSet = true },
		"built in, and known to be the published one: le": func(c *Config) { c.TestIsPublic = true },
	} {
		c := small()
		change(&c)
		if _, err := Resolve(c, Options{Sources: sources(made(1, 400))}); !errors.As(err, new(*usage.Error)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A table's path is whole: a directory beside it would be ignored.
func TestTableTakesNoDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "")
	c := tableConfig()
	c.DataDir = "mine"
	if _, err := Resolve(c, Options{}); !errors.As(err, new(*usage.Error)) || !strings.Contains(err.Error(), "data-dir mine") {
		t.Error(err)
	}
}
