package accountant

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/accountant/internal/pld"
	"github.com/privgrad/privgrad/internal/usage"
)

// Mechanism is one noisy release. Values are immutable. A new one is a file
// with a type that has these methods, and a call of register.
type Mechanism interface {
	// Name is the "mechanism" of the JSON form; the other keys are those of
	// the type's fields.
	Name() string
	validate() error
	// bound is what is known of the release, asked of all records, where
	// neighbouring data sets move its input by distance times what one
	// record's presence does: 1 under add-remove, 2 under replace-one.
	bound(distance float64) (bound, error)
}

// A bound says by what a release is dominated: of mu, laplace, ranged and pure, the
// first that is above 0. What several mechanisms are dominated by together is
// the product of their bounds.
type bound struct {
	// mu: N(μ, 1) against N(0, 1) (μ-GDP: Dong, Roth and Su 2022).
	mu float64
	// laplace: Laplace noise of scale 1 at this distance.
	laplace float64
	// ranged is the length of an interval that holds the privacy loss.
	ranged float64
	// pure is the most that the privacy loss can be; randomised response loses
	// that much (Kairouz, Oh and Viswanath 2015, theorem 2.1).
	pure float64
	// rdp, where not nil, bounds the Rényi divergence of an order above 1 more
	// closely than the above does.
	rdp func(order float64) (float64, error)
}

func (b bound) renyi(order float64) (float64, error) {
	switch {
	case b.rdp != nil:
		return b.rdp(order)
	case b.mu > 0:
		return order * b.mu * b.mu / 2, nil
	case b.laplace > 0:
		return rdpLaplace(b.laplace, order), nil
	case b.ranged > 0:
		return rdpRanged(b.ranged, order), nil
	}
	return rdpPure(b.pure, order), nil
}

func (b bound) dominating() pld.Pair {
	switch {
	case b.mu > 0:
		return pld.Gaussian(b.mu)
	case b.laplace > 0:
		return pld.Laplace(b.laplace)
	case b.ranged > 0:
		return pld.Ranged(b.ranged)
	case b.pure > 0:
		return pld.Pure(b.pure)
	}
	return pld.Pure(math.Inf(1)) // no pair is known: nothing is promised
}

// joint is the μ of releases that are all Gaussian: √Σμ². 0 if one is not.
func joint(bounds []bound) float64 {
	// The squares of tiny ones would vanish.
	return sum(bounds, func(b bound) float64 { return b.mu }, math.Hypot)
}

// together is the ε of releases that are all (ε, 0)-private. 0 if one is not.
func together(bounds []bound) float64 {
	return sum(bounds, func(b bound) float64 { return b.pure }, func(x, y float64) float64 { return x + y })
}

// sum adds up a number of every bound; 0 if one lacks it.
func sum(bounds []bound, of func(bound) float64, add func(x, y float64) float64) (total float64) {
	for _, b := range bounds {
		if of(b) == 0 {
			return 0
		}
		total = add(total, of(b))
	}
	return total
}

// kinds are the mechanisms by name, each by a value that holds its defaults.
var kinds = map[string]Mechanism{}

// register makes mechanisms known to the JSON form; a field that is zero in
// its prototype and not "omitempty" must be given.
func register(prototypes ...Mechanism) (registered struct{}) {
	for _, p := range prototypes {
		kinds[p.Name()] = p
	}
	return
}

// Mechanisms lists the names of the mechanisms that events can hold.
func Mechanisms() []string { return slices.Sorted(maps.Keys(kinds)) }

// mechanism reads one; the keys besides belong to the event.
func (o object) mechanism(besides ...string) (Mechanism, error) {
	if !o.has("mechanism") {
		return nil, errors.New(`"mechanism" or "batch" is missing`)
	}
	var name string
	if err := o.read("mechanism", &name); err != nil {
		return nil, err
	}
	prototype, ok := kinds[name]
	if !ok {
		return nil, usage.Unknown("mechanism", name, Mechanisms())
	}
	m := reflect.New(reflect.TypeOf(prototype)).Elem()
	m.Set(reflect.ValueOf(prototype))
	known := append(besides, "mechanism")
	for i := range m.NumField() {
		if key, _ := key(m.Type().Field(i)); key != "-" {
			known = append(known, key)
		}
	}
	if err := o.only(known...); err != nil {
		return nil, err
	}
	for i := range m.NumField() {
		key, optional := key(m.Type().Field(i))
		if key == "-" {
			continue
		}
		if !o.has(key) && !optional && m.Field(i).IsZero() {
			return nil, fmt.Errorf("mechanism %s: %q is missing", name, key)
		}
		if err := o.read(key, m.Field(i).Addr().Interface()); err != nil {
			return nil, fmt.Errorf("mechanism %s: %w", name, err)
		}
	}
	return m.Interface().(Mechanism), nil
}

// key is a field's name in JSON, "-" for none.
func key(f reflect.StructField) (name string, optional bool) {
	name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, option == "omitempty"
}

func positive(name string, x float64) error {
	if !(x > 0) || math.IsInf(x, 1) {
		return fmt.Errorf("%s %v: must be a finite number above 0", name, x)
	}
	return nil
}
