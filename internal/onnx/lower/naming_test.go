package lower

import (
	"strings"
	"testing"
)

// Where an exporter wrote equal numbers of two normalizations once, no name stands for two parameters.
func TestNamesInFile(t *testing.T) {
	ones := []float32{1, 1, 1, 1}
	zeros := []float32{0, 0, 0, 0}
	for what, c := range map[string]struct {
		batch BatchNorm
		norm  func(g *graph, x, name string) string
		want  string
	}{
		"batch normalizations": {Grouped, func(g *graph, x, name string) string {
			mean := g.node("Identity", name+".running_mean", in("n1.bias"))
			return g.node("BatchNormalization", name, in(x, "n1.weight", "n1.bias", mean, "n1.weight"))
		}, "c1.weight c1.bias n1.weight n1.bias c2.weight c2.bias n2.weight n2.bias d.weight d.bias"},
		"other normalizations": {NoBatchNorm, func(g *graph, x, name string) string {
			return g.node("GroupNormalization", name, in(x, "n1.weight", "n1.bias"), number("num_groups", 2))
		}, "c1.weight c1.bias n1.weight n1.bias c2.weight c2.bias groupnorm2.weight_2 groupnorm2.bias d.weight d.bias"},
	} {
		g := records(2, 6, 6)
		g.floats("n1.weight", ones, 4)
		g.floats("n1.bias", zeros, 4)
		g.scalar("groupnorm2.weight", 0) // the file has that name for something else
		x := c.norm(g, g.conv("x", "c1", 2, 4), "n1")
		x = c.norm(g, g.conv(g.node("Relu", "r", in(x)), "c2", 4, 4), "n2")
		n := lowered(t, g.done(g.dense(flatOf(g, x), "d", 144, 3)), Choices{BatchNorm: c.batch})
		var names []string
		for _, q := range n.Program.Params {
			names = append(names, q.Node)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: names %s\nwant %s", what, got, c.want)
		}
	}
}

// A bias that shares its initializer with a batch normalization takes nothing from that one's names.
func TestNamesOfNorms(t *testing.T) {
	g := records(2, 6, 6)
	zero := g.floats("n.bias", []float32{0, 0, 0, 0}, 4)
	x := g.node("Conv", "c", in("x", g.param("c.weight", 4, 2, 3, 3), zero))
	x = g.node("BatchNormalization", "n", in(x, g.param("n.weight", 4), zero, g.param("n.running_mean", 4), g.param("v", 4)))
	n := lowered(t, g.done(g.dense(flatOf(g, x), "d", 64, 3)), Choices{BatchNorm: Grouped})
	for _, q := range n.Program.Params {
		if (q.Node == "n.bias") != (q.Name == "groupnorm1.bias") || q.Name == "conv1.bias" && q.Node != q.Name {
			t.Errorf("%s is %s in the file", q.Name, q.Node)
		}
	}
}
