package btls

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// The figures of docs/proofs/line-search.md are this package's.
func TestDocumentedFigures(t *testing.T) {
	b, err := os.ReadFile("../../docs/proofs/line-search.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.ReplaceAll(string(b), "−", "-")
	row := func(r string) {
		if !strings.Contains(doc, r) {
			t.Errorf("the document has no row %q", r)
		}
	}
	for _, g := range goldens(t)[:4] {
		s := g.search(false)
		prime, d := g.queries()
		divergence := renyi(distribution(t, s, d, Gaussian), distribution(t, s, prime, Gaussian), g.Alpha)
		row(fmt.Sprintf("| %.3g | %.3g | %v | %d | %.4f | %.4f | **%.4f** | %.3g | %.4f |\n", g.S1*g.S1, g.S2*g.S2, g.Alpha, g.K,
			g.Level[0], g.Level[1], divergence, s.Theorem3RDP(g.Alpha), gaussianRDP(t, s, g.Alpha)))
	}
	for _, k := range []int{1, 5, 20, 22, 100, 2000, 100000} {
		r := fmt.Sprintf("| %d |", k)
		for _, shared := range []bool{true, false} {
			s := Search{math.Sqrt(3), math.Sqrt(6), k, shared}
			r += fmt.Sprintf(" %.3f | %.3f | %.3f |", math.Pow(mu(t, s), 2), gaussianRDP(t, s, 2), gaussianRDP(t, s, 8))
		}
		row(r + "\n")
	}
}
