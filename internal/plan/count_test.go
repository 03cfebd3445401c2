package plan

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/source"
)

// The error of a small count says what the user gave, and that it may be too large.
func TestFewNamesWhatWasGiven(t *testing.T) {
	t.Chdir(t.TempDir())
	for schema, want := range map[string]string{
		"test_share: 0.2\n": "gave 100, and --public-n is 2000 (1600 of them to train on): most are missing, or have labels that are no class, or --public-n is far too large; so",
		"":                  "gave 100, and --public-n is 2000: most are missing, or have labels that are no class, or --public-n is far too large; so",
	} {
		makeTable(t, schema)
		c := tableConfig()
		p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		check(t, err)
		if err := p.Few(100); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if err := p.Few(float64(p.PublicN) / fewShare); err != nil {
			t.Error(err)
		}
	}
	// A program's own source may say how many there are.
	birds := images("birds", grey)
	set, err := birds["birds"].Open("")
	check(t, err)
	set.PublicN = 5000
	c := config.Default()
	c.Data, c.Threads, c.Model, c.NoiseMultiplier, c.Steps = "birds", 1, "logistic", ptr(1.0), ptr(5)
	p, err := Resolve(c, Options{Sources: map[string]source.Source{"birds": {Open: birds["birds"].Open}}})
	check(t, err)
	for _, err := range []error{p.Few(10), p.Many(9000)} {
		if err == nil || !strings.Contains(err.Error(), "its public number is 5000") {
			t.Errorf("%v", err)
		}
	}
}
