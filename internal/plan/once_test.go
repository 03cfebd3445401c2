package plan

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/config"
)

// A fit takes as many records as are public. Where there are more, one that is added in front pushes another one
// out, which only replace-one prices.
func TestFitOfAPart(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		schema, relation string
		guarantee        bool
	}{
		{"test_share: 0.2\n", "add-remove", false}, {"test_share: 0.2\n", "replace-one", true}, {"", "add-remove", false}, {"", "replace-one", true},
	} {
		makeTable(t, c.schema)
		config := onAll(t, "outpert-gd", func(c *config.Config) { c.L2 = 0 })
		config.Relate(accountant.Neighbouring(c.relation))
		p, err := Resolve(config, Options{})
		if err != nil || p.Config.Neighbouring != c.relation {
			t.Fatalf("%q, %s: %v", c.schema, c.relation, err)
		}
		why := p.Guarantee.NoGuarantee
		if c.guarantee != (len(why) == 0) || !c.guarantee && !strings.Contains(why[0], "pushes another one out") {
			t.Errorf("%q, %s: %v", c.schema, c.relation, why)
		}
	}
	config := onAll(t, "outpert-gd", func(c *config.Config) { c.Init = "model.safetensors" })
	if _, err := Resolve(config, Options{}); err == nil || !strings.Contains(err.Error(), "begins at zero") {
		t.Errorf("a file of initial parameters: %v", err)
	}
}
