package accountant

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
)

// golden holds divergences from an exact quadrature and the ε of both
// conversions over orders, for add-remove and Poisson sampling.
type golden struct {
	Orders  []float64
	Vectors []struct {
		Q, Sigma, Delta float64
		Steps           int
		EpsTight        float64            `json:"rdp_eps_cks"`
		EpsPaper        float64            `json:"rdp_eps_prop1"`
		EpsPLD          float64            `json:"pld_eps_pess_connect_dots"`
		RDP             map[string]float64 `json:"rdp_at_orders"` // of one step
	}
}

func readGolden(t *testing.T) golden {
	t.Helper()
	raw, err := os.ReadFile("testdata/sgm_epsilon.json")
	must(t, err)
	var g golden
	must(t, json.Unmarshal(raw, &g))
	if len(g.Vectors) == 0 {
		t.Fatal("no vectors")
	}
	return g
}

// failer is what testing.T and rapid.T share.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

// near fails unless got is want up to a relative error.
func near(t failer, what string, got, want, rel float64) {
	t.Helper()
	if !(math.Abs(got-want) <= rel*math.Abs(want)) {
		t.Errorf("%s: got %.17g, want %.17g within %g relative", what, got, want, rel)
	}
}

func account(t testing.TB, name string, n Neighbouring, delta float64, events ...Event) Result {
	t.Helper()
	r, err := Account(events, Options{Accountant: name, Neighbouring: n, Delta: delta})
	must(t, err)
	return r
}

func TestGoldenEpsilon(t *testing.T) {
	for _, v := range readGolden(t).Vectors {
		steps := PoissonBatch(v.Q, v.Steps, Gaussian{v.Sigma})
		near(t, "rdp", account(t, RDP, AddRemove, v.Delta, steps).Epsilon, v.EpsTight, 1e-9)
		near(t, "paper", account(t, Paper, AddRemove, v.Delta, steps).Epsilon, v.EpsPaper, 1e-9)
	}
}

func TestGoldenOrders(t *testing.T) {
	g := readGolden(t)
	if got := defaultOrders(); !slices.Equal(got, g.Orders) {
		t.Errorf("default orders are %v, want %v", got, g.Orders)
	}
	for _, v := range g.Vectors {
		if len(v.RDP) == 0 {
			t.Fatalf("q %v, sigma %v has no divergences", v.Q, v.Sigma)
		}
		for order, want := range v.RDP {
			a, err := strconv.ParseFloat(order, 64)
			must(t, err)
			delta := v.Delta
			r, err := Account([]Event{PoissonBatch(v.Q, 1, Gaussian{v.Sigma})},
				Options{Accountant: RDP, Neighbouring: AddRemove, Delta: delta, Order: a})
			must(t, err)
			near(t, "order "+order, *r.RDP, want, 1e-9)
		}
	}
}

// The sum over fractional binomial coefficients, taken without their signs,
// gives 6.37e-4 here.
func TestFractionalSeriesThatDropsSigns(t *testing.T) {
	near(t, "rdp", rdpSampledGaussian(0.1, 5, 1.5, AddRemove), 3.0545258736e-4, 1e-10)
	// Likewise at q=.01, sigma=2.5 over 50 steps.
	near(t, "order 1.5", 50*rdpSampledGaussian(0.01, 2.5, 1.5, AddRemove), 6.50070897e-4, 1e-8)
	near(t, "order 2.5", 50*rdpSampledGaussian(0.01, 2.5, 2.5, AddRemove), 1.08541806e-3, 1e-8)
}
