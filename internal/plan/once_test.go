package plan

import (
	"strings"
	"testing"
)

// Where a part of the table is held out, more records may be left than are public of, and a fit does not
// take them: one that is removed makes room for another, which only replace-one prices.
func TestFitOfAPart(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		schema, relation string
		refused          bool
	}{
		{"test_share: 0.2\n", "add-remove", true}, {"test_share: 0.2\n", "replace-one", false}, {"", "add-remove", false},
	} {
		makeTable(t, c.schema)
		config := onAll(t, "outpert-gd", func(c *Config) { c.L2 = 0 })
		config.Neighbouring = c.relation
		config.give("neighbouring")
		p, err := Resolve(config, Options{})
		switch {
		case c.refused && (err == nil || !strings.Contains(err.Error(), "held out")):
			t.Errorf("%q, %s: %v", c.schema, c.relation, err)
		case !c.refused && (err != nil || p.Config.Neighbouring != c.relation):
			t.Errorf("%q, %s: %v", c.schema, c.relation, err)
		}
	}
	config := onAll(t, "outpert-gd", func(c *Config) { c.Init = "model.safetensors" })
	if _, err := Resolve(config, Options{}); err == nil || !strings.Contains(err.Error(), "begins at zero") {
		t.Errorf("a file of initial parameters: %v", err)
	}
}
